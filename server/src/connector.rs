//! Edges between stages: bounded, never blocking, and they wake whoever waits at the other end.
//!
//! An [`edge`] has one writer and one reader. Its capacity is counted in the reader's unit (codec frames, for audio too);
//! a writer that finds no room pauses its sequence and is woken when the reader has made half of it free. Dropping either
//! end is noticed by the other. Data passes from worker to worker, or from worker to session, and through nobody else. What
//! passes is measured at the edge itself, chunk by chunk ([`EdgeMeter`]).

mod local;
mod meter;

pub use local::{EdgeReader, EdgeWriter, edge, metered_edge};
pub use meter::{ChunkStamps, EdgeMeter, EdgeRecord, EdgeSink, Hop, IgnoreEdges, Payload, Place};
