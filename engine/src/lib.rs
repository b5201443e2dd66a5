//! Pure step machines: continuous batching of autoregressive and streaming stages, KV block bookkeeping.
//!
//! Commands and rows come in by method call, [`ArEngine::step`], [`ChunkEngine::step`] and [`OneShotEngine::step`] do
//! one step of work and return plain events. Nothing here knows of threads, sockets, metrics or the time of day; a
//! worker in the server drives these values, a test drives them the same way.

mod ar;
mod blocks;
mod chunk;
mod content;
mod graph;
mod ids;
mod model;
mod oneshot;
mod order;
mod step;

pub use ar::{AddError, AddOptions, ArConfig, ArEngine, RepetitionLimit, SeqState};
pub use chunk::{ChunkConfig, ChunkEngine, ChunkOutput, OpenError, StreamOptions};
pub use content::{CacheSalt, ContentKey};
pub use graph::{Delivery, GraphError, PayloadKind, Port, StageEdge, StageGraph, StageKind, StageNode};
pub use ids::{BlockId, SeqId, Stamp};
pub use model::{
    Answer, ArModel, AsyncExecutor, ChunkBounds, ChunkModel, CodecFrame, Decoded, KvCache, KvSpec,
    LatentFrame, ModelError, OneShotModel, Sampled, SeqStep, Sequences, Skipped, StepExecutor, VoicePrompt,
    VoiceReference, Warmup,
};
pub use oneshot::{OneShotConfig, OneShotEngine, OneShotError};
pub use step::{FinishReason, SeqEvent, SeqRecord, StepReport, StepStats};
