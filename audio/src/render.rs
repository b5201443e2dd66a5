//! From samples as a model makes them to samples as a listener wants them: speed, then rate, then level.

use crate::gain::Gain;
use crate::resample::Resampler;
use crate::stretch::{Speed, Stretcher};
use crate::units::{SampleRate, Samples};

/// Changes that a listener asks for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rendering {
    /// Speed of speech.
    pub speed: Speed,
    /// Level change.
    pub gain: Gain,
}

/// Maps positions of the generated audio to positions of the output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timeline {
    made: SampleRate,
    heard: SampleRate,
    speed: Speed,
    delay: Samples,
}

impl Timeline {
    /// Speech made at one rate and heard at another, at this speed.
    pub fn new(made: SampleRate, heard: SampleRate, speed: Speed) -> Self {
        Self {
            made,
            heard,
            speed,
            delay: Samples::ZERO,
        }
    }

    /// Delays all positions by `delay`, in output samples.
    #[must_use]
    pub fn delayed(self, delay: Samples) -> Self {
        Self { delay, ..self }
    }

    /// Number of samples output by the time that `made` generated samples were played; never more than there are of
    /// these. At another speed than 1 a sound may lie 12 ms beside it.
    pub fn heard(&self, made: Samples) -> Samples {
        let factor = f64::from(self.heard.hz()) / f64::from(self.made.hz()) / f64::from(self.speed.factor());
        let heard = match factor == 1.0 {
            true => made,
            // A cast saturates.
            false => Samples((made.0 as f64 * factor).floor() as u64),
        };
        Samples(heard.0.saturating_add(self.delay.0))
    }
}

/// The state of one utterance.
#[derive(Debug)]
pub struct Renderer {
    stretcher: Stretcher,
    resampler: Resampler,
    gain: Gain,
    scratch: Vec<f32>,
}

impl Renderer {
    /// From samples at `from` to samples at `to`.
    pub fn new(from: SampleRate, to: SampleRate, rendering: Rendering) -> Self {
        Self {
            stretcher: Stretcher::new(from, rendering.speed),
            resampler: Resampler::new(from, to),
            gain: rendering.gain,
            scratch: Vec::new(),
        }
    }

    /// Adds samples; appends available output to `out`.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        let before = out.len();
        self.scratch.clear();
        self.stretcher.push(samples, &mut self.scratch);
        self.resampler.push(&self.scratch, out);
        self.gain.apply(&mut out[before..]);
    }

    /// Ends the utterance: appends the rest.
    pub fn finish(self, out: &mut Vec<f32>) {
        let Self {
            stretcher,
            mut resampler,
            gain,
            mut scratch,
        } = self;
        let before = out.len();
        scratch.clear();
        stretcher.finish(&mut scratch);
        resampler.push(&scratch, out);
        resampler.finish(out);
        gain.apply(&mut out[before..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    fn rate(hz: u32) -> SampleRate {
        SampleRate::new(hz).unwrap()
    }

    fn rendered(rendering: Rendering, chunk: usize) -> Vec<f32> {
        let tone: Vec<f32> = (0..24_000).map(|n| 0.4 * (n as f32 * 0.06).sin()).collect();
        let mut renderer = Renderer::new(rate(24_000), rate(16_000), rendering);
        let mut out = Vec::new();
        tone.chunks(chunk)
            .for_each(|piece| renderer.push(piece, &mut out));
        renderer.finish(&mut out);
        out
    }

    #[test]
    fn speed_rate_and_level_are_changed_together_whatever_the_chunks() {
        let rendering = Rendering {
            speed: Speed::new(1.6).unwrap(),
            gain: Gain::new(-6.0).unwrap(),
        };
        let out = rendered(rendering, 1_920);
        assert_eq!(out.len(), 10_000);
        let level = Level::of(&out[1_000..9_000]).rms_dbfs();
        assert!((level - (-8.0 - 3.0 - 6.0)).abs() < 0.2, "{level} dB");
        assert_eq!(out, rendered(rendering, 77));
    }

    #[test]
    fn what_was_made_is_found_in_what_is_heard() {
        let timeline = Timeline::new(rate(24_000), rate(8_000), Speed::new(2.0).unwrap());
        assert_eq!(timeline.heard(Samples(48_000)), Samples(8_000));
        assert_eq!(
            timeline.delayed(Samples(52)).heard(Samples(48_000)),
            Samples(8_052)
        );
        let same = Timeline::new(rate(24_000), rate(24_000), Speed::default());
        assert_eq!(same.heard(Samples(u64::MAX)), Samples(u64::MAX));
    }

    #[test]
    fn all_that_was_made_is_heard_within_what_there_is_to_hear() {
        for hz in [8_000, 11_025, 22_050, 44_100, 48_000] {
            for speed in [0.5, 0.77, 1.0, 1.1, 1.6, 1.99] {
                let speed = Speed::new(speed).unwrap();
                let timeline = Timeline::new(rate(24_000), rate(hz), speed);
                for made in (1..100_000).step_by(997).map(Samples) {
                    let heard = Resampler::covering(speed.shortened(made), rate(24_000), rate(hz));
                    assert!(timeline.heard(made) <= heard, "{made} at {hz} Hz and {speed:?}");
                }
            }
        }
    }
}
