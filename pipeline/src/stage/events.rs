//! Events of an engine.
//!
//! In: observations of a replica's thread. Out: [`EngineEvent`] for observers of the replica: plain values, which may
//! come from another process. The only state is, per sequence, its arrival and its last output.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{ArConfig, ArModel, FinishReason, SeqId, SeqRecord, Stamp, StepStats};

use super::progress::StageProgress;
use super::replica::ReplicaId;

/// Something that an engine did.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineEvent {
    /// Its model is built.
    Loaded {
        /// Duration.
        after: Duration,
    },
    /// It has its KV cache.
    Cache(CacheFigures),
    /// It took a sequence.
    Taken(SeqTaken),
    /// A step is over. Reported before its outputs are passed on, so that figures contain them when they are read.
    Step {
        /// End of the step.
        at: Stamp,
        /// Time that it took beyond the one before it.
        busy: Duration,
        /// State after the step, and counts of the step.
        stats: StepStats,
    },
    /// A sequence gave its first output.
    FirstOutput {
        /// Time since its arrival.
        after: Duration,
    },
    /// A sequence gave a further output.
    NextOutput {
        /// Time since the output before it.
        gap: Duration,
    },
    /// A sequence ran out of input although the stage before should have delivered.
    Starved,
    /// The engine is done with a sequence; once for each that it took.
    Finished(SeqEnd),
    /// The engine has no room for a sequence.
    Refused(Refusal),
    /// Sequences left after some were cancelled between steps.
    Running(u32),
    /// No sequence is left.
    Idle,
}

/// A KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheFigures {
    /// Positions per block.
    pub block_size: u32,
    /// Blocks.
    pub blocks: u32,
    /// Longest sequence in positions.
    pub max_len: u32,
    /// `true` if prefixes are shared.
    pub prefix_caching: bool,
    /// Size of a position, if it is known.
    pub position: Option<KvPosition>,
}

/// Size of one position in a KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvPosition {
    /// Bytes in all layers.
    pub bytes: u64,
    /// Number format of keys and values.
    pub format: KvFormat,
}

/// A number format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvFormat {
    /// 32 bits.
    Float32,
    /// 16 bits with the exponent of 32.
    Bfloat16,
    /// 16 bits.
    Float16,
}

impl KvFormat {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Float32, Self::Bfloat16, Self::Float16];

    /// Name of the format in PyTorch.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Bfloat16 => "bfloat16",
            Self::Float16 => "float16",
        }
    }
}

/// The beginning of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeqTaken {
    /// The sequence.
    pub seq: SeqId,
    /// Time of its arrival at the edge.
    pub arrived: Stamp,
    /// Most outputs it is allowed.
    pub max_outputs: Option<u32>,
}

impl SeqTaken {
    /// End at `now`, for a reason that its engine can no longer report.
    pub(crate) fn lost(&self, reason: FinishReason, now: Stamp) -> EngineEvent {
        EngineEvent::Finished(SeqEnd {
            seq: self.seq,
            reason,
            latency: now.since(self.arrived),
            record: None,
            max_outputs: self.max_outputs,
        })
    }
}

/// The end of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct SeqEnd {
    /// The sequence.
    pub seq: SeqId,
    /// Reason of the end.
    pub reason: FinishReason,
    /// Time since its arrival.
    pub latency: Duration,
    /// Record of its life, if the engine could report it.
    pub record: Option<SeqRecord>,
    /// Most outputs it was allowed.
    pub max_outputs: Option<u32>,
}

/// Resource that an engine lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Room for another sequence.
    Sequences,
    /// Room for its positions.
    Positions,
}

/// Receives the events of one replica's engine. Called on the replica's thread: must not block.
pub trait EngineSink: Send + Sync {
    /// Called for an event.
    fn on_event(&self, event: &EngineEvent);

    /// Called for an event of a sequence that the event does not name.
    fn on_event_of(&self, seq: SeqId, event: &EngineEvent) {
        let _ = seq;
        self.on_event(event);
    }
}

/// Discards all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct IgnoreEngines;

impl EngineSink for IgnoreEngines {
    fn on_event(&self, _event: &EngineEvent) {}
}

/// Creates the event sink of each replica of a stage.
pub type Listen = Arc<dyn Fn(&'static str, ReplicaId) -> Arc<dyn EngineSink> + Send + Sync>;

/// Arrival of a sequence at an engine, and its last output.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeqTimeline {
    taken: SeqTaken,
    last_output: Option<Stamp>,
}

impl SeqTimeline {
    /// Timeline of a sequence that is taken at `now`, which is also its arrival if none was recorded.
    pub(super) fn new(seq: SeqId, progress: &StageProgress, max_outputs: Option<u32>, now: Stamp) -> Self {
        Self {
            taken: SeqTaken {
                seq,
                arrived: progress.arrived().unwrap_or(now),
                max_outputs,
            },
            last_output: None,
        }
    }

    /// Event of its beginning.
    pub(super) fn begin(&self) -> EngineEvent {
        EngineEvent::Taken(self.taken)
    }

    /// Records an output; returns its event.
    pub(super) fn output(&mut self, at: Stamp) -> EngineEvent {
        match self.last_output.replace(at) {
            None => EngineEvent::FirstOutput {
                after: at.since(self.taken.arrived),
            },
            Some(before) => EngineEvent::NextOutput {
                gap: at.since(before),
            },
        }
    }

    /// Record of its end.
    pub(super) fn end(&self, reason: FinishReason, record: Option<SeqRecord>, now: Stamp) -> SeqEnd {
        SeqEnd {
            seq: self.taken.seq,
            reason,
            latency: now.since(self.taken.arrived),
            record,
            max_outputs: self.taken.max_outputs,
        }
    }
}

/// The cache of `model` in an engine with that configuration.
pub(super) fn cache<M: ArModel>(model: &M, config: &ArConfig, position: Option<KvPosition>) -> EngineEvent {
    let spec = model.kv_spec();
    EngineEvent::Cache(CacheFigures {
        block_size: spec.block_size,
        blocks: spec.num_blocks,
        max_len: spec.max_len.min(config.max_model_len),
        prefix_caching: config.prefix_cache,
        position,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Stamp {
        Stamp(Duration::from_millis(ms))
    }

    #[test]
    fn latencies_begin_at_the_edge_and_gaps_at_the_output_before() {
        let progress = StageProgress::default();
        progress.arrive(at(100));
        let mut timeline = SeqTimeline::new(SeqId(3), &progress, Some(9), at(150));
        let after = Duration::from_millis(80);
        assert_eq!(timeline.output(at(180)), EngineEvent::FirstOutput { after });
        let gap = Duration::from_millis(20);
        assert_eq!(timeline.output(at(200)), EngineEvent::NextOutput { gap });
        let expected = SeqEnd {
            seq: SeqId(3),
            reason: FinishReason::Abort,
            latency: Duration::from_millis(150),
            record: None,
            max_outputs: Some(9),
        };
        let end = timeline.end(FinishReason::Abort, None, at(250));
        assert_eq!(end, expected);
    }

    #[test]
    fn a_sequence_of_which_nobody_knows_better_arrives_when_it_is_taken() {
        let mut timeline = SeqTimeline::new(SeqId(3), &StageProgress::default(), None, at(10));
        let after = Duration::from_millis(5);
        assert_eq!(timeline.output(at(15)), EngineEvent::FirstOutput { after });
    }
}
