//! Voices of recordings for a loaded model: its encoders, and its own form of a voice.

use std::sync::Arc;

use omni_audio::SampleRate;
use omni_engine::CodecFrame;
use omni_models::{SpeechModel, VOICE_SAMPLE_RATE, VoiceEncoder};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::{EncodeVoice, VoiceShape, VoiceSource, VoiceSupport};
use omni_pipeline::request::VoicePrompt;
use omni_pipeline::stage::BackendError;

/// Bytes of a hash that tell checkpoints apart.
const FINGERPRINT: usize = 8;

/// The encoders of a model. Their weights are read when they are first needed, and kept.
#[derive(Debug, Default)]
pub(super) struct VoiceEncoders(Mutex<Option<Arc<Encoders>>>);

#[derive(Debug)]
struct Encoders {
    model: VoiceEncoder,
    rate: SampleRate,
}

impl VoiceEncoders {
    /// Encoders of `model`.
    ///
    /// # Errors
    /// If it has none, or if they cannot be read; the next call tries again.
    pub(super) fn of(&self, model: &SpeechModel) -> Result<Arc<dyn EncodeVoice>, BackendError> {
        let mut kept = self.0.lock();
        if let Some(encoders) = &*kept {
            return Ok(Arc::clone(encoders) as Arc<dyn EncodeVoice>);
        }
        // Callers learn no paths of this machine.
        let failed = |error: &dyn std::fmt::Display| {
            tracing::error!(%error, "voice encoder cannot be loaded");
            BackendError::Failed("voice encoder cannot be loaded, the log of the server says why".to_owned())
        };
        let encoders = Arc::new(Encoders {
            model: model.load_voice_encoder().map_err(|error| failed(&error))?,
            rate: SampleRate::new(VOICE_SAMPLE_RATE).map_err(|error| failed(&error))?,
        });
        *kept = Some(Arc::clone(&encoders));
        Ok(encoders)
    }
}

impl EncodeVoice for Encoders {
    fn sample_rate(&self) -> SampleRate {
        self.rate
    }

    fn x_vector(&self, samples: &[f32]) -> Result<Vec<f32>, BackendError> {
        let vector = self.model.x_vector(samples);
        vector.map_err(|error| BackendError::Failed(error.to_string()))
    }

    fn frames(&self, samples: &[f32]) -> Result<Vec<CodecFrame>, BackendError> {
        let frames = self.model.frames(samples);
        let frames = frames.map_err(|error| BackendError::Failed(error.to_string()))?;
        Ok(frames.into_iter().map(|codes| CodecFrame(codes.into())).collect())
    }
}

/// Voices that `model` supports.
pub(super) fn support(model: &SpeechModel) -> anyhow::Result<VoiceSupport> {
    let limits = model.limits();
    let source = limits.voice_source;
    let shape = match source {
        VoiceSource::Recordings => Some(VoiceShape {
            width: limits.voice_width,
            groups: limits.code_groups,
            codes: limits.codebook_size,
            text_vocab: limits.text_vocab,
            fingerprint: fingerprint(model)?,
        }),
        VoiceSource::Names | VoiceSource::Descriptions => None,
    };
    Ok(VoiceSupport {
        source,
        shape,
        kept: None,
    })
}

/// Fingerprint of a checkpoint: a part of a hash over both its configurations.
fn fingerprint(model: &SpeechModel) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    for file in ["config.json", "speech_tokenizer/config.json"] {
        hash.update(model.file(file)?.unwrap_or_default());
    }
    let hash = hash.finalize();
    Ok(hash[..FINGERPRINT]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// A voice of zeros, of width `width`, to warm up a talker without named voices.
pub(super) fn silent_voice(width: u32) -> omni_models::Voice {
    omni_models::Voice::Cloned(Arc::new(VoicePrompt {
        x_vector: vec![0.0; width as usize],
        reference: None,
    }))
}
