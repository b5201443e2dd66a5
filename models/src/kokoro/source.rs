//! The source of the generator: harmonics of the pitch and noise, mixed to one signal, as spectra.

use std::f32::consts::TAU;

use omni_backend::normal_pair;
use realfft::num_complex::Complex32;

use crate::spectrum::Spectrum;

/// The pitch and its overtones.
pub(super) const HARMONICS: usize = 9;
/// Pitch in Hz above which a frame is voiced.
const VOICED: f32 = 10.0;
/// Size of a harmonic.
const SIZE: f32 = 0.1;
/// Deviation of the noise of voiced frames; that of others is a third of [`SIZE`].
const NOISE: f32 = 0.003;

/// The harmonic source: its weights mix the harmonics to one signal.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) weights: Vec<f32>,
    pub(super) bias: f32,
    pub(super) sample_rate: f64,
    /// Samples of a number of the pitch.
    pub(super) samples: usize,
    /// False in tests that compare with a reference without noise.
    pub(super) noise: bool,
}

/// Cycles per sample and cycles so far, whole ones left out, of one harmonic in every frame.
struct Track {
    rates: Vec<f64>,
    phases: Vec<f64>,
}

impl Track {
    /// The reference adds a random phase to the first sample, which its interpolation does not read: there is none.
    fn of(pitch: &[f32], harmonic: usize, source: &Source) -> Self {
        let rate = |hertz: &f32| (f64::from(*hertz) * harmonic as f64 / source.sample_rate).rem_euclid(1.0);
        let rates: Vec<f64> = pitch.iter().map(rate).collect();
        let mut phase = 0.0;
        let phases = rates.iter().map(|rate| {
            phase = (phase + rate * source.samples as f64).fract();
            phase
        });
        Self {
            phases: phases.collect(),
            rates,
        }
    }

    /// Cycles at a sample of a frame, between the middles of two frames; beyond the outer ones nothing moves.
    fn at(&self, frame: usize, share: f64, samples: f64) -> f64 {
        if share >= 0.0 {
            let rate = self.rates.get(frame + 1).copied().unwrap_or(0.0);
            self.phases[frame] + samples * rate * share
        } else if frame > 0 {
            self.phases[frame - 1] + samples * self.rates[frame] * (share + 1.0)
        } else {
            self.phases[0]
        }
    }
}

impl Source {
    /// The signal for a pitch in Hz.
    pub(super) fn signal(&self, pitch: &[f32], seed: u64) -> Vec<f32> {
        let tracks: Vec<Track> = (1..=HARMONICS).map(|h| Track::of(pitch, h, self)).collect();
        // Every harmonic has noise of its own; weighed and added up it is noise again.
        let size = self.weights.iter().map(|w| w * w).sum::<f32>().sqrt();
        let mut pair = [0.0; 2];
        let mut signal: Vec<f32> = Vec::with_capacity(pitch.len() * self.samples);
        for (frame, hertz) in pitch.iter().enumerate() {
            let voiced = *hertz > VOICED;
            let deviation = if voiced { NOISE } else { SIZE / 3.0 };
            for sample in 0..self.samples {
                let share = (sample as f64 + 0.5) / self.samples as f64 - 0.5;
                let mut sum = self.bias;
                if voiced {
                    for (track, weight) in tracks.iter().zip(&self.weights) {
                        let cycles = track.at(frame, share, self.samples as f64);
                        #[expect(clippy::cast_possible_truncation, reason = "a phase below a full cycle")]
                        let angle = cycles.fract() as f32 * TAU;
                        sum += weight * SIZE * angle.sin();
                    }
                }
                let at = signal.len();
                if self.noise && at.is_multiple_of(2) {
                    pair = normal_pair(seed, at as u64 / 2, 0);
                }
                signal.push((sum + pair[at % 2] * size * deviation).tanh());
            }
        }
        signal
    }

    /// Sizes, then angles, of the signal's spectra: `[len / hop + 1, 2 * bins]`.
    pub(super) fn spectra(signal: &[f32], hop: usize, spectrum: &Spectrum, out: &mut Vec<f32>) {
        let mut frame = vec![Complex32::default(); spectrum.bins()];
        for k in 0..=signal.len() / hop {
            spectrum.frame(k, signal.len(), 1.0, |at| signal[at], &mut frame);
            out.extend(frame.iter().map(|x| x.norm()));
            out.extend(frame.iter().map(|x| x.arg()));
        }
    }
}
