//! Refusal of a sequence by an engine: the report to observers, and the end of the sequence.

use std::fmt;

use omni_engine::{AddError, ModelError, OneShotError, OpenError};

use super::events::Refusal;
use super::flow::End;
use super::sides::failed;

/// A sequence that its engine does not take.
#[derive(Debug, PartialEq)]
pub(super) struct Refused {
    /// Resource that is lacking.
    pub(super) refusal: Option<Refusal>,
    pub(super) end: End,
}

impl Refused {
    fn full(refusal: Refusal, error: &impl fmt::Display) -> Self {
        Self {
            refusal: Some(refusal),
            end: End::Overloaded(error.to_string()),
        }
    }

    /// Refusal for which the request is at fault.
    fn rejected(error: &impl fmt::Display) -> Self {
        Self {
            refusal: None,
            end: End::Rejected(error.to_string()),
        }
    }

    /// Refusal because the device or engine is lost; another replica may take the sequence.
    fn lost(stage: &'static str, reason: &str) -> Self {
        let message = reason.to_owned();
        Self {
            refusal: None,
            end: End::Lost { stage, message },
        }
    }

    fn failed(stage: &'static str, error: &impl fmt::Display) -> Self {
        Self {
            refusal: None,
            end: failed(stage, error.to_string()),
        }
    }
}

/// Converts an error of an engine to the refusal of its stage.
pub(super) trait EngineError {
    fn refused(&self, stage: &'static str) -> Refused;
}

impl EngineError for AddError {
    fn refused(&self, stage: &'static str) -> Refused {
        match self {
            Self::QueueFull { .. } => Refused::full(Refusal::Sequences, self),
            Self::QueueTokens { .. } => Refused::full(Refusal::Positions, self),
            Self::TooLong { .. } | Self::Model(ModelError::Rejected(_)) => Refused::rejected(self),
            Self::Model(ModelError::Lost(reason)) => Refused::lost(stage, reason),
            Self::Duplicate(_) | Self::NoOutputs(_) | Self::Repetition(_) | Self::Model(_) => {
                Refused::failed(stage, self)
            }
        }
    }
}

impl EngineError for OpenError {
    fn refused(&self, stage: &'static str) -> Refused {
        match self {
            Self::Full { .. } => Refused::full(Refusal::Sequences, self),
            Self::Model(ModelError::Rejected(_)) => Refused::rejected(self),
            Self::Model(ModelError::Lost(reason)) => Refused::lost(stage, reason),
            Self::Duplicate(_) | Self::Model(_) => Refused::failed(stage, self),
        }
    }
}

impl EngineError for OneShotError {
    fn refused(&self, stage: &'static str) -> Refused {
        match self {
            Self::QueueFull { .. } => Refused::full(Refusal::Sequences, self),
            Self::QueueCost { .. } => Refused::full(Refusal::Positions, self),
            Self::TooLarge { .. } | Self::Model(ModelError::Rejected(_)) => Refused::rejected(self),
            Self::Model(ModelError::Lost(reason)) => Refused::lost(stage, reason),
            Self::Duplicate(_) | Self::Model(_) => Refused::failed(stage, self),
        }
    }
}
