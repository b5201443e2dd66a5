//! From spectra to samples: a train of pulses at the voice's pitch, filtered, and noise.

use std::f32::consts::PI;
use std::f64::consts::TAU;

use omni_backend::normal_pair;
use realfft::num_complex::Complex32;

use super::HibariSpeech;
use super::config::HibariConfig;
use super::net::PARTS;
use crate::spectrum::Spectrum;

/// Pitch below which a sample is not voiced.
const VOICED: f32 = 40.0;
/// Frequency up to which pulses have harmonics.
const HIGHEST: f32 = 11_000.0;
/// Largest logarithm of a size.
const LOUDEST: f32 = 7.0;

/// The pulses that frames to come still see.
#[derive(Debug, Clone, Default)]
pub(super) struct Pulses {
    pub(super) values: Vec<f32>,
    /// Number of the first of `values`.
    first: usize,
    /// Cycles up to the last of them, whole ones left out.
    phase: f64,
}

#[derive(Debug)]
pub(super) struct Wave {
    spectrum: Spectrum,
    hop: usize,
    rate: f64,
    /// Of a window, so that a pulse's spectrum has size 1.
    scale: f32,
    /// False in tests that compare with a reference without noise.
    pub(super) noise: bool,
}

impl Pulses {
    /// Appends the pulses up to sample `end`: of every harmonic below [`HIGHEST`] one of size 1.
    pub(super) fn extend(&mut self, pitch: &[f32], end: usize, hop: usize, rate: f64) {
        for at in self.first + self.values.len()..end {
            // Between the middles of two frames.
            let place = (at % hop) as f32 + 0.5;
            let share = (place / hop as f32 + 0.5) % 1.0;
            let frame = at / hop;
            let later = (at % hop) >= hop / 2;
            let left = if later { frame } else { frame.saturating_sub(1) };
            let right = if later { frame + 1 } else { frame };
            let right = right.min(pitch.len() - 1);
            let hertz = pitch[left] * (1.0 - share) + pitch[right] * share;
            let voiced = hertz > VOICED;
            let hertz = hertz.max(VOICED);
            self.phase = (self.phase + f64::from(hertz) / rate).fract();
            #[expect(clippy::cast_possible_truncation, reason = "a phase below a full cycle")]
            let angle = (self.phase * TAU) as f32;
            let harmonics = (HIGHEST / hertz).floor() + 0.5;
            let below = 2.0 * (angle * 0.5).sin();
            // sin((n + 1/2) t) / (2 sin(t/2)) - 1/2; its limit at the pulse itself.
            let pulse = if below.abs() <= 2e-3 {
                harmonics
            } else {
                (harmonics * angle).sin() / below
            };
            self.values.push(if voiced { pulse - 0.5 } else { 0.0 });
        }
    }

    /// Forgets what comes before sample `first`.
    pub(super) fn forget(&mut self, first: usize) {
        let count = first.saturating_sub(self.first).min(self.values.len());
        self.values.drain(..count);
        self.first += count;
    }
}

fn polar(log_size: f32, angle: f32) -> Complex32 {
    Complex32::from_polar(log_size.min(LOUDEST).exp(), angle)
}

impl Wave {
    pub(super) fn new(config: &HibariConfig) -> Self {
        Self {
            spectrum: Spectrum::new(config.n_fft, config.hop),
            hop: config.hop,
            rate: f64::from(config.sample_rate),
            scale: 4.0 / config.n_fft as f32,
            noise: true,
        }
    }

    pub(super) fn bins(&self) -> usize {
        self.spectrum.bins()
    }

    /// The samples that are certain with the next frames, of which `spectra` are the decoder's numbers.
    pub(super) fn samples(&self, speech: &mut HibariSpeech, spectra: &[f32]) -> Vec<f32> {
        let bins = self.bins();
        let first = speech.overlap.frames();
        let count = spectra.len() / (PARTS * bins);
        let len = speech.frames() * self.hop;
        // A frame sees two hops on both sides, and the first one the sample behind those, mirrored.
        let end = len.min((first + count + 1) * self.hop + 1);
        speech.pulses.extend(&speech.pitch, end, self.hop, self.rate);
        let pulses = &speech.pulses;
        let mut frames = vec![Complex32::default(); count * bins];
        for (i, (out, parts)) in frames
            .chunks_mut(bins)
            .zip(spectra.chunks(PARTS * bins))
            .enumerate()
        {
            let frame = first + i;
            self.spectrum
                .frame(frame, len, self.scale, |at| pulses.values[at - pulses.first], out);
            for (bin, x) in out.iter_mut().enumerate() {
                let part = |n: usize| parts[n * bins + bin];
                *x *= polar(part(0), PI * part(1).tanh());
                if self.noise {
                    let group = u32::try_from(bin).unwrap_or(u32::MAX);
                    let [re, im] = normal_pair(speech.seed, frame as u64, group);
                    *x += Complex32::new(re, im) * part(2).min(LOUDEST).exp();
                }
                *x += polar(part(3), part(4));
            }
        }
        let end = (first + count == speech.frames()).then_some(len);
        let samples = self.spectrum.add(&mut speech.overlap, &mut frames, end);
        speech
            .pulses
            .forget(((first + count) * self.hop).saturating_sub(2 * self.hop));
        samples
    }
}
