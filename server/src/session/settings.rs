//! How a session speaks, checked and complete.

use std::time::Duration;

use crate::stage::Sampling;

/// Bytes that audio is sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Signed 16-bit little-endian samples.
    Pcm16,
    /// The same behind a WAV header of unknown length.
    Wav,
}

/// How much text is gathered before it is spoken.
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

/// How to speak.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// One of the model's voices.
    pub voice: String,
    /// One of the model's languages, or none.
    pub language: Option<String>,
    /// Bytes that audio is sent as.
    pub encoding: Encoding,
    /// How outputs are drawn; unset where the model's default holds.
    pub sampling: Sampling,
    /// Start of the random numbers; without, every utterance gets its own.
    pub seed: Option<u64>,
    /// Most codec frames per utterance.
    pub max_frames: Option<u32>,
    /// How much text is gathered.
    pub buffering: Buffering,
    /// Speak what is gathered after this much silence of the caller.
    pub max_buffer_delay: Option<Duration>,
}
