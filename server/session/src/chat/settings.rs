//! Settings of a conversation, checked and complete.

use std::sync::Arc;

use omni_audio::InputFormat;
use omni_pipeline::request::Sampling;

use crate::settings::Settings;

/// Forms of an answer; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modalities {
    /// `true` for text.
    pub text: bool,
    /// `true` for speech.
    pub audio: bool,
}

/// Settings of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSettings {
    /// System prompt.
    pub instructions: Option<Arc<str>>,
    /// Forms of the answers.
    pub modalities: Modalities,
    /// Sampling of the text; unset where the model's default holds.
    pub sampling: Sampling,
    /// Seed of the random numbers; without, every answer gets its own.
    pub seed: Option<u64>,
    /// Most tokens of an answer.
    pub max_tokens: u32,
    /// The answer ends before the first of these.
    pub stop: Vec<String>,
    /// Format of the user's speech; none if the model takes no audio.
    pub input: Option<InputFormat>,
    /// Settings of the answers' speech. A seed that is not set follows from that of the text.
    pub speech: Settings,
}

/// Limits of a conversation, besides the bounds of every session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatLimits {
    /// Messages that are kept.
    pub max_messages: usize,
    /// Size of the history in bytes: text, and samples.
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
