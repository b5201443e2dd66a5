//! Measurement of edges: every chunk stamped, every edge summed up.
//!
//! The writer stamps the beginning and end of handing a chunk over, the reader those of taking it; in between the
//! chunk is in flight. Within one process nothing is encoded: handing over measures the chunk and books its room,
//! taking frees the room and wakes the writer. That takes well under a microsecond and is measured all the same.
//! Between processes the stamps are those of the connection: a chunk is handed over when encoded, and taken when
//! decoded. Nothing is allocated per chunk.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::{SeqId, Stamp};

use crate::clock::Clock;
use crate::stage::{ReplicaId, TransferStamps};
use crate::trace::TraceHandle;

/// One end of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Name of the stage, or "session".
    pub stage: &'static str,
    /// Replica of the stage; none for a session.
    pub replica: Option<ReplicaId>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replica {
            Some(replica) => write!(f, "{}-{replica}", self.stage),
            None => f.write_str(self.stage),
        }
    }
}

/// An edge of one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The sequence.
    pub seq: SeqId,
    /// The writer.
    pub from: Place,
    /// The reader.
    pub to: Place,
}

/// Totals of one edge of one sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeRecord {
    /// The edge.
    pub hop: Hop,
    /// Trace context of the request, if it is traced.
    pub trace: Option<TraceHandle>,
    /// Time at which the first chunk began to be handed over.
    pub first: Stamp,
    /// Time at which the last one was taken.
    pub last: Stamp,
    /// Chunks that were read.
    pub chunks: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Time to hand them over.
    pub tx: Duration,
    /// Time on their way.
    pub in_flight: Duration,
    /// Longest time of one on its way.
    pub longest: Duration,
    /// Time to take them.
    pub rx: Duration,
}

impl EdgeRecord {
    pub(super) fn new(hop: Hop, trace: Option<TraceHandle>) -> Self {
        Self {
            hop,
            trace,
            first: Stamp::default(),
            last: Stamp::default(),
            chunks: 0,
            bytes: 0,
            tx: Duration::ZERO,
            in_flight: Duration::ZERO,
            longest: Duration::ZERO,
            rx: Duration::ZERO,
        }
    }

    pub(super) fn add(&mut self, chunk: &TransferStamps) {
        if self.chunks == 0 {
            self.first = chunk.tx_start;
        }
        self.last = chunk.rx_end;
        self.chunks += 1;
        self.bytes = self.bytes.saturating_add(chunk.bytes);
        self.tx += chunk.tx_end.since(chunk.tx_start);
        self.in_flight += chunk.in_flight();
        self.longest = self.longest.max(chunk.in_flight());
        self.rx += chunk.rx_end.since(chunk.rx_start);
    }
}

/// Receives the measurements of edges. Called on the reader's thread or task: must not block.
pub trait EdgeSink: Send + Sync {
    /// Called when a chunk has been read.
    fn chunk(&self, hop: &Hop, chunk: &TransferStamps);

    /// Called when a used edge closes.
    fn closed(&self, record: &EdgeRecord);
}

/// Discards all measurements.
#[derive(Debug, Clone, Copy, Default)]
pub struct IgnoreEdges;

impl EdgeSink for IgnoreEdges {
    fn chunk(&self, _hop: &Hop, _chunk: &TransferStamps) {}

    fn closed(&self, _record: &EdgeRecord) {}
}

/// Meter of one edge.
#[derive(Clone, derive_more::Debug)]
#[debug("EdgeMeter {{ hop: {:?}, .. }}", self.hop)]
pub struct EdgeMeter {
    /// The edge.
    pub hop: Hop,
    /// Trace context of the request, if it is traced.
    pub trace: Option<TraceHandle>,
    /// The time.
    pub clock: Clock,
    /// Receiver of the figures.
    pub sink: Arc<dyn EdgeSink>,
}
