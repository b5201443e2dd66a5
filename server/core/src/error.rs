//! Everything that can go wrong for a caller, as one value.
//!
//! Level 1: names no wire type. Each module has small enums of its own errors beside their cause, and every such enum
//! has one conversion into a [`ServeError`]. Protocols map that by its [`ErrorKind`] and never read each other's
//! answers. Messages say what was wrong, what was expected and, for a limit, both numbers. They never contain the
//! text to speak, and no more than an [`excerpt`] of names that a caller chose.

pub mod log;
mod model;
mod sessions;
mod stages;

use std::fmt;
use std::time::Duration;

use omni_config::Quota;

use self::log::Fault;
pub use self::sessions::TooManySessions;

/// Meaning of an error for its caller. Every protocol has one table from these to its codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request cannot be honoured as it is.
    InvalidArgument,
    /// The text cannot be spoken.
    Unspeakable,
    /// The request names a model that is not served.
    UnknownModel,
    /// The request is good, but not now.
    FailedPrecondition,
    /// The model or the server lacks the feature.
    NotSupported,
    NotFound,
    Unauthenticated,
    PermissionDenied,
    /// A quota of the caller's API key has no room.
    OverQuota,
    /// The server has as many sessions as it takes.
    TooManySessions,
    /// The queue for the stages is full or too slow.
    QueueFull,
    /// A stage has no room.
    Overloaded,
    /// A limit of this session or service is reached.
    LimitReached,
    /// The model is not loaded yet.
    Loading,
    /// A stage failed.
    Internal,
    /// No replica of a stage takes work.
    Unavailable,
    /// The server shuts down.
    ShuttingDown,
    DeadlineExceeded,
    /// The session reached a timeout or its age limit.
    SessionExpired,
    /// An operator ended the session.
    SessionCancelled,
    /// The caller reads too slowly.
    SlowReader,
    /// The caller is gone: the error ends the work and names the outcome in the record.
    CallerGone,
}

impl ErrorKind {
    /// Party that can do something about it.
    pub fn fault(self) -> Fault {
        match self {
            Self::Internal | Self::Unavailable => Fault::Server,
            Self::CallerGone => Fault::Gone,
            _ => Fault::Caller,
        }
    }
}

/// A quota without room: its name, and its limit in its unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaViolation {
    pub quota: Quota,
    pub limit: String,
}

/// Reason why a call or an utterance could not be served.
// Boxed: it is part of many results, and rare.
#[derive(Clone, PartialEq, Eq)]
pub struct ServeError(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    reason: &'static str,
    message: String,
    field: Option<&'static str>,
    /// Length of the field's name in the message, in bytes.
    subject: usize,
    retry: Option<Duration>,
    quota: Option<QuotaViolation>,
    metadata: Vec<(&'static str, String)>,
}

impl ServeError {
    /// `reason` is stable, for programs (`google.rpc.ErrorInfo.reason`); `message` is for people.
    pub fn new(kind: ErrorKind, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            reason,
            message: message.into(),
            field: None,
            subject: 0,
            retry: None,
            quota: None,
            metadata: Vec::new(),
        }))
    }

    /// Names the field at fault by its path in the .proto files.
    #[must_use]
    pub fn at(mut self, field: &'static str) -> Self {
        self.0.field = Some(field);
        self
    }

    /// Names the field at fault, with which the message begins.
    #[must_use]
    pub fn about(mut self, field: &'static str) -> Self {
        debug_assert!(self.0.message.starts_with(field), "the field leads the message");
        self.0.subject = field.len();
        self.at(field)
    }

    /// Sets the time after which trying again makes sense.
    #[must_use]
    pub fn retry_in(mut self, delay: Duration) -> Self {
        self.0.retry = Some(delay);
        self
    }

    #[must_use]
    pub fn over(mut self, quota: QuotaViolation) -> Self {
        self.0.quota = Some(quota);
        self
    }

    /// Adds a fact for programs (`google.rpc.ErrorInfo.metadata`).
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.0.metadata.push((key, value.into()));
        self
    }

    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        self.with("limit", limit.to_string())
    }

    #[must_use]
    pub fn with_got(self, got: usize) -> Self {
        self.with("got", got.to_string())
    }

    /// The same error with the field called `own`, as the protocol's messages do.
    #[must_use]
    pub fn renamed(mut self, own: &'static str) -> Self {
        self.0.message = self.message_about(own);
        self.0.subject = self.0.subject.min(1) * own.len();
        self.at(own)
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    pub fn reason(&self) -> &'static str {
        self.0.reason
    }

    pub fn field(&self) -> Option<&'static str> {
        self.0.field
    }

    pub fn retry(&self) -> Option<Duration> {
        self.0.retry
    }

    pub fn quota(&self) -> Option<&QuotaViolation> {
        self.0.quota.as_ref()
    }

    pub fn metadata(&self) -> &[(&'static str, String)] {
        &self.0.metadata
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The message in a protocol that calls the field `own`.
    pub fn message_about(&self, own: &str) -> String {
        match self.0.message.get(self.0.subject..) {
            Some(rest) if self.0.subject > 0 => format!("{own}{rest}"),
            _ => self.0.message.clone(),
        }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ServeError {}

/// A field has a value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", about(.field, .problem))]
pub struct InvalidField {
    /// Path of the field, as in the .proto files.
    pub field: &'static str,
    /// The problem, and the accepted values.
    pub problem: String,
}

impl InvalidField {
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self { field, problem }
    }
}

/// First words of problems that continue the field's name as a sentence; before others there is a colon.
const VERBS: [&str; 10] = [
    "is", "are", "has", "have", "was", "needs", "takes", "names", "lacks", "comes",
];

impl From<InvalidField> for ServeError {
    fn from(error: InvalidField) -> Self {
        Self::new(ErrorKind::InvalidArgument, "INVALID_FIELD", error.to_string()).about(error.field)
    }
}

/// Message about a field: "speed is 10, ..." or "speed: ...".
pub fn about(field: &str, problem: &str) -> String {
    let first = problem.split(' ').next().unwrap_or_default();
    if VERBS.contains(&first) {
        format!("{field} {problem}")
    } else {
        format!("{field}: {problem}")
    }
}

/// Most characters of an [`excerpt`].
const EXCERPT: usize = 64;

/// Part of a caller's input that an error may repeat: all of it, or the beginning and `…`, 64 characters at most.
/// Errors travel in headers, which callers bound, and more does not help to find a typing error.
pub fn excerpt(input: &str) -> String {
    match input.char_indices().nth(EXCERPT) {
        None => input.to_owned(),
        Some(_) => input.chars().take(EXCERPT - 1).chain(['…']).collect(),
    }
}

/// Formats a time for messages.
pub fn seconds(time: &Duration) -> String {
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

    #[test]
    fn a_message_that_begins_with_its_field_is_told_with_another_name_of_it() {
        let error = ServeError::from(InvalidField::new("config.speed", "is 9"));
        assert_eq!(error.message_about("speed"), "speed is 9");
        let error = error.renamed("speed");
        assert_eq!((error.message(), error.field()), ("speed is 9", Some("speed")));
        assert_eq!(error.message_about("rate"), "rate is 9");
        let voice = ServeError::new(ErrorKind::InvalidArgument, "VOICE_NOT_FOUND", "no such voice");
        let voice = voice.at("config.voice");
        assert_eq!(voice.message_about("voice"), "no such voice");
        assert_eq!(voice.renamed("v").message(), "no such voice");
    }
}
