//! Model families: a graph, and the model of each stage.

use std::sync::Arc;

use omni_engine::{
    ArModel, ChunkModel, ChunkOutput, ModelError, OneShotModel, RepetitionLimit, Sequences, StageGraph,
    StepExecutor,
};

use super::events::KvPosition;
use super::handle::StageHandle;
use super::job::StageJob;
use super::launch::Launch;
use super::worker::StageBody;
use crate::item::{FromItem, Item};
use crate::request::StageRequest;

/// Reason why a model, or a part of it, is unavailable.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackendError {
    /// It may work the next time.
    #[error("{0}")]
    Failed(String),
    /// It cannot be had in this process any more: what it would compute on is of no use.
    #[error("{0}")]
    Lost(String),
}

impl From<ModelError> for BackendError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Lost(reason) => Self::Lost(reason),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl BackendError {
    pub(super) fn warm_up(error: impl std::fmt::Display) -> Self {
        Self::Failed(format!("the warm-up is refused: {error}"))
    }

    /// A stage was asked for something that it is not there for.
    #[must_use]
    pub fn unexpected(request: &StageRequest) -> Self {
        Self::Failed(format!("the stage does not make {}", request.output().name()))
    }
}

/// A model family, loaded.
pub trait StageFamily: Send + Sync + 'static {
    /// Its stages, and what passes between them.
    fn graph(&self) -> StageGraph;

    /// A replica of a stage of the graph: [`Launch`] takes what builds its model.
    fn launch(self: Arc<Self>, stage: &'static str, launch: Launch) -> (StageHandle<StageJob>, StageBody);
}

/// A little work that no caller asked for.
#[derive(Debug, Clone)]
pub struct WarmUp {
    /// Request, with a bound of its outputs.
    pub request: StageRequest,
    /// All that comes by an edge.
    pub inputs: Vec<Item>,
}

/// Builds the model of a replica of an autoregressive stage and puts requests in its form. Called on the replica's thread; a replica
/// whose model was lost to a panic asks again.
pub trait ArBackend: Send + 'static {
    /// The model.
    type Model: ArModel<Row: FromItem> + Send;

    /// One without sequences.
    ///
    /// # Errors
    /// If it cannot be built.
    fn load(&self) -> Result<Self::Model, BackendError>;

    /// The model's own form of a request.
    ///
    /// # Errors
    /// If it is for another kind of stage.
    fn request(&self, request: StageRequest) -> Result<<Self::Model as Sequences>::Request, BackendError>;

    /// An output as it passes an edge.
    fn item(output: <Self::Model as StepExecutor>::Output) -> Item;

    /// Request with which it warms up.
    ///
    /// # Errors
    /// If the model refuses it.
    fn warm_up(&self) -> Result<WarmUp, BackendError>;

    /// Size of a position in its KV cache, where that is known.
    fn kv_position(&self) -> Option<KvPosition> {
        None
    }

    /// Repetition limit of the model's sequences, unless the settings of the stage set one.
    fn repetition(&self) -> Option<RepetitionLimit> {
        None
    }
}

/// Builds the model of a replica of a chunk stage. Called as an [`ArBackend`] is.
pub trait ChunkBackend: Send + 'static {
    /// The model.
    type Model: ChunkModel<Item: FromItem> + Send;

    /// One without streams.
    ///
    /// # Errors
    /// If it cannot be built.
    fn load(&self) -> Result<Self::Model, BackendError>;

    /// Item of an output of a step.
    fn item(output: ChunkOutput<<Self::Model as ChunkModel>::Sample>) -> Item;

    /// Items with which it warms up.
    fn warm_up(&self) -> Vec<Item>;
}

/// Builds the model of a replica of a one-shot stage. Called as an [`ArBackend`] is.
pub trait OneShotBackend: Send + 'static {
    /// The model.
    type Model: OneShotModel + Send;

    /// One without requests.
    ///
    /// # Errors
    /// If it cannot be built.
    fn load(&self) -> Result<Self::Model, BackendError>;

    /// The model's own form of a request.
    ///
    /// # Errors
    /// If it is for another kind of stage.
    fn request(&self, request: StageRequest) -> Result<<Self::Model as OneShotModel>::Input, BackendError>;

    /// An answer as it passes an edge.
    fn item(output: <Self::Model as OneShotModel>::Output) -> Item;

    /// Request with which it warms up.
    ///
    /// # Errors
    /// If there is nothing that it takes.
    fn warm_up(&self) -> Result<StageRequest, BackendError>;
}
