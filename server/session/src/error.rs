//! Errors between a session and its caller.

use std::time::Duration;

use omni_core::error::{ErrorKind, ServeError, seconds};

/// The caller is gone. The error reaches no reader; it ends the work and names the outcome in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the caller went away")]
pub struct CallerGone;

impl From<CallerGone> for ServeError {
    fn from(error: CallerGone) -> Self {
        Self::new(ErrorKind::CallerGone, "CALLER_GONE", error.to_string())
    }
}

/// An operator ended the session, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an operator ended the session: {0}")]
pub struct SessionCancelled(pub String);

impl From<SessionCancelled> for ServeError {
    fn from(error: SessionCancelled) -> Self {
        Self::new(
            ErrorKind::SessionCancelled,
            "SESSION_CANCELLED",
            error.to_string(),
        )
    }
}

/// A timeout or the age limit ended the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionTimeout {
    #[error("the deadline passed")]
    Deadline,
    #[error("the session was idle for {}", seconds(.0))]
    Idle(Duration),
    #[error("the session reached its age limit of {}", seconds(.0))]
    MaxAge(Duration),
    /// The reader is too slow.
    #[error("client too slow: {} behind", seconds(.0))]
    SlowReader(Duration),
}

impl From<SessionTimeout> for ServeError {
    fn from(error: SessionTimeout) -> Self {
        let (kind, reason) = match error {
            SessionTimeout::Deadline => (ErrorKind::DeadlineExceeded, "DEADLINE_EXCEEDED"),
            SessionTimeout::Idle(_) => (ErrorKind::SessionExpired, "SESSION_IDLE"),
            SessionTimeout::MaxAge(_) => (ErrorKind::SessionExpired, "SESSION_MAX_AGE"),
            SessionTimeout::SlowReader(_) => (ErrorKind::SlowReader, "SLOW_READER"),
        };
        Self::new(kind, reason, error.to_string())
    }
}

/// A message that the session does not accept now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    #[error("{0}")]
    Violation(&'static str),
    #[error("config while an utterance is open, send finish or cancel first")]
    ConfigDuringUtterance,
    #[error("utterance id {id:?} {problem}")]
    UtteranceId { id: String, problem: &'static str },
    #[error("message id {id:?} {problem}")]
    MessageId { id: String, problem: &'static str },
    #[error("a response is in progress: only input_audio and interrupt may be sent before its response_done")]
    ResponseInProgress,
    #[error("commit without any input_audio since the last one")]
    NoInputAudio,
    #[error("{limit} utterances wait in this session already")]
    TooManyUtterances { limit: usize },
    #[error("{limit} configs wait in this session for the utterances before them")]
    TooManyConfigs { limit: usize },
}

impl ProtocolError {
    pub const NO_CONFIG: Self = Self::Violation("the first message must be config");
}

impl From<ProtocolError> for ServeError {
    fn from(error: ProtocolError) -> Self {
        use ErrorKind::{FailedPrecondition, InvalidArgument, LimitReached};
        use ProtocolError as E;
        let new = |kind, reason| Self::new(kind, reason, error.to_string());
        match error {
            E::Violation(_) => new(InvalidArgument, "PROTOCOL_VIOLATION"),
            E::ConfigDuringUtterance => new(FailedPrecondition, "CONFIG_DURING_UTTERANCE"),
            E::UtteranceId { .. } => new(InvalidArgument, "UTTERANCE_ID_INVALID").at("text.utterance_id"),
            E::MessageId { .. } => new(InvalidArgument, "MESSAGE_ID_INVALID"),
            E::ResponseInProgress => new(FailedPrecondition, "RESPONSE_IN_PROGRESS"),
            E::NoInputAudio => new(FailedPrecondition, "NO_INPUT_AUDIO"),
            E::TooManyUtterances { limit } => new(LimitReached, "TOO_MANY_UTTERANCES").with_limit(limit),
            E::TooManyConfigs { limit } => new(LimitReached, "TOO_MANY_CONFIGS").with_limit(limit),
        }
    }
}

/// Text that cannot be spoken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UtteranceError {
    #[error("text of the utterance has {got} bytes, the limit is {limit}")]
    TextTooLong { got: usize, limit: usize },
    #[error("unspoken text of the session has {got} bytes, the limit is {limit}")]
    TextBufferFull { got: usize, limit: usize },
    #[error("text is empty; expected text to speak")]
    Empty,
    #[error("{0}")]
    NothingSpeakable(String),
    #[error("{0}")]
    Markup(String),
}

impl From<UtteranceError> for ServeError {
    fn from(error: UtteranceError) -> Self {
        use UtteranceError as E;
        let new = |kind, reason| Self::new(kind, reason, error.to_string());
        let unspeakable = |reason| new(ErrorKind::Unspeakable, reason).at("text");
        match error {
            E::TextTooLong { got, limit } => new(ErrorKind::InvalidArgument, "TEXT_TOO_LONG")
                .at("text")
                .with_got(got)
                .with_limit(limit),
            E::TextBufferFull { got, limit } => new(ErrorKind::LimitReached, "TEXT_BUFFER_FULL")
                .with_got(got)
                .with_limit(limit),
            E::Empty => new(ErrorKind::Unspeakable, "NOTHING_SPEAKABLE").about("text"),
            E::NothingSpeakable(_) => unspeakable("NOTHING_SPEAKABLE"),
            E::Markup(_) => unspeakable("MARKUP_NOT_SUPPORTED"),
        }
    }
}
