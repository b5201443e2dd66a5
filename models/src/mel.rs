//! Power spectra in mel bands: Hann windows, filters of unit area as in librosa's `mel` with `htk=False`,
//! `norm="slaney"`.

use std::f64::consts::PI;
use std::sync::Arc;

use realfft::{RealFftPlanner, RealToComplex};

/// Parameters of spectra.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MelShape {
    pub(crate) sample_rate: f64,
    /// Samples of a window.
    pub(crate) window: usize,
    /// Samples from one frame to the next.
    pub(crate) hop: usize,
    /// Samples in front of the first one that the first window sees; the signal is mirrored there and at its end.
    pub(crate) ahead: usize,
    pub(crate) bands: usize,
}

/// One mel filter: its weights for the bins from `first` on.
struct Filter {
    first: usize,
    weights: Vec<f64>,
}

/// A plan for spectra. Clones share it.
#[derive(Clone)]
pub(crate) struct MelBands {
    shape: MelShape,
    fft: Arc<dyn RealToComplex<f64>>,
    window: Arc<[f64]>,
    filters: Arc<[Filter]>,
}

impl MelBands {
    pub(crate) fn new(shape: MelShape) -> Self {
        let hann = |i: usize| 0.5 - 0.5 * (2.0 * PI * i as f64 / shape.window as f64).cos();
        Self {
            shape,
            fft: RealFftPlanner::new().plan_fft_forward(shape.window),
            window: (0..shape.window).map(hann).collect(),
            filters: filters(shape).into(),
        }
    }

    /// Bands `[count, bands]` of the first `count` frames; `weigh` maps a bin's power before it is summed.
    pub(crate) fn frames(&self, samples: &[f32], count: usize, weigh: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut input = self.fft.make_input_vec();
        let mut spectrum = self.fft.make_output_vec();
        let mut scratch = self.fft.make_scratch_vec();
        let mut bands = Vec::with_capacity(count * self.filters.len());
        for frame in 0..count {
            let from = (frame * self.shape.hop) as isize - self.shape.ahead as isize;
            for ((x, w), at) in input.iter_mut().zip(&*self.window).zip(from..) {
                *x = w * f64::from(samples[mirrored(at, samples.len())]);
            }
            // The buffers are of the plan's own making, so their sizes are right.
            if self
                .fft
                .process_with_scratch(&mut input, &mut spectrum, &mut scratch)
                .is_err()
            {
                return Vec::new();
            }
            let bins: Vec<f64> = spectrum.iter().map(|c| weigh(c.norm_sqr())).collect();
            bands.extend(self.filters.iter().map(|f| f.apply(&bins)));
        }
        bands
    }
}

/// Sample `at` of a signal that is mirrored at both ends, the end samples not repeated.
pub(crate) fn mirrored(at: isize, len: usize) -> usize {
    let period = 2 * (len.max(2) - 1);
    let at = at.rem_euclid(period as isize) as usize;
    at.min(period - at).min(len - 1)
}

impl Filter {
    fn apply(&self, bins: &[f64]) -> f64 {
        let bins = &bins[self.first..self.first + self.weights.len()];
        bins.iter().zip(&self.weights).map(|(p, w)| p * w).sum()
    }
}

/// Mels of a frequency: linear below 1 kHz, logarithmic above. (Slaney, "Auditory Toolbox", 1998.)
fn mels(hz: f64) -> f64 {
    if hz < 1000.0 {
        hz * 3.0 / 200.0
    } else {
        15.0 + (hz / 1000.0).ln() * 27.0 / 6.4_f64.ln()
    }
}

fn hertz(mel: f64) -> f64 {
    if mel < 15.0 {
        mel * 200.0 / 3.0
    } else {
        1000.0 * ((mel - 15.0) * 6.4_f64.ln() / 27.0).exp()
    }
}

/// Triangles between neighbouring points of the mel scale up to half the sample rate.
fn filters(shape: MelShape) -> Vec<Filter> {
    let highest = mels(shape.sample_rate / 2.0);
    let points: Vec<f64> = (0..shape.bands + 2)
        .map(|i| hertz(highest * i as f64 / (shape.bands + 1) as f64))
        .collect();
    let filter = |p: &[f64]| {
        let weight = |bin: usize| {
            let hz = bin as f64 * shape.sample_rate / shape.window as f64;
            let slope = ((hz - p[0]) / (p[1] - p[0])).min((p[2] - hz) / (p[2] - p[1]));
            slope.max(0.0) * 2.0 / (p[2] - p[0])
        };
        let weights: Vec<f64> = (0..=shape.window / 2).map(weight).collect();
        let first = weights.iter().position(|w| *w > 0.0).unwrap_or(0);
        let end = weights
            .iter()
            .rposition(|w| *w > 0.0)
            .map_or(first, |last| last + 1);
        Filter {
            first,
            weights: weights[first..end].to_vec(),
        }
    };
    points.windows(3).map(filter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_mirrored_at_both_ends() {
        let seen: Vec<usize> = (-3..7).map(|at| mirrored(at, 4)).collect();
        assert_eq!(seen, [3, 2, 1, 0, 1, 2, 3, 2, 1, 0]);
        assert!((-5..5).all(|at| mirrored(at, 1) == 0));
    }

    #[test]
    fn a_tone_is_loudest_in_its_own_band() {
        let bands = MelBands::new(MelShape {
            sample_rate: 16_000.0,
            window: 400,
            hop: 160,
            ahead: 200,
            bands: 128,
        });
        let tone: Vec<f32> = (0..3200)
            .map(|i| (2.0 * std::f32::consts::PI * 1000.0 * i as f32 / 16_000.0).sin())
            .collect();
        let frames = bands.frames(&tone, 20, |power| power);
        assert_eq!(frames.len(), 20 * 128);
        let middle = &frames[10 * 128..11 * 128];
        let loudest = (0..128)
            .max_by(|&a, &b| middle[a].total_cmp(&middle[b]))
            .expect("filters");
        let expected = (mels(1000.0) / mels(8000.0) * 129.0).round() as usize - 1;
        assert_eq!(loudest, expected);
    }
}
