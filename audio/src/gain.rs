//! Louder and softer, without hard clipping.

/// Permitted level changes, in dB.
const RANGE: std::ops::RangeInclusive<f32> = -96.0..=16.0;

/// Level from which the limiter acts: 2 dB below full scale.
const KNEE: f32 = 0.8;

/// A change of level that cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("gain is {got} dB, expected {} to {} dB", RANGE.start(), RANGE.end())]
pub struct GainError {
    /// Requested change, in dB.
    pub got: f32,
}

/// A change of level in dB; none by default.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Gain(f32);

impl Gain {
    /// # Errors
    /// [`GainError`] outside -96 to +16 dB.
    pub fn new(db: f32) -> Result<Self, GainError> {
        if RANGE.contains(&db) {
            Ok(Self(db))
        } else {
            Err(GainError { got: db })
        }
    }

    /// In dB.
    pub fn db(self) -> f32 {
        self.0
    }

    /// Changes the level of `samples`. What becomes louder is limited softly: up to 2 dB below full scale nothing is
    /// bent, and full scale is never reached. A sample's result depends on that sample alone.
    pub(crate) fn apply(self, samples: &mut [f32]) {
        if self.0 == 0.0 {
            return;
        }
        let factor = 10f32.powf(self.0 / 20.0);
        if self.0 > 0.0 {
            samples
                .iter_mut()
                .for_each(|sample| *sample = limited(*sample * factor));
        } else {
            samples.iter_mut().for_each(|sample| *sample *= factor);
        }
    }
}

/// Linear up to the knee, then a hyperbolic tangent of the same slope towards full scale.
fn limited(sample: f32) -> f32 {
    let above = sample.abs() - KNEE;
    if above > 0.0 {
        (KNEE + (1.0 - KNEE) * (above / (1.0 - KNEE)).tanh()).copysign(sample)
    } else {
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    fn sine(amplitude: f32) -> Vec<f32> {
        (0..24_000).map(|n| amplitude * (n as f32 * 0.05).sin()).collect()
    }

    fn after(db: f32, mut samples: Vec<f32>) -> Level {
        Gain::new(db).unwrap().apply(&mut samples);
        Level::of(&samples)
    }

    #[test]
    fn levels_change_by_what_was_asked_for() {
        let before = Level::of(&sine(0.2)).rms_dbfs();
        for db in [-30.0, -6.0, 6.0, 10.0] {
            let change = after(db, sine(0.2)).rms_dbfs() - before;
            assert!((change - db).abs() < 0.01, "{change} dB instead of {db}");
        }
    }

    #[test]
    fn nothing_is_bent_when_nothing_is_asked_for() {
        let mut samples = vec![1.5, -0.95, 0.3];
        Gain::default().apply(&mut samples);
        assert_eq!(samples, [1.5, -0.95, 0.3]);
    }

    #[test]
    fn the_loudest_stays_below_full_scale_and_in_order() {
        let level = after(16.0, sine(1.0));
        assert!(level.peak() <= 1.0 && level.peak() > 0.99);
        let mut steps: Vec<f32> = (0..1_000).map(|n| n as f32 / 2_000.0).collect();
        Gain::new(6.0).unwrap().apply(&mut steps);
        assert!(steps.windows(2).all(|pair| pair[1] > pair[0]));
        // Without a corner where limiting begins.
        let slopes: Vec<f32> = steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(slopes.windows(2).all(|pair| (pair[1] - pair[0]).abs() < 2e-5));
    }

    #[test]
    fn levels_out_of_range_are_refused_with_the_range() {
        for db in [16.1, -97.0, f32::NAN, f32::INFINITY] {
            assert!(Gain::new(db).is_err(), "{db}");
        }
        let told = Gain::new(20.0).unwrap_err().to_string();
        assert_eq!(told, "gain is 20 dB, expected -96 to 16 dB");
    }
}
