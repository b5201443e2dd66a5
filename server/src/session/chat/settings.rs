//! How a session converses, checked and complete.

use std::sync::Arc;

use omni_audio::InputFormat;

use crate::session::settings::Settings;
use omni_pipeline::request::Sampling;

/// Forms of an answer; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modalities {
    /// It is written.
    pub text: bool,
    /// It is spoken.
    pub audio: bool,
}

/// How to converse.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSettings {
    /// How the model shall behave.
    pub instructions: Option<Arc<str>>,
    /// Forms of the answers.
    pub modalities: Modalities,
    /// How words are drawn; unset where the model's default holds.
    pub sampling: Sampling,
    /// Start of the random numbers; without, every answer gets its own.
    pub seed: Option<u64>,
    /// Most tokens of an answer.
    pub max_tokens: u32,
    /// The answer ends before the first of these.
    pub stop: Vec<String>,
    /// What the user's speech comes as; none if the model does not hear.
    pub input: Option<InputFormat>,
    /// How answers are spoken. A seed that is not set follows from that of the words.
    pub speech: Settings,
}

/// What a conversation may use, besides the bounds of every session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatLimits {
    /// Messages that are remembered.
    pub max_messages: usize,
    /// What is remembered of them: bytes of text, and of samples.
    pub max_history_bytes: usize,
}

impl Default for ChatLimits {
    fn default() -> Self {
        Self {
            max_messages: 4096,
            max_history_bytes: 32 << 20,
        }
    }
}
