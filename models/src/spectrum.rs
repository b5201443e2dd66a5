//! Short-time spectra of signals that begin and end in the middle of a window, and signals from them.

use std::fmt;
use std::sync::Arc;

use realfft::num_complex::Complex32;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

use crate::mel::mirrored;

/// Smallest sum of squared windows that is divided by.
const LEAST: f32 = 1e-11;

/// A plan for spectra with a periodic Hann window. Frame `k` is centred on sample `k * hop`.
#[derive(Clone)]
pub(crate) struct Spectrum {
    n_fft: usize,
    hop: usize,
    window: Arc<[f32]>,
    forward: Arc<dyn RealToComplex<f32>>,
    inverse: Arc<dyn ComplexToReal<f32>>,
}

impl fmt::Debug for Spectrum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spectrum").finish_non_exhaustive()
    }
}

/// Windows added up so far, as far as samples need them that have not been returned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlap {
    /// Sums of windowed frames, and of squared windows, from sample `done` on.
    sums: Vec<f32>,
    squares: Vec<f32>,
    /// Frames that were added.
    frames: usize,
    /// Samples that were returned.
    done: usize,
}

impl Overlap {
    /// Frames that were added.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }
}

impl Spectrum {
    /// A plan for windows of `n_fft` samples, an even number and a multiple of `hop`.
    pub(crate) fn new(n_fft: usize, hop: usize) -> Self {
        let mut planner = RealFftPlanner::new();
        let step = std::f64::consts::TAU / n_fft as f64;
        #[expect(clippy::cast_possible_truncation, reason = "a window's numbers")]
        let hann = |i: usize| (0.5 - 0.5 * (i as f64 * step).cos()) as f32;
        Self {
            n_fft,
            hop,
            window: (0..n_fft).map(hann).collect(),
            forward: planner.plan_fft_forward(n_fft),
            inverse: planner.plan_fft_inverse(n_fft),
        }
    }

    /// Numbers of a frame.
    pub(crate) fn bins(&self) -> usize {
        self.n_fft / 2 + 1
    }

    /// Frame `k` of a signal of `len` samples, which is mirrored at its ends; `sample` gives its samples by number. The
    /// window is scaled by `scale`.
    pub(crate) fn frame(
        &self,
        k: usize,
        len: usize,
        scale: f32,
        sample: impl Fn(usize) -> f32,
        out: &mut [Complex32],
    ) {
        let first = (k * self.hop).cast_signed() - (self.n_fft / 2).cast_signed();
        let at = |i: usize| mirrored(first + i.cast_signed(), len);
        let window = self.window.iter().enumerate();
        let mut input: Vec<f32> = window.map(|(i, w)| w * scale * sample(at(i))).collect();
        // Both buffers are of the plan's sizes.
        let _ = self.forward.process(&mut input, out);
    }

    /// Adds the next frames, `bins` numbers each, and returns the samples that no later frame changes: of the last
    /// frames (`last`) all of `frames * hop - hop_short`. What the inverse transform has no use for is ignored.
    pub(crate) fn add(
        &self,
        overlap: &mut Overlap,
        frames: &mut [Complex32],
        end: Option<usize>,
    ) -> Vec<f32> {
        let scale = 1.0 / self.n_fft as f32;
        let half = self.n_fft / 2;
        let mut samples = self.inverse.make_output_vec();
        for frame in frames.chunks_exact_mut(self.bins()) {
            // The first and the last number of a real signal's spectrum are real.
            frame[0].im = 0.0;
            frame[half].im = 0.0;
            let _ = self.inverse.process(frame, &mut samples);
            let centre = overlap.frames * self.hop;
            overlap.frames += 1;
            let from = centre.saturating_sub(half).max(overlap.done);
            let skipped = from + half - centre;
            let at = from - overlap.done;
            let len = at + self.n_fft - skipped;
            overlap.sums.resize(overlap.sums.len().max(len), 0.0);
            overlap.squares.resize(overlap.squares.len().max(len), 0.0);
            let sums = overlap.sums[at..].iter_mut().zip(&mut overlap.squares[at..]);
            for (((sum, square), sample), w) in sums.zip(&samples[skipped..]).zip(&self.window[skipped..]) {
                *sum += sample * scale * w;
                *square += w * w;
            }
        }
        let settled = (overlap.frames * self.hop).saturating_sub(half);
        let count = end.unwrap_or(settled).saturating_sub(overlap.done);
        let count = count.min(overlap.sums.len());
        let squares = overlap.squares.drain(..count);
        let sums = overlap.sums.drain(..count);
        let samples = sums
            .zip(squares)
            .map(|(sum, square)| sum / square.max(LEAST))
            .collect();
        overlap.done += count;
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(len: usize) -> Vec<f32> {
        (0..len)
            .map(|i| ((i * 7919) % 2003) as f32 / 1001.0 - 1.0)
            .collect()
    }

    #[test]
    fn a_signal_comes_back_from_its_frames_whole_or_in_pieces() {
        for (n_fft, hop) in [(20, 5), (16, 4), (12, 6)] {
            let plan = Spectrum::new(n_fft, hop);
            let x = signal(33 * hop);
            let mut frames = vec![Complex32::default(); 34 * plan.bins()];
            for (k, frame) in frames.chunks_exact_mut(plan.bins()).enumerate() {
                plan.frame(k, x.len(), 1.0, |i| x[i], frame);
            }
            let whole = plan.add(&mut Overlap::default(), &mut frames.clone(), Some(x.len()));
            assert_eq!(whole.len(), x.len());
            assert!(
                whole.iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-4),
                "{whole:?}"
            );
            let mut overlap = Overlap::default();
            let mut pieces = Vec::new();
            for (i, piece) in frames.chunks_mut(5 * plan.bins()).enumerate() {
                let end = (i == 6).then_some(x.len());
                pieces.extend(plan.add(&mut overlap, piece, end));
            }
            assert_eq!(pieces, whole);
        }
    }
}
