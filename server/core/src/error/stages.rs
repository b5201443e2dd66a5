//! Failures of stages as errors for callers.

use std::time::Duration;

use omni_pipeline::orchestrator::{AdmissionError, StageError};
use omni_pipeline::stage::{EdgeFull, End};

use super::{ErrorKind, InvalidField, ServeError};
use crate::drain::ShutdownError;

const RETRY: Duration = Duration::from_secs(1);
const RETRY_LOADING: Duration = Duration::from_secs(2);

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

impl From<EdgeFull> for ServeError {
    fn from(full: EdgeFull) -> Self {
        let stage = "session";
        let message = full.to_string();
        StageError::Failed { stage, message }.into()
    }
}

impl From<AdmissionError> for ServeError {
    fn from(error: AdmissionError) -> Self {
        match &error {
            AdmissionError::QueueFull { retry, .. } => {
                Self::new(ErrorKind::QueueFull, "SERVER_OVERLOADED", error.to_string()).retry_in(*retry)
            }
            AdmissionError::Stopped => ShutdownError::Stopped.into(),
        }
    }
}

impl ServeError {
    /// Error of a sequence with this end, if it failed; `input` is the field that a model rejects.
    pub fn of_end(end: End, input: &'static str) -> Option<Self> {
        Some(match end {
            End::Stop | End::Length | End::Repetition => return None,
            End::Rejected(problem) => InvalidField::new(input, problem).into(),
            End::Overloaded(message) => StageError::Overloaded(message).into(),
            End::Failed { stage, message } => StageError::Failed { stage, message }.into(),
            End::Lost { stage, message } | End::Severed { stage, message } => {
                StageError::Unavailable { stage, message }.into()
            }
        })
    }
}
