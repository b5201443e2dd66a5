//! The speaker encoder's spectrogram: magnitudes of 43 ms windows every 11 ms, in mel bands, as logarithms.

use crate::mel::{MelBands, MelShape};

const WINDOW: usize = 1024;
const HOP: usize = 256;
/// Constant that the reference implementation adds to a power before its root.
const LEAST_POWER: f64 = 1e-9;
const LEAST_BAND: f64 = 1e-5;

/// A plan for spectrograms.
pub(super) struct SpeakerMel(MelBands);

impl SpeakerMel {
    pub(super) fn new(bands: usize) -> Self {
        Self(MelBands::new(MelShape {
            sample_rate: f64::from(super::VOICE_SAMPLE_RATE),
            window: WINDOW,
            hop: HOP,
            ahead: (WINDOW - HOP) / 2,
            bands,
        }))
    }

    /// Frames `[samples / 256, bands]`.
    pub(super) fn frames(&self, samples: &[f32]) -> Vec<f32> {
        let bands = self
            .0
            .frames(samples, samples.len() / HOP, |power| (power + LEAST_POWER).sqrt());
        #[expect(clippy::cast_possible_truncation, reason = "the networks compute in f32")]
        let log = |v: f64| v.max(LEAST_BAND).ln() as f32;
        bands.into_iter().map(log).collect()
    }
}
