//! What goes wrong in a stage, as its caller is told.

use std::time::Duration;

use super::End;
use crate::error::{ErrorKind, InvalidField, ServeError};

const RETRY: Duration = Duration::from_secs(1);
const RETRY_LOADING: Duration = Duration::from_secs(2);

/// Why a stage gives nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// It failed under this work.
    #[error("stage {stage} failed: {message}")]
    Failed { stage: &'static str, message: String },
    /// No replica of it takes work now.
    #[error("stage {stage} is not available: {message}")]
    Unavailable { stage: &'static str, message: String },
    /// It has no room for another sequence.
    #[error("the server is overloaded: {0}")]
    Overloaded(String),
    #[error("the model is being loaded")]
    Loading,
}

impl StageError {
    /// A panic, whose message is for the panic hook: it may hold what the caller sent.
    #[must_use]
    pub fn panicked(stage: &'static str) -> Self {
        Self::Failed {
            stage,
            message: "it panicked, see the server's log".to_owned(),
        }
    }
}

impl From<StageError> for ServeError {
    fn from(error: StageError) -> Self {
        use StageError as E;
        let new = |kind, reason| Self::new(kind, reason, error.to_string());
        match error {
            E::Failed { stage, .. } => new(ErrorKind::Internal, "STAGE_FAILED").with("stage", stage),
            E::Unavailable { stage, .. } => new(ErrorKind::Unavailable, "STAGE_UNAVAILABLE")
                .with("stage", stage)
                .retry_in(RETRY),
            E::Overloaded(_) => new(ErrorKind::Overloaded, "SERVER_OVERLOADED").retry_in(RETRY),
            E::Loading => new(ErrorKind::Loading, "MODEL_LOADING").retry_in(RETRY_LOADING),
        }
    }
}

impl End {
    /// Why a sequence with this end failed, if it did; `input` is the field that a model rejects.
    #[must_use]
    pub fn error(self, input: &'static str) -> Option<ServeError> {
        Some(match self {
            Self::Stop | Self::Length | Self::Repetition => return None,
            Self::Rejected(problem) => InvalidField::new(input, problem).into(),
            Self::Overloaded(message) => StageError::Overloaded(message).into(),
            Self::Failed { stage, message } => StageError::Failed { stage, message }.into(),
            Self::Lost { stage, message } => StageError::Unavailable { stage, message }.into(),
        })
    }
}
