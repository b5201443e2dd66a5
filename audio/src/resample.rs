//! Sample rate conversion, as a stream.
//!
//! Band-limited interpolation by a windowed sinc (rubato). In: samples in any chunking. Out: the same sound at the
//! other rate, its first sample at the time of the first input sample, and exactly as many samples as cover the
//! duration. The filter works on blocks of a fixed size counted from the first sample, so that the result is
//! bit-identical for any chunking. The delay is half the filter's length (5 ms; proportionally more if the output
//! rate is lower) plus at most one block.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Async, FixedAsync, Resampler as _, SincInterpolationParameters, SincInterpolationType, WindowFunction,
};

use crate::units::{SampleRate, Samples};

/// Length of the filter in periods of the lower rate. With the window below, what lies above half of that rate is
/// lower by 100 dB and more, and what lies below 94 % of it is not changed.
const PERIODS: usize = 256;
/// Input samples per step of the filter.
const BLOCK: usize = 128;
/// Filters that are computed exactly; rates whose ratio needs more share this many and what lies between is
/// interpolated.
const MOST_PHASES: u64 = 512;
const SHARED_PHASES: usize = 128;
/// Most zeros that are put before the first sample.
const MOST_LEAD: u64 = 1_024;

/// The state of one stream.
#[derive(Debug)]
pub struct Resampler {
    /// `None` if both rates are equal.
    filter: Option<Box<Filter>>,
}

#[derive(Debug)]
struct Filter {
    from: u64,
    to: u64,
    inner: Async<f32>,
    /// Input for the next step.
    block: Vec<f32>,
    step: Vec<f32>,
    /// Output that precedes the first sample.
    skip: usize,
    taken: u64,
    given: u64,
}

impl Resampler {
    /// From samples at `from` to samples at `to`.
    pub fn new(from: SampleRate, to: SampleRate) -> Self {
        Self {
            filter: (from != to).then(|| Box::new(Filter::new(from, to))),
        }
    }

    /// Adds samples; appends available output to `out`.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        match &mut self.filter {
            None => out.extend_from_slice(samples),
            Some(filter) => {
                filter.taken += samples.len() as u64;
                filter.push(samples, out);
            }
        }
    }

    /// Ends the stream: appends the rest, so that the output covers the input's duration.
    pub fn finish(self, out: &mut Vec<f32>) {
        if let Some(mut filter) = self.filter {
            filter.drain(out);
        }
    }

    /// Number of samples at `to` that cover `samples` at `from`.
    pub fn covering(samples: Samples, from: SampleRate, to: SampleRate) -> Samples {
        let exact = (u128::from(samples.0) * u128::from(to.hz())).div_ceil(u128::from(from.hz()));
        Samples(u64::try_from(exact).unwrap_or(u64::MAX))
    }
}

impl Filter {
    fn new(from: SampleRate, to: SampleRate) -> Self {
        let (from, to) = (u64::from(from.hz()), u64::from(to.hz()));
        let divisor = gcd(from, to);
        let down = from / divisor;
        let up = to / divisor;
        let exact = up <= MOST_PHASES;
        let phases = if exact { up as usize } else { SHARED_PHASES };
        // A multiple of 8, as the library wants it.
        let len = (PERIODS as u64 * from).div_ceil(from.min(to)).next_multiple_of(8) as usize;
        let parameters = SincInterpolationParameters {
            oversampling_factor: phases,
            interpolation: if exact {
                SincInterpolationType::Nearest
            } else {
                SincInterpolationType::Cubic
            },
            ..SincInterpolationParameters::new(len, WindowFunction::BlackmanHarris2)
        };
        let ratio = to as f64 / from as f64;
        let inner = Async::new_sinc(ratio, 1.0, &parameters, BLOCK, 1, FixedAsync::Input)
            .expect("rates are positive and the block is not empty");
        let (lead, skip) = alignment(len, phases, ratio, (down, up));
        let mut block = Vec::with_capacity(BLOCK);
        let mut filter = Self {
            from,
            to,
            step: vec![0.0; inner.output_frames_max()],
            inner,
            block: Vec::new(),
            skip,
            taken: 0,
            given: 0,
        };
        block.resize(lead % BLOCK, 0.0);
        filter.block = block;
        let mut none = Vec::new();
        for _ in 0..lead / BLOCK {
            filter.push(&[0.0; BLOCK], &mut none);
        }
        filter
    }

    fn push(&mut self, mut samples: &[f32], out: &mut Vec<f32>) {
        while !samples.is_empty() {
            let (now, later) = samples.split_at(samples.len().min(BLOCK - self.block.len()));
            self.block.extend_from_slice(now);
            if self.block.len() == BLOCK {
                self.step(out);
                self.block.clear();
            }
            samples = later;
        }
    }

    fn step(&mut self, out: &mut Vec<f32>) {
        let input = InterleavedSlice::new(&self.block[..], 1, BLOCK).expect("a block is full");
        let room = self.step.len();
        let mut output = InterleavedSlice::new_mut(&mut self.step[..], 1, room).expect("one channel");
        let (_, made) = self
            .inner
            .process_into_buffer(&input, &mut output, None)
            .expect("a block of the size that was agreed on, and room for what it gives");
        let skipped = made.min(self.skip);
        self.skip -= skipped;
        self.given += (made - skipped) as u64;
        out.extend_from_slice(&self.step[skipped..made]);
    }

