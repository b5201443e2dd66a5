//! Everything that can go wrong for a caller, as one list.
//!
//! Level 1: names no wire type. The gRPC status of each entry is decided in one place, `grpc::status`; its stable reason
//! here. Messages say what was wrong, what was expected and, for a limit, both numbers. They never contain the text to speak,
//! and of names that a caller made up no more than an [`excerpt`].

use std::time::Duration;

use crate::caller::OverQuota;
use crate::config::{Quota, Scope};

/// Why a call or an utterance could not be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// A field has a value that cannot be used.
    #[error("{field}: {problem}")]
    InvalidField {
        /// Path of the field, as in the .proto files.
        field: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// No such model.
    #[error("model {got:?} is not served here, expected {expected:?} or empty")]
    ModelNotFound {
        /// What was asked for.
        got: String,
        /// What there is.
        expected: String,
    },
    /// No such voice.
    #[error("voice {got:?} does not exist, the model has: {known}")]
    VoiceNotFound {
        /// What was asked for.
        got: String,
        /// What there is.
        known: String,
    },
    /// The model does not speak that language.
    #[error("language {got:?} is not spoken by the model, expected one of: {known}")]
    LanguageNotFound {
        /// What was asked for.
        got: String,
        /// What there is.
        known: String,
    },
    /// Encoding, rate or channels cannot be produced.
    #[error("{field}: {problem}")]
    UnsupportedAudioFormat {
        /// Path of the field.
        field: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A message arrived that the protocol does not allow now.
    #[error("{0}")]
    Protocol(&'static str),
    /// Settings cannot change while an utterance is open.
    #[error("config while an utterance is open, send finish or cancel first")]
    ConfigDuringUtterance,
    /// An utterance id was used before, or changed within an utterance.
    #[error("utterance id {id:?} {problem}")]
    UtteranceId {
        /// The id.
        id: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A message id was used before.
    #[error("message id {id:?} {problem}")]
    MessageId {
        /// The id.
        id: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The model does not converse.
    #[error("the model holds no conversations: {0}")]
    ChatNotSupported(String),
    /// The model does not hear.
    #[error("{field}: the model cannot hear, send text")]
    CannotHear {
        /// Path of the field.
        field: &'static str,
    },
    /// Something that has to wait until the answer in progress has ended.
    #[error("a response is in progress: only input_audio and interrupt may be sent before its response_done")]
    ResponseInProgress,
    /// There is no audio to commit.
    #[error("commit without any input_audio since the last one")]
    NoInputAudio,
    /// Less audio than the model makes anything of.
    #[error("{field} has {} ms of audio, the model hears nothing shorter than {} ms", millis(.got), millis(.limit))]
    AudioTooShort {
        /// Path of the field.
        field: &'static str,
        /// How much there is.
        got: Duration,
        /// The shortest that is heard.
        limit: Duration,
    },
    /// More audio than one message may have.
    #[error("the audio of the message is longer than {}, which is the limit", seconds(.limit))]
    AudioTooLong {
        /// The limit.
        limit: Duration,
    },
    /// One message has more text than is allowed.
    #[error("{field} has {got} bytes of text, the limit is {limit}")]
    MessageTooLong {
        /// Path of the field.
        field: &'static str,
        /// Bytes received.
        got: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The conversation leaves no room for an answer, however much of it is forgotten.
    #[error(
        "the last turn takes at least {got} tokens of the model's context, with the instructions; at most {limit} leave room for an answer"
    )]
    ContextTooLong {
        /// Tokens it takes, at least.
        got: usize,
        /// Most that leave room.
        limit: usize,
    },
    /// One utterance has more text than is allowed.
    #[error("text of the utterance has {got} bytes, the limit is {limit}")]
    TextTooLong {
        /// Bytes received.
        got: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The session holds more unspoken text than is allowed.
    #[error("unspoken text of the session has {got} bytes, the limit is {limit}")]
    TextBufferFull {
        /// Bytes waiting.
        got: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// More utterances wait in the session than is allowed.
    #[error("{limit} utterances wait in this session already")]
    TooManyUtterances {
        /// The limit.
        limit: usize,
    },
    /// One message has more bytes than is allowed.
    #[error("a message is larger than the {limit} bytes that are allowed")]
    MessageTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// One message has more entries than is allowed.
    #[error("{field} has {got} entries, the limit is {limit}")]
    TooManyItems {
        /// Path of the field.
        field: &'static str,
        /// Entries received.
        got: usize,
        /// Entries allowed.
        limit: usize,
    },
    /// The server takes no metrics of callers.
    #[error("metrics of callers are not taken here: the server was not started with --metrics-service on")]
    MetricsServiceOff,
    /// More calls record metrics than is allowed.
    #[error("{limit} calls record metrics, no more are accepted now")]
    TooManyRecorders {
        /// The limit.
        limit: usize,
    },
    /// None of the text can be spoken.
    #[error("{0}")]
    NothingSpeakable(String),
    /// Markup that would be read aloud.
    #[error("the text is SSML, which is not interpreted here: send plain text")]
    Markup,
    /// The server takes no more sessions.
    #[error("{limit} sessions are open, no more are accepted now")]
    TooManySessions {
        /// The limit.
        limit: usize,
    },
    /// A stage has no room for another sequence.
    #[error("the server is overloaded: {0}")]
    Overloaded(String),
    /// The queue of utterances is full, or the wait in it was or would be too long.
    #[error("the server is overloaded: {problem}")]
    Crowded {
        /// Which of these.
        problem: String,
        /// When trying again makes sense.
        retry: Duration,
    },
    /// The caller's API key has used what it may use.
    #[error(transparent)]
    OverQuota(#[from] OverQuota),
    /// The model is not loaded yet.
    #[error("the model is being loaded")]
    ModelLoading,
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Draining,
    /// The server stopped before the work was done.
    #[error("the server stopped")]
    Stopped,
    /// A stage failed under this utterance.
    #[error("stage {stage} failed: {message}")]
    StageFailed {
        /// Name of the stage.
        stage: &'static str,
        /// What happened.
        message: String,
    },
    /// No replica of a stage takes work now.
    #[error("stage {stage} is not available: {message}")]
    StageUnavailable {
        /// Name of the stage.
        stage: &'static str,
        /// Why.
        message: String,
    },
    /// The caller's deadline passed.
    #[error("the deadline passed")]
    DeadlineExceeded,
    /// Nothing happened in the session for too long.
    #[error("nothing happened in the session for {}", seconds(.0))]
    SessionIdle(Duration),
    /// The session is too old.
    #[error("the session reached its age limit of {}", seconds(.0))]
    SessionMaxAge(Duration),
    /// An operator ended the session.
    #[error("an operator ended the session: {0}")]
    SessionCancelled(String),
    /// The caller does not read what it asked for.
    #[error("what was read from the stream is {} behind what there was to hear and to read", seconds(.0))]
    SlowReader(Duration),
    /// The call has no API key.
    #[error("the call has no API key, expected \"authorization: Bearer KEY\" or \"x-api-key: KEY\"")]
    ApiKeyMissing,
    /// The API key is none that is good.
    #[error("the API key is not known here")]
    ApiKeyInvalid,
    /// The API key is good for other things.
    #[error("the API key does not open this: it lacks the scope {0}")]
    ScopeMissing(Scope),
    /// No such stage.
    #[error("stage {got:?} does not exist, the server has: {known}")]
    StageNotFound {
        /// What was asked for.
        got: String,
        /// What there is.
        known: String,
    },
    /// No such replica.
    #[error("stage {stage} has no replica {got:?}")]
    ReplicaNotFound {
        /// Name of the stage.
        stage: &'static str,
        /// What was asked for.
        got: String,
    },
    /// No such session.
    #[error("session {got:?} is not open")]
    SessionNotFound {
        /// What was asked for.
        got: String,
    },
    /// More operators watch than is allowed.
    #[error("{limit} operators watch, no more are served now")]
    TooManyWatchers {
        /// The limit.
        limit: usize,
    },
    /// The caller is gone. Nobody reads this; it ends the work and names the outcome in the record.
    #[error("the caller went away")]
    CallerGone,
}

impl ServeError {
    /// The stable name for programs (`google.rpc.ErrorInfo.reason`).
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidField { .. } => "INVALID_FIELD",
            Self::ModelNotFound { .. } => "MODEL_NOT_FOUND",
            Self::VoiceNotFound { .. } => "VOICE_NOT_FOUND",
            Self::LanguageNotFound { .. } => "LANGUAGE_NOT_FOUND",
            Self::UnsupportedAudioFormat { .. } => "UNSUPPORTED_AUDIO_FORMAT",
            Self::Protocol(_) => "PROTOCOL_VIOLATION",
            Self::ConfigDuringUtterance => "CONFIG_DURING_UTTERANCE",
            Self::UtteranceId { .. } => "UTTERANCE_ID_INVALID",
            Self::MessageId { .. } => "MESSAGE_ID_INVALID",
            Self::ChatNotSupported(_) => "CHAT_NOT_SUPPORTED",
            Self::CannotHear { .. } => "AUDIO_INPUT_NOT_SUPPORTED",
            Self::ResponseInProgress => "RESPONSE_IN_PROGRESS",
            Self::NoInputAudio => "NO_INPUT_AUDIO",
            Self::AudioTooShort { .. } => "AUDIO_TOO_SHORT",
            Self::AudioTooLong { .. } => "AUDIO_TOO_LONG",
            Self::MessageTooLong { .. } | Self::TextTooLong { .. } => "TEXT_TOO_LONG",
            Self::ContextTooLong { .. } => "CONTEXT_TOO_LONG",
            Self::TextBufferFull { .. } => "TEXT_BUFFER_FULL",
            Self::TooManyUtterances { .. } => "TOO_MANY_UTTERANCES",
            Self::MessageTooLarge { .. } => "MESSAGE_TOO_LARGE",
            Self::TooManyItems { .. } => "TOO_MANY_ITEMS",
            Self::MetricsServiceOff => "METRICS_SERVICE_OFF",
            Self::NothingSpeakable(_) => "NOTHING_SPEAKABLE",
            Self::Markup => "MARKUP_NOT_SUPPORTED",
            Self::TooManySessions { .. } | Self::TooManyRecorders { .. } | Self::TooManyWatchers { .. } => {
                "CONCURRENCY_LIMIT"
            }
            Self::Overloaded(_) | Self::Crowded { .. } => "SERVER_OVERLOADED",
            Self::OverQuota(over) if over.quota == Quota::Streams => "CONCURRENCY_LIMIT",
            Self::OverQuota(_) => "RATE_LIMITED",
            Self::ModelLoading => "MODEL_LOADING",
            Self::Draining => "DRAINING",
            Self::Stopped => "STOPPED",
            Self::StageFailed { .. } => "STAGE_FAILED",
            Self::StageUnavailable { .. } => "STAGE_UNAVAILABLE",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::SessionIdle(_) => "SESSION_IDLE",
            Self::SessionMaxAge(_) => "SESSION_MAX_AGE",
            Self::SessionCancelled(_) => "SESSION_CANCELLED",
            Self::SlowReader(_) => "SLOW_READER",
            Self::ApiKeyMissing => "API_KEY_MISSING",
            Self::ApiKeyInvalid => "API_KEY_INVALID",
            Self::ScopeMissing(_) => "SCOPE_MISSING",
            Self::StageNotFound { .. } => "STAGE_NOT_FOUND",
            Self::ReplicaNotFound { .. } => "REPLICA_NOT_FOUND",
            Self::SessionNotFound { .. } => "SESSION_NOT_FOUND",
            Self::CallerGone => "CALLER_GONE",
        }
    }
}

/// Most characters of an [`excerpt`].
const EXCERPT: usize = 64;

/// What of a caller's input an error may repeat: all of it, or the beginning and `…`, 64 characters at most. Errors travel
/// in headers, which callers bound, and more helps nobody to find a typing error.
#[must_use]
pub fn excerpt(input: &str) -> String {
    match input.char_indices().nth(EXCERPT) {
        None => input.to_owned(),
        Some(_) => input.chars().take(EXCERPT - 1).chain(['…']).collect(),
    }
}

fn millis(time: &Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn seconds(time: &Duration) -> String {
    format!("{:.0} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_the_whole_or_a_marked_beginning() {
        let fits = "é".repeat(EXCERPT);
        assert_eq!(excerpt(&fits), fits);
        let cut = excerpt(&"é".repeat(EXCERPT + 1));
        assert_eq!(cut.chars().count(), EXCERPT);
        assert!(cut.ends_with("é…"));
    }
}
