//! Loudness of speech (ITU-R BS.1770-4, which EBU R 128 builds on), and normalising a recording to a loudness.

use bs1770::{ChannelLoudnessMeter, gated_mean};

use crate::level::Level;
use crate::units::SampleRate;

/// Permitted loudness, in LUFS.
const RANGE: std::ops::RangeInclusive<f32> = -40.0..=-10.0;
/// No sample is brought above this: half a dB below full scale.
const HIGHEST: f32 = 0.944;

/// Loudness outside the range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("loudness is {got} LUFS, expected {} to {} LUFS", RANGE.start(), RANGE.end())]
pub struct LoudnessError {
    /// Requested loudness, in LUFS.
    pub got: f32,
}

/// Integrated loudness in LUFS. Pauses do not count: blocks 10 dB below the average are left out.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Loudness(f32);

impl Loudness {
    /// # Errors
    /// [`LoudnessError`] outside -40 to -10 LUFS.
    pub fn new(lufs: f32) -> Result<Self, LoudnessError> {
        if RANGE.contains(&lufs) {
            Ok(Self(lufs))
        } else {
            Err(LoudnessError { got: lufs })
        }
    }

    /// Loudness of mono samples; `None` if shorter than 0.4 s or below -70 LUFS.
    pub fn of(samples: &[f32], rate: SampleRate) -> Option<Self> {
        let mut meter = ChannelLoudnessMeter::new(rate.hz());
        meter.push(samples.iter().copied());
        let loudness = gated_mean(meter.as_100ms_windows()).loudness_lkfs();
        loudness.is_finite().then_some(Self(loudness))
    }

    /// In LUFS.
    pub fn lufs(self) -> f32 {
        self.0
    }

    /// Brings mono samples to this loudness by one factor, or as near as their highest peak lets them: nothing is
    /// bent. Samples that have no loudness stay as they are.
    pub fn apply(self, samples: &mut [f32], rate: SampleRate) {
        let Some(found) = Self::of(samples, rate) else {
            return;
        };
        let factor = 10f32.powf((self.0 - found.0) / 20.0);
        let most = HIGHEST / Level::of(samples).peak().max(f32::MIN_POSITIVE);
        let factor = factor.min(most);
        samples.iter_mut().for_each(|sample| *sample *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate() -> SampleRate {
        SampleRate::new(24_000).unwrap()
    }

    /// A tone of 1 kHz, whose loudness is its level (the standard's calibration).
    fn tone(amplitude: f32, seconds: usize) -> Vec<f32> {
        let step = std::f32::consts::TAU * 997.0 / 24_000.0;
        (0..24_000 * seconds)
            .map(|n| amplitude * (n as f32 * step).sin())
            .collect()
    }

    fn lufs(samples: &[f32]) -> f32 {
        Loudness::of(samples, rate()).unwrap().lufs()
    }

    #[test]
    fn a_tone_is_as_loud_as_the_standard_says() {
        // In one channel a sine of full scale has -3.01 LUFS.
        assert!((lufs(&tone(1.0, 3)) + 3.01).abs() < 0.1);
        assert!((lufs(&tone(0.1, 3)) + 23.01).abs() < 0.1);
    }

    #[test]
    fn pauses_make_nothing_softer_and_silence_has_no_loudness() {
        let said = tone(0.1, 3);
        let paused = [said.clone(), vec![0.0; 72_000], said.clone()].concat();
        assert!((lufs(&paused) - lufs(&said)).abs() < 0.3);
        assert_eq!(Loudness::of(&vec![0.0; 48_000], rate()), None);
        assert_eq!(Loudness::of(&said[..4_800], rate()), None, "too short");
    }

    #[test]
    fn recordings_come_to_one_loudness_by_a_factor_and_are_never_bent() {
        let target = Loudness::new(-19.0).unwrap();
        for amplitude in [0.01, 0.1, 0.9] {
            let mut samples = tone(amplitude, 2);
            let before = samples.clone();
            target.apply(&mut samples, rate());
            assert!((lufs(&samples) + 19.0).abs() < 0.1, "{amplitude}");
            let factor = samples[7] / before[7];
            assert!(
                samples
                    .iter()
                    .zip(&before)
                    .all(|(a, b)| (a - factor * b).abs() < 1e-5)
            );
        }
        // One peak bounds all.
        let mut soft = tone(0.01, 2);
        soft[100] = 0.5;
        target.apply(&mut soft, rate());
        assert!((Level::of(&soft).peak() - HIGHEST).abs() < 1e-4 && lufs(&soft) < -30.0);
        let mut silence = vec![0.0; 48_000];
        target.apply(&mut silence, rate());
        assert!(silence.iter().all(|sample| *sample == 0.0));
    }

    #[test]
    fn other_loudness_is_refused_with_the_range() {
        for lufs in [-41.0, -9.0, f32::NAN] {
            let told = Loudness::new(lufs).unwrap_err().to_string();
            assert!(told.contains("-40 to -10 LUFS"), "{told}");
        }
    }
}