    fn drain(&mut self, out: &mut Vec<f32>) {
        let due = (u128::from(self.taken) * u128::from(self.to)).div_ceil(u128::from(self.from)) as u64;
        while self.given < due {
            self.push(&[0.0; BLOCK], out);
        }
        let surplus = (self.given - due) as usize;
        out.truncate(out.len() - surplus);
    }
}

/// Zeros to put before the input and outputs to drop before the first, so that the first output lies at the time of
/// the first input.
///
/// Output k of the library lies `(k + 1) / ratio - len / 2 + 1 / phases` input samples after the first input; a test
/// holds the library to that. With the right number of zeros before it, one output lies exactly on the first input;
/// where that would take too many, the nearest one is taken (off by less than half an output sample).
fn alignment(len: usize, phases: usize, ratio: f64, (down, up): (u64, u64)) -> (usize, usize) {
    if phases as u64 == up && down <= MOST_LEAD {
        // (skip + 1) * down = (len / 2 + lead) * up - 1, in units of 1 / up input samples.
        for lead in 0..down {
            let units = (len as u64 / 2 + lead) * up - 1;
            if units.is_multiple_of(down) {
                return (lead as usize, (units / down) as usize - 1);
            }
        }
    }
    let skip = (len as f64 / 2.0 - 1.0 / phases as f64) * ratio - 1.0;
    (0, skip.round() as usize)
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;
    use proptest::prelude::*;
    use std::f64::consts::TAU;

    fn rate(hz: u32) -> SampleRate {
        SampleRate::new(hz).unwrap()
    }

    fn sine(hz: f64, at: u32, samples: usize) -> Vec<f32> {
        (0..samples)
            .map(|n| (0.5 * (TAU * hz * n as f64 / f64::from(at)).sin()) as f32)
            .collect()
    }

    fn resampled(samples: &[f32], from: u32, to: u32, chunk: usize) -> Vec<f32> {
        let mut resampler = Resampler::new(rate(from), rate(to));
        let mut out = Vec::new();
        samples
            .chunks(chunk.max(1))
            .for_each(|piece| resampler.push(piece, &mut out));
        resampler.finish(&mut out);
        out
    }

    const COMMON: [u32; 9] = [
        8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000,
    ];

    #[test]
    fn a_tone_is_the_same_tone_at_the_same_time_at_every_rate() {
        for from in [16_000, 24_000, 48_000] {
            for to in COMMON.into_iter().chain([23_999, 47_998]) {
                let len = from as usize / 2;
                let out = resampled(&sine(1_000.0, from, len), from, to, 1_000);
                let expected = sine(1_000.0, to, out.len());
                // The tone's sudden ends are no tone.
                let inner = out.len() / 8..out.len() * 7 / 8;
                let error: Vec<f32> = inner.map(|n| out[n] - expected[n]).collect();
                let error = Level::of(&error).rms_dbfs();
                // A ratio without exact filters may be off by half a sample of the output.
                let most = if COMMON.contains(&to) { -85.0 } else { -20.0 };
                assert!(error < most, "{from} to {to}: {error} dB");
            }
        }
    }

    #[test]
    fn what_the_lower_rate_cannot_carry_is_taken_away() {
        let out = resampled(&sine(6_000.0, 24_000, 24_000), 24_000, 8_000, 500);
        let level = Level::of(&out[500..out.len() - 500]).rms_dbfs();
        assert!(level < -90.0, "{level} dB");
        // What telephones carry stays.
        let out = resampled(&sine(3_400.0, 24_000, 24_000), 24_000, 8_000, 500);
        let level = Level::of(&out[500..out.len() - 500]).rms_dbfs();
        assert!((level + 9.03).abs() < 0.1, "{level} dB");
    }

    #[test]
    fn equal_rates_change_nothing() {
        let tone = sine(440.0, 24_000, 1_001);
        assert_eq!(resampled(&tone, 24_000, 24_000, 7), tone);
    }

    #[test]
    fn an_hour_has_exactly_its_samples() {
        // Bookkeeping only: counts the samples due.
        assert_eq!(
            Resampler::covering(Samples(24_000 * 3_600), rate(24_000), rate(44_100)),
            Samples(44_100 * 3_600)
        );
        assert_eq!(
            Resampler::covering(Samples(1), rate(24_000), rate(8_000)),
            Samples(1)
        );
    }

    #[test]
    fn a_stream_does_not_drift() {
        let len = 24_000 * 60;
        let out = resampled(&sine(1_000.0, 24_000, len), 24_000, 44_100, 1_920);
        let expected = sine(1_000.0, 44_100, out.len());
        let tail = out.len() - 44_100..out.len() - 4_410;
        let error: Vec<f32> = tail.map(|n| out[n] - expected[n]).collect();
        assert!(Level::of(&error).rms_dbfs() < -80.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn chunks_change_nothing_and_the_length_is_exact(
            samples in prop::collection::vec(-1.0f32..1.0, 0..3_000),
            chunk in 1usize..2_000,
            from in prop::sample::select(COMMON.to_vec()),
            to in prop::sample::select(COMMON.to_vec()),
        ) {
            let out = resampled(&samples, from, to, chunk);
            prop_assert_eq!(&out, &resampled(&samples, from, to, usize::MAX));
            let due = Resampler::covering(Samples::of(&samples), rate(from), rate(to));
            prop_assert_eq!(Samples::of(&out), due);
        }
    }
}
