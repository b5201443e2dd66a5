//! Time stretching: faster and slower speech at the same pitch, as a stream.
//!
//! Overlapping frames of the speech are placed closer together or further apart, each moved by up to 12 ms to where
//! it best continues the one before (WSOLA: Verhelst and Roelands, 1993; crate `wsola`). In: samples in any chunking.
//! Out: the same speech, its length divided by the speed to the sample; the result does not depend on the chunking.
//! The delay is about 60 ms.

use std::num::{NonZeroU16, NonZeroU32};
use std::ops::RangeInclusive;

use wsola::TimeStretch;

use crate::units::{SampleRate, Samples};

const RANGE: RangeInclusive<f32> = 0.25..=4.0;
/// Steps of silence appended to flush the end: a frame is two steps long and moves by less than one.
const TAIL: usize = 4;

/// A speed that speech cannot have.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("speed is {got}, expected {} to {}", RANGE.start(), RANGE.end())]
pub struct SpeedError {
    /// Requested speed.
    pub got: f32,
}

/// Speed of speech; 1 leaves it as it was made.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Speed(f32);

impl Default for Speed {
    fn default() -> Self {
        Self(1.0)
    }
}

impl Speed {
    /// # Errors
    /// [`SpeedError`] outside 0.25 to 4.
    pub fn new(speed: f32) -> Result<Self, SpeedError> {
        if RANGE.contains(&speed) {
            Ok(Self(speed))
        } else {
            Err(SpeedError { got: speed })
        }
    }

    /// The speed as a factor.
    pub fn factor(self) -> f32 {
        self.0
    }

    /// Number of samples that cover the output for `samples` of input.
    pub fn shortened(self, samples: Samples) -> Samples {
        Samples((samples.0 as f64 / f64::from(self.0)).ceil() as u64)
    }
}

/// The state of one stream.
#[derive(Debug)]
pub struct Stretcher {
    speed: Speed,
    /// Absent where nothing is changed.
    inner: Option<Box<Inner>>,
}

#[derive(Debug)]
struct Inner {
    frames: TimeStretch,
    /// One step of output.
    step: Vec<f32>,
    /// The first step fades in. It is silence that was put before the speech, and is dropped.
    skip: usize,
    taken: Samples,
    given: Samples,
}

impl Stretcher {
    /// For samples at `rate`.
    pub fn new(rate: SampleRate, speed: Speed) -> Self {
        Self {
            speed,
            inner: (speed != Speed::default()).then(|| Box::new(Inner::new(rate, speed))),
        }
    }

    /// Adds samples; appends available output to `out`.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        match &mut self.inner {
            None => out.extend_from_slice(samples),
            Some(inner) => {
                inner.taken += Samples::of(samples);
                inner.frames.push(samples);
                inner.pull(out);
            }
        }
    }

    /// Ends the stream: appends the rest.
    pub fn finish(self, out: &mut Vec<f32>) {
        let Some(mut inner) = self.inner else { return };
        let due = self.speed.shortened(inner.taken);
        let silence = (TAIL as f32 * (1.0 + self.speed.0)).ceil() as usize * inner.step.len();
        inner.frames.push(&vec![0.0; silence]);
        inner.frames.set_draining();
        inner.pull(out);
        let end = out.len() + due.len() - inner.given.len();
        // Speech too short for a single frame is silence.
        out.resize(end, 0.0);
    }
}

impl Inner {
    fn new(rate: SampleRate, speed: Speed) -> Self {
        let hz = NonZeroU32::new(rate.hz()).unwrap_or(NonZeroU32::MIN);
        let mut frames =
            TimeStretch::new(hz, NonZeroU16::MIN).expect("every rate and number of channels is taken");
        frames.set_tempo(speed.0);
        let step = frames.min_output_buff_size();
        frames.push(&vec![0.0; step]);
        Self {
            frames,
            step: vec![0.0; step],
            skip: step,
            taken: Samples::ZERO,
            given: Samples::ZERO,
        }
    }

