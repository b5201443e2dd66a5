//! Messages of a server that speaks, as typed events.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use omni_audio::{SampleRate, Samples};
use omni_proto::v1;

use crate::audio::Audio;
use crate::done::{Done, duration};

/// The name of an utterance within its session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UtteranceId(pub String);

impl fmt::Display for UtteranceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum SpeechEvent {
    /// The session is open, or new settings are in force.
    Ready(Ready),
    /// An utterance began.
    Started(UtteranceId),
    /// Audio of an utterance; pieces are contiguous.
    Audio(UtteranceId, Audio),
    /// Words of an utterance, in order, before the audio with which they end; only if requested.
    Alignment(UtteranceId, Vec<TimedText>),
    /// An utterance ended; nothing of it follows.
    Done(UtteranceId, Done),
    /// A problem that stopped nothing.
    Warning(Warning),
}

/// The settings in force and what the server accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// Names the session in the server's log.
    pub session_id: String,
    /// The model that speaks.
    pub model: String,
    /// The voice it speaks with.
    pub voice: String,
    /// The language it takes the text to be in.
    pub language: String,
    /// The rate of all audio that follows.
    pub rate: SampleRate,
    /// Limits of the server.
    pub limits: Limits,
}

/// Limits of a session. Zero and absent: not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Longest text of an utterance, in UTF-8 bytes.
    pub max_text_bytes_per_utterance: u32,
    /// Most text that may wait, in UTF-8 bytes.
    pub max_buffered_text_bytes: u32,
    /// An idle session is ended after this.
    pub idle_timeout: Option<Duration>,
    /// Any session is ended after this.
    pub max_session: Option<Duration>,
    /// Longest audio of an utterance.
    pub max_audio_per_utterance: Option<Duration>,
}

/// A part of the text, with its time in the audio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedText {
    /// Word or number as written, with the marks after it and the white space before it.
    pub text: String,
    /// Its characters in the text of the utterance.
    pub characters: Range<usize>,
    /// The samples of the utterance's audio in which it is heard; none where it has no sound.
    pub samples: Range<Samples>,
}

/// A problem that stopped nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The utterance concerned; `None` for the session as a whole.
    pub utterance: Option<UtteranceId>,
    /// For programs: stable, UPPER_SNAKE_CASE.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Limits {
    pub(crate) fn from_proto(limits: &v1::SessionLimits) -> Self {
        Self {
            max_text_bytes_per_utterance: limits.max_text_bytes_per_utterance,
            max_buffered_text_bytes: limits.max_buffered_text_bytes,
            idle_timeout: duration(limits.idle_timeout),
            max_session: duration(limits.max_session),
            max_audio_per_utterance: duration(limits.max_audio_per_utterance),
        }
    }
}
