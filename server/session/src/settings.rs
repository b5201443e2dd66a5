//! Settings of speech, checked and complete.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_audio::{Format, Rendering};

use omni_pipeline::request::{Sampling, VoicePrompt};

/// Delivery of audio to its listener.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delivery {
    /// Bytes that it is sent as.
    pub format: Format,
    /// Speed and level.
    pub rendering: Rendering,
    /// Longest silence before speech.
    pub leading_silence: Duration,
    /// Longest lead over its listener.
    pub max_lead: Option<Duration>,
    /// `true` if the caller gets it in one piece, when it is complete.
    pub whole: bool,
}

/// Unit of text that is gathered before it is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Buffering {
    /// Whole sentences.
    #[default]
    Sentence,
    /// Clauses.
    Clause,
    /// Words.
    Eager,
    /// Everything up to a flush or the end.
    Manual,
}

/// Reason of a warning that a field had no effect.
pub const FIELD_IGNORED: &str = "FIELD_IGNORED";

/// An ignored hint: its field, as in the .proto files, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredField {
    pub field: &'static str,
    pub problem: String,
}

impl fmt::Display for IgnoredField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// Settings of speech.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// One of the model's voices, or the name of what `voice_prompt` is.
    pub voice: String,
    /// The voice, if it is that of a recording.
    pub voice_prompt: Option<Arc<VoicePrompt>>,
    /// One of the model's languages, or none.
    pub language: Option<String>,
    /// Style instructions in words, if the model follows them.
    pub instructions: Option<Arc<str>>,
    /// `true` if the prompt contains the whole text of a complete sequence.
    pub non_streaming: bool,
    /// Delivery of audio to its listener.
    pub delivery: Delivery,
    /// Sampling of outputs; unset where the model's default holds.
    pub sampling: Sampling,
    /// Seed of the random numbers; without, every utterance gets its own.
    pub seed: Option<u64>,
    /// Most codec frames per utterance.
    pub max_frames: Option<u32>,
    /// Unit of text that is gathered.
    pub buffering: Buffering,
    /// Speaks gathered text after this much silence of the caller.
    pub max_buffer_delay: Option<Duration>,
    /// Sends word times.
    pub alignment: bool,
    /// Fields that the caller set and the model cannot follow.
    pub ignored: Vec<IgnoredField>,
}