    fn pull(&mut self, out: &mut Vec<f32>) {
        // It ends with an error where there is not enough for another step.
        while let Ok(made) = self.frames.pull(&mut self.step) {
            let skipped = made.min(self.skip);
            self.skip -= skipped;
            self.given += Samples((made - skipped) as u64);
            out.extend_from_slice(&self.step[skipped..made]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;
    use proptest::prelude::*;
    use std::f64::consts::TAU;

    const RATE: u32 = 24_000;

    fn rate() -> SampleRate {
        SampleRate::new(RATE).unwrap()
    }

    fn sine(hz: f64, seconds: f64) -> Vec<f32> {
        (0..(seconds * f64::from(RATE)) as usize)
            .map(|n| (0.4 * (TAU * hz * n as f64 / f64::from(RATE)).sin()) as f32)
            .collect()
    }

    /// Harmonics of a voice whose pitch glides, louder and softer as syllables are.
    fn voice(seconds: f64) -> Vec<f32> {
        let mut phase = 0.0;
        (0..(seconds * f64::from(RATE)) as usize)
            .map(|n| {
                let t = n as f64 / f64::from(RATE);
                phase += (120.0 + 30.0 * (TAU * 0.7 * t).sin()) / f64::from(RATE);
                let loud = 0.55 + 0.45 * (TAU * 4.0 * t).sin();
                let tone: f64 = (1..12)
                    .map(|k| (TAU * f64::from(k) * phase).sin() / f64::from(k))
                    .sum();
                (0.2 * loud * tone) as f32
            })
            .collect()
    }

    fn stretched(samples: &[f32], speed: f32, chunk: usize) -> Vec<f32> {
        let mut stretcher = Stretcher::new(rate(), Speed::new(speed).unwrap());
        let mut out = Vec::new();
        samples
            .chunks(chunk.max(1))
            .for_each(|piece| stretcher.push(piece, &mut out));
        stretcher.finish(&mut out);
        out
    }

    /// Frequency of a tone, from its phase advance between the two halves of the middle part.
    fn frequency(samples: &[f32], near: f64) -> f64 {
        let len = 8_192;
        let middle = &samples[samples.len() / 2 - len..samples.len() / 2 + len];
        let phase = |part: &[f32], from: usize| {
            let mut re = 0.0;
            let mut im = 0.0;
            for (n, &sample) in part.iter().enumerate() {
                // A window, so that what lies beside the tone does not turn it.
                let window = 0.5 - 0.5 * (TAU * n as f64 / part.len() as f64).cos();
                let angle = TAU * near * (from + n) as f64 / f64::from(RATE);
                re += window * f64::from(sample) * angle.cos();
                im -= window * f64::from(sample) * angle.sin();
            }
            im.atan2(re)
        };
        let turn = phase(&middle[len..], len) - phase(&middle[..len], 0);
        let turn = (turn + TAU / 2.0).rem_euclid(TAU) - TAU / 2.0;
        near + turn / TAU * f64::from(RATE) / len as f64
    }

    #[test]
    fn the_pitch_stays_within_two_cents() {
        for speed in [0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0] {
            for hz in [90.0, 220.0, 440.0, 1_000.0] {
                let out = stretched(&sine(hz, 4.0), speed, 1_920);
                let cents = 1_200.0 * (frequency(&out, hz) / hz).log2();
                assert!(cents.abs() < 2.0, "{hz} Hz at {speed}: {cents} cents");
            }
        }
    }

    #[test]
    fn the_level_stays() {
        let voice = voice(3.0);
        let before = Level::of(&voice).rms_dbfs();
        for speed in [0.25, 0.5, 0.8, 1.3, 2.0, 4.0] {
            let after = Level::of(&stretched(&voice, speed, 1_920)).rms_dbfs();
            assert!((after - before).abs() < 0.7, "{before} dB, {after} dB at {speed}");
        }
    }

    #[test]
    fn speech_begins_and_ends_with_its_first_and_last_sound() {
        for speed in [0.25, 0.5, 1.5, 2.0, 4.0] {
            let out = stretched(&sine(300.0, 1.0), speed, 480);
            let window = (rate().hz() / 50) as usize;
            for part in [&out[..window], &out[out.len() - 2 * window..out.len() - window]] {
                assert!(Level::of(part).rms_dbfs() > -18.0, "{speed}");
            }
        }
    }

    #[test]
    fn speed_one_changes_nothing() {
        let voice = voice(0.3);
        assert_eq!(stretched(&voice, 1.0, 77), voice);
    }

    #[test]
    fn the_silence_between_words_stays_silent() {
        let speech = [sine(200.0, 0.5), vec![0.0; RATE as usize / 2], sine(200.0, 0.5)].concat();
        let out = stretched(&speech, 0.5, 1_000);
        let middle = out.len() / 2;
        assert!(
            out[middle - 7_000..middle + 7_000]
                .iter()
                .all(|&sample| sample == 0.0)
        );
    }

    #[test]
    fn speeds_out_of_range_are_refused_with_the_range() {
        for speed in [0.24, 4.01, 0.0, -1.0, f32::NAN] {
            assert!(Speed::new(speed).is_err(), "{speed}");
        }
        let told = Speed::new(5.0).unwrap_err().to_string();
        assert_eq!(told, "speed is 5, expected 0.25 to 4");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn chunks_change_nothing_and_the_length_is_exact(
            seconds in 0.0f64..0.4,
            chunk in 1usize..4_000,
            speed in 0.25f32..=4.0,
        ) {
            let voice = voice(seconds);
            let out = stretched(&voice, speed, chunk);
            prop_assert_eq!(&out, &stretched(&voice, speed, usize::MAX));
            prop_assert_eq!(Samples::of(&out), Speed::new(speed).unwrap().shortened(Samples::of(&voice)));
        }
    }
}
