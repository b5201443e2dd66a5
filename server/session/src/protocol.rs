//! Commands and events of a session, free of wire types.

use std::time::Duration;

use bytes::Bytes;
use omni_audio::Samples;
use omni_core::error::ServeError;
use omni_core::id::{SessionId, UtteranceId};

use super::alignment::TimedText;
use super::limits::SessionLimits;
use super::record::{Outcome, Timings, Usage};
use super::settings::Settings;

/// Command of a caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Settings for the utterances that follow.
    Configure(Box<Settings>),
    /// More text.
    Text {
        /// The text.
        text: String,
        /// The caller's name for the utterance; empty for none.
        utterance: String,
    },
    /// Speak what is gathered.
    Flush,
    /// The utterance has no more text.
    Finish,
    /// Stop.
    Cancel {
        /// Id of the utterance; empty for all.
        utterance: String,
        /// Number of samples heard of the one in progress, if the caller wants to know the heard text.
        played: Option<Samples>,
    },
}

/// Event of a session.
#[derive(Debug, Clone)]
pub struct Event {
    /// The utterance concerned; none for the session itself.
    pub utterance: Option<UtteranceId>,
    /// Content.
    pub body: EventBody,
}

/// See the messages of the same names in `speech.proto`.
#[derive(Debug, Clone)]
pub enum EventBody {
    /// Settings are in force.
    Ready(Box<Ready>),
    /// An utterance has begun.
    Started,
    /// Audio of it.
    Audio(AudioOut),
    /// Words that are heard in audio that follows.
    Alignment(Vec<TimedText>),
    /// Its end.
    Done(Box<Done>),
    /// A problem that stopped nothing.
    Warning {
        /// Stable, for programs.
        reason: &'static str,
        /// For people.
        message: String,
    },
}

/// Settings in force.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The session.
    pub session: SessionId,
    /// Settings in force.
    pub settings: Settings,
    /// Limits.
    pub limits: SessionLimits,
}

/// A piece of audio, encoded.
#[derive(Debug, Clone, PartialEq)]
pub struct AudioOut {
    /// Whole samples, packets or frames, never empty.
    pub data: Bytes,
    /// Position in the utterance of the first sample that `data` decodes to.
    pub start: Samples,
    /// Samples that `data` decodes to, at the rate of the format.
    pub samples: Samples,
    /// Their playing time.
    pub time: Duration,
    /// `true` if it was encoded at once with the audio before it.
    pub joined: bool,
    /// `true` if the utterance's audio is complete with it.
    pub last: bool,
}

/// The end of an utterance.
#[derive(Debug, Clone)]
pub struct Done {
    /// Outcome.
    pub outcome: Outcome,
    /// Usage.
    pub usage: Usage,
    /// Times.
    pub timings: Timings,
    /// The seed that was used.
    pub seed: u64,
    /// Set if it failed.
    pub error: Option<ServeError>,
    /// Heard part of its text, and the rest; for a cancelled one, if it was requested.
    pub heard: Option<(String, String)>,
    /// Warnings since it began.
    pub warnings: Vec<Warning>,
}

/// A problem that stopped nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Stable, for programs.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}
