//! Level of audio: peak, root mean square and clipping.

/// Level statistics of all samples so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Level {
    count: u64,
    clipped: u64,
    peak: f32,
    energy: f64,
}

impl Level {
    /// The level of `samples`.
    pub fn of(samples: &[f32]) -> Self {
        let mut level = Self::default();
        level.add(samples);
        level
    }

    /// Takes more samples into account.
    pub fn add(&mut self, samples: &[f32]) {
        self.count += samples.len() as u64;
        for &sample in samples {
            self.peak = self.peak.max(sample.abs());
            self.energy += f64::from(sample) * f64::from(sample);
            self.clipped += u64::from(sample.abs() >= 1.0);
        }
    }

    /// The largest magnitude, 1.0 at full scale.
    pub fn peak(&self) -> f32 {
        self.peak
    }

    /// The root mean square, 1.0 for a full-scale square wave; zero without samples.
    pub fn rms(&self) -> f32 {
        if self.count == 0 {
            0.0
        } else {
            (self.energy / self.count as f64).sqrt() as f32
        }
    }

    /// The root mean square in dB below full scale (a full-scale sine is at -3.01); negative infinity for silence.
    pub fn rms_dbfs(&self) -> f32 {
        dbfs(self.rms())
    }

    /// Samples at or beyond full scale, which conversion to integers would clip.
    pub fn clipped(&self) -> u64 {
        self.clipped
    }
}

fn dbfs(amplitude: f32) -> f32 {
    20.0 * amplitude.log10()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sine(amplitude: f32) -> Vec<f32> {
        (0..24_000)
            .map(|i| amplitude * (i as f32 * 440.0 * std::f32::consts::TAU / 24_000.0).sin())
            .collect()
    }

    #[test]
    fn a_full_scale_sine_is_at_minus_three_decibels() {
        let level = Level::of(&sine(1.0));
        assert!((level.rms_dbfs() + 3.0103).abs() < 0.01, "{}", level.rms_dbfs());
    }

    #[test]
    fn half_the_amplitude_is_six_decibels_less() {
        let loud = Level::of(&sine(0.8)).rms_dbfs();
        assert!((loud - Level::of(&sine(0.4)).rms_dbfs() - 6.0206).abs() < 0.01);
    }

    #[test]
    fn silence_is_negative_infinity_and_no_audio_has_no_level() {
        assert_eq!(Level::of(&[0.0; 10]).rms_dbfs(), f32::NEG_INFINITY);
        assert_eq!(Level::of(&[]).rms(), 0.0);
    }

    #[test]
    fn clipping_counts_samples_at_full_scale() {
        assert_eq!(Level::of(&[0.5, 1.0, -1.2, 0.999]).clipped(), 2);
    }

    #[test]
    fn adding_in_pieces_equals_the_whole() {
        let samples = sine(0.7);
        let mut level = Level::default();
        samples.chunks(77).for_each(|chunk| level.add(chunk));
        assert_eq!(level, Level::of(&samples));
    }
}
