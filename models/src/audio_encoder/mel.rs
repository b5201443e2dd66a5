//! Log-mel spectrogram as Whisper's: 25 ms windows every 10 ms, centred, mel filters of unit area.
//! (transformers, `feature_extraction_whisper.py`; filters as in librosa's `mel` with `htk=False`, `norm="slaney"`.)

use std::f64::consts::PI;
use std::sync::Arc;

use realfft::{RealFftPlanner, RealToComplex};

/// Samples from one frame to the next.
pub(super) const HOP: usize = 160;
const WINDOW: usize = 400;
const BINS: usize = WINDOW / 2 + 1;
const SAMPLE_RATE: f64 = 16_000.0;

/// One mel filter: its weights for the bins from `first` on.
struct Filter {
    first: usize,
    weights: Vec<f64>,
}

/// A plan for spectrograms.
#[derive(Clone)]
pub(super) struct LogMel {
    fft: Arc<dyn RealToComplex<f64>>,
    window: Arc<[f64]>,
    filters: Arc<[Filter]>,
}

impl LogMel {
    pub(super) fn new(mel_bins: usize) -> Self {
        let hann = |i: usize| 0.5 - 0.5 * (2.0 * PI * i as f64 / WINDOW as f64).cos();
        Self {
            fft: RealFftPlanner::new().plan_fft_forward(WINDOW),
            window: (0..WINDOW).map(hann).collect(),
            filters: filters(mel_bins).into(),
        }
    }

    /// Frames `[samples / 160, mel bins]`.
    pub(super) fn frames(&self, samples: &[f32]) -> Vec<f32> {
        let (mut input, mut spectrum) = (self.fft.make_input_vec(), self.fft.make_output_vec());
        let mut scratch = self.fft.make_scratch_vec();
        let mut mel = Vec::with_capacity(samples.len() / HOP * self.filters.len());
        for frame in 0..samples.len() / HOP {
            let from = (frame * HOP) as isize - (WINDOW / 2) as isize;
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
            let power: Vec<f64> = spectrum.iter().map(|c| c.norm_sqr()).collect();
            mel.extend(self.filters.iter().map(|f| f.apply(&power).max(1e-10).log10()));
        }
        let floor = mel.iter().copied().fold(f64::NEG_INFINITY, f64::max) - 8.0;
        #[expect(clippy::cast_possible_truncation, reason = "the networks compute in f32")]
        let scaled = |v: f64| ((v.max(floor) + 4.0) / 4.0) as f32;
        mel.into_iter().map(scaled).collect()
    }
}

/// Sample `at` of a signal that is mirrored at both ends, the end samples not repeated.
fn mirrored(at: isize, len: usize) -> usize {
    let period = 2 * (len.max(2) - 1);
    let at = at.rem_euclid(period as isize) as usize;
    at.min(period - at).min(len - 1)
}

impl Filter {
    fn apply(&self, power: &[f64]) -> f64 {
        let bins = &power[self.first..self.first + self.weights.len()];
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
fn filters(count: usize) -> Vec<Filter> {
    let highest = mels(SAMPLE_RATE / 2.0);
    let points: Vec<f64> = (0..count + 2)
        .map(|i| hertz(highest * i as f64 / (count + 1) as f64))
        .collect();
    let filter = |p: &[f64]| {
        let weight = |bin: usize| {
            let hz = bin as f64 * SAMPLE_RATE / WINDOW as f64;
            let slope = ((hz - p[0]) / (p[1] - p[0])).min((p[2] - hz) / (p[2] - p[1]));
            slope.max(0.0) * 2.0 / (p[2] - p[0])
        };
        let weights: Vec<f64> = (0..BINS).map(weight).collect();
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
    fn a_tone_is_loudest_in_its_own_filter() {
        let mel = LogMel::new(128);
        let tone: Vec<f32> = (0..3200)
            .map(|i| (2.0 * std::f32::consts::PI * 1000.0 * i as f32 / 16_000.0).sin())
            .collect();
        let frames = mel.frames(&tone);
        assert_eq!(frames.len(), 20 * 128);
        let middle = &frames[10 * 128..11 * 128];
        let loudest = (0..128)
            .max_by(|&a, &b| middle[a].total_cmp(&middle[b]))
            .expect("filters");
        let expected = (mels(1000.0) / mels(8000.0) * 129.0).round() as usize - 1;
        assert_eq!(loudest, expected);
    }
}
