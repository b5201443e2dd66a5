//! Voices from recordings, in plain data: computed once from a recording, and sent with every request that speaks in
//! its voice.

use std::fmt;
use std::sync::Arc;

use omni_audio::SampleRate;
use omni_engine::{CodecFrame, VoicePrompt};
use omni_models::VoiceSource;
use omni_pipeline::stage::BackendError;

/// Dimensions of a voice made from a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceShape {
    /// Numbers of a speaker's vector.
    pub width: u32,
    /// Codes of a frame.
    pub groups: u32,
    /// Upper bound of a code, exclusive.
    pub codes: u32,
    /// Upper bound of a text token, exclusive.
    pub text_vocab: u32,
    /// Tells checkpoints of one shape apart: a part of a hash over their configuration.
    pub fingerprint: String,
}

/// Voices that a model has besides its own.
#[derive(Debug, Clone, Default)]
pub struct VoiceSupport {
    /// Kind of its voices.
    pub source: VoiceSource,
    /// Dimensions of voices made from recordings, for a model that takes them.
    pub shape: Option<VoiceShape>,
    /// The voices that are kept beside its own, as the caller of a request sees them.
    pub kept: Option<Arc<dyn KeptVoices>>,
}

/// Content of a kept voice.
#[derive(Debug, Clone, PartialEq)]
pub enum VoiceContent {
    /// Encoded recording.
    Prompt(Arc<VoicePrompt>),
    /// The words that describe it to the model.
    Description(Arc<str>),
}

/// Voices that are kept beside a model's own, as one caller sees them.
pub trait KeptVoices: fmt::Debug + Send + Sync {
    /// Finds the voice of that name, with the name as it was given; the error is the reason why the model cannot
    /// speak with it.
    fn find(&self, name: &str) -> Option<Result<(String, VoiceContent), String>>;

    /// The names of all that the model can speak with, sorted.
    fn names(&self) -> Vec<String>;
}

/// Makes voices from recordings. Every call may take seconds.
pub trait EncodeVoice: Send + Sync {
    /// Rate of the recordings that it takes.
    fn sample_rate(&self) -> SampleRate;

    /// Speaker vector of mono samples in `[-1, 1]`.
    ///
    /// # Errors
    /// If it cannot be computed.
    fn x_vector(&self, samples: &[f32]) -> Result<Vec<f32>, BackendError>;

    /// Codec frames of the same; the last one may be cut short.
    ///
    /// # Errors
    /// If they cannot be computed.
    fn frames(&self, samples: &[f32]) -> Result<Vec<CodecFrame>, BackendError>;
}

/// Returns the voice encoder, or the reason why the model has none. The first call reads its weights.
pub type VoiceEncoderSource = Arc<dyn Fn() -> Result<Arc<dyn EncodeVoice>, BackendError> + Send + Sync>;
