//! Log-mel spectrogram as Whisper's: 25 ms windows every 10 ms, centred.
//! (transformers, `feature_extraction_whisper.py`.)

use crate::mel::{MelBands, MelShape};

/// Samples from one frame to the next.
pub(super) const HOP: usize = 160;
const WINDOW: usize = 400;

/// A plan for spectrograms.
#[derive(Clone)]
pub(super) struct LogMel(MelBands);

impl LogMel {
    pub(super) fn new(mel_bins: usize) -> Self {
        Self(MelBands::new(MelShape {
            sample_rate: 16_000.0,
            window: WINDOW,
            hop: HOP,
            ahead: WINDOW / 2,
            bands: mel_bins,
        }))
    }

    /// Frames `[samples / 160, mel bins]`.
    pub(super) fn frames(&self, samples: &[f32]) -> Vec<f32> {
        let mut mel = self.0.frames(samples, samples.len() / HOP, |power| power);
        mel.iter_mut().for_each(|v| *v = v.max(1e-10).log10());
        let floor = mel.iter().copied().fold(f64::NEG_INFINITY, f64::max) - 8.0;
        #[expect(clippy::cast_possible_truncation, reason = "the networks compute in f32")]
        let scaled = |v: f64| ((v.max(floor) + 4.0) / 4.0) as f32;
        mel.into_iter().map(scaled).collect()
    }
}
