//! Limits of a session.

use std::time::Duration;

/// Bounds of every session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// UTF-8 bytes of text in one utterance.
    pub max_text_bytes: usize,
    /// UTF-8 bytes of text that waits in the session.
    pub max_buffered_text_bytes: usize,
    /// Utterances that wait in the session.
    pub max_utterances: usize,
    /// Longest audio of one utterance.
    pub max_audio: Duration,
    /// Time without activity after which a session is ended.
    pub idle_timeout: Duration,
    /// Time after which a sequence that waits for the rest of its sentence is ended at its last word.
    pub max_text_pause: Duration,
    /// Age from which a session takes no more utterances.
    pub max_age: Duration,
    /// Delay behind the available events from which a slow caller is disconnected.
    pub stall_timeout: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            max_text_bytes: 20_000,
            max_buffered_text_bytes: 100_000,
            max_utterances: 64,
            max_audio: Duration::from_secs(30 * 60),
            idle_timeout: Duration::from_secs(5 * 60),
            max_text_pause: Duration::from_secs(2),
            max_age: Duration::from_secs(4 * 60 * 60),
            stall_timeout: Duration::from_secs(60),
        }
    }
}
