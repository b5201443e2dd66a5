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
    /// The next attempt may succeed.
    #[error("{0}")]
    Failed(String),
    /// Not available in this process any more: its device is lost.
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

    /// Error for a request that the stage does not serve.
    pub fn unexpected(request: &StageRequest) -> Self {
        Self::Failed(format!("the stage does not make {}", request.output().name()))
    }
}

/// A model family, loaded.
pub trait StageFamily: Send + Sync + 'static {
    /// Its stages, and what passes between them.
    fn graph(&self) -> StageGraph;

    /// Creates a replica of a stage of the graph: [`Launch`] takes the builder of its model.
    fn launch(self: Arc<Self>, stage: &'static str, launch: Launch) -> (StageHandle<StageJob>, StageBody);
}

/// Warm-up work that no caller requested.
#[derive(Debug, Clone)]
pub struct WarmUp {
    /// Request, with a bound of its outputs.
    pub request: StageRequest,
    /// All that comes by an edge.
    pub inputs: Vec<Item>,
}

/// Builds the model of a replica of an autoregressive stage and converts requests. Called on the replica's thread,
/// again after each loss of the model to a panic.
pub trait ArBackend: Send + 'static {
    /// The model.
    type Model: ArModel<Row: FromItem> + Send;

    /// Builds a model without sequences.
    ///
    /// # Errors
    /// If it cannot be built.
    fn load(&self) -> Result<Self::Model, BackendError>;

    /// Converts a request to the model's own form.
    ///
    /// # Errors
    /// If it is for another kind of stage.
    fn request(&self, request: StageRequest) -> Result<<Self::Model as Sequences>::Request, BackendError>;

    /// Converts an output to an item.
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

    /// Builds a model without streams.
    ///
    /// # Errors
    /// If it cannot be built.
    fn load(&self) -> Result<Self::Model, BackendError>;

    /// Converts a request to the model's own form.
    ///
    /// # Errors
    ///
    /// If it is for another kind of stage.
    fn request(&self, request: StageRequest) -> Result<<Self::Model as ChunkModel>::Request, BackendError>;

    /// Item of an output of a step.
    fn item(output: ChunkOutput<<Self::Model as ChunkModel>::Sample>) -> Item;

    /// Request with which it warms up.
    ///
    /// # Errors
    ///
    /// If there is nothing that it takes.
    fn warm_up(&self) -> Result<WarmUp, BackendError>;
}

/// Builds the model of a replica of a one-shot stage. Called as an [`ArBackend`] is.
pub trait OneShotBackend: Send + 'static {
    /// The model.
    type Model: OneShotModel + Send;

    /// Builds a model without requests.
    ///
    /// # Errors
    /// If it cannot be built.
    fn load(&self) -> Result<Self::Model, BackendError>;

    /// Converts a request to the model's own form.
    ///
    /// # Errors
    /// If it is for another kind of stage.
    fn request(&self, request: StageRequest) -> Result<<Self::Model as OneShotModel>::Input, BackendError>;

    /// Converts an output to an item, of as many units as the model [says](OneShotModel::units).
    fn item(output: <Self::Model as OneShotModel>::Output) -> Item;

    /// Request with which it warms up.
    ///
    /// # Errors
    /// If there is nothing that it takes.
    fn warm_up(&self) -> Result<StageRequest, BackendError>;
}
