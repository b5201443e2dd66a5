//! Pure step machines: continuous batching of autoregressive and streaming stages, KV block bookkeeping.
//!
//! Commands and rows come in by method call, [`ArEngine::step`] and [`ChunkEngine::step`] do one step of work and
//! return plain events. Nothing here knows of threads, sockets, metrics or the time of day; a worker in the server
//! drives these values, a test drives them the same way.

mod ar;
mod blocks;
mod chunk;
mod content;
mod ids;
mod model;

pub use ar::{
    AddError, AddOptions, ArConfig, ArEngine, ArEvent, ArReport, ArStats, FinishReason, RepetitionLimit,
    SeqRecord, SeqState,
};
pub use chunk::{ChunkConfig, ChunkEngine, ChunkEvent, ChunkReport, ChunkStats, OpenError, StreamOptions};
pub use content::{CacheSalt, ContentKey};
pub use ids::{BlockId, SeqId, Stamp};
pub use model::{ArModel, ChunkModel, CodecFrame, KvSpec, ModelError, Sampled, SeqStep};
