//! Events of an engine.
//!
//! In: what the thread of a replica sees of its engine. Out: [`EngineEvent`] for whoever observes the replica: plain values, which
//! could as well come from another process. Kept here is only, per sequence, when it arrived and when it last gave something.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{
    AddError, ArConfig, ArEvent, ArModel, ArReport, ChunkStats, FinishReason, OneShotReport, SeqId,
    SeqRecord, Stamp,
};

use super::progress::StageProgress;
use super::replica::ReplicaId;

/// Something that an engine did.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineEvent {
    /// Its model is built.
    Loaded {
        /// How long that took.
        after: Duration,
    },
    /// It has its KV cache.
    Cache(CacheFigures),
    /// It took a sequence.
    Taken(SeqTaken),
    /// A step is over. Told before what it gave is passed on, so that nobody who got it reads figures without it.
    Step(StepFigures),
    /// A sequence gave its first output.
    FirstOutput {
        /// How long after it arrived.
        after: Duration,
    },
    /// A sequence gave a further output.
    NextOutput {
        /// How long after the one before.
        gap: Duration,
    },
    /// A sequence ran out of input although the stage before should have delivered.
    Starved,
    /// The engine is done with a sequence; once for each that it took.
    Finished(SeqEnd),
    /// The engine has no room for a sequence.
    Refused(Refusal),
    /// So many sequences are left after some were given up between steps.
    Running(u32),
    /// Nothing is there any more.
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
    /// Whether prefixes are shared.
    pub prefix_caching: bool,
    /// What a position takes, if it is known.
    pub position: Option<KvPosition>,
}

/// What one position takes in a KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvPosition {
    /// Bytes in all layers.
    pub bytes: u64,
    /// Of keys and values.
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

    /// What PyTorch calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Bfloat16 => "bfloat16",
            Self::Float16 => "float16",
        }
    }
}

/// What is so after a step, and what the step did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepFigures {
    /// When it ended.
    pub at: Stamp,
    /// Sequences with a place.
    pub running: u32,
    /// Those that wait for room.
    pub waiting_capacity: u32,
    /// Those that wait for something else.
    pub waiting_deferred: u32,
    /// Share of the KV blocks in use, 0 to 1.
    pub kv_usage: f64,
    /// Prompt positions of the sequences that gave their first output, found ones included.
    pub prompt_tokens: u32,
    /// Of these, how many were found in the prefix cache.
    pub cached_tokens: u32,
    /// Outputs: tokens, or codec frames made or decoded.
    pub outputs: u32,
    /// Sequences that got a place for the first time.
    pub admitted: u32,
    /// Positions looked up in the prefix cache.
    pub prefix_queries: u32,
    /// Of these, how many were found.
    pub prefix_hits: u32,
    /// Sequences that lost their place to another.
    pub preempted: u32,
    /// Items that wait to be decoded.
    pub queued_items: u32,
    /// Prompt positions computed, recomputation included; frames of audio read by an encoder.
    pub prefill_tokens: u32,
    /// Decode positions computed; codec frames decoded; recordings encoded.
    pub decode_tokens: u32,
    /// Chunks of audio that came after an ideal listener had run dry.
    pub late: u32,
    /// Time that the step took beyond the one before it.
    pub busy: Duration,
}

impl StepFigures {
    /// Of an autoregressive engine.
    pub(super) fn ar<T>(report: &ArReport<T>, busy: Duration) -> Self {
        let stats = &report.stats;
        let first_places = report
            .events
            .iter()
            .filter(|event| matches!(event, ArEvent::Scheduled { resumed: false, .. }));
        Self {
            at: report.ended,
            running: stats.running,
            waiting_capacity: stats.waiting_capacity,
            waiting_deferred: stats.waiting_deferred,
            kv_usage: stats.kv_usage,
            prompt_tokens: stats.prompt_tokens,
            cached_tokens: stats.prompt_tokens_cached,
            outputs: stats.generation_tokens,
            admitted: u32::try_from(first_places.count()).unwrap_or(u32::MAX),
            prefix_queries: stats.prefix_queries,
            prefix_hits: stats.prefix_hits,
            preempted: stats.preempted,
            queued_items: 0,
            prefill_tokens: stats.prefill_tokens,
            decode_tokens: stats.decode_tokens,
            late: 0,
            busy,
        }
    }

    /// Of an encoder: what it reads are frames of audio, all of which are new to it; it has no KV cache.
    pub(super) fn one_shot<T>(report: &OneShotReport<T>) -> Self {
        let stats = &report.stats;
        Self {
            at: report.ended,
            waiting_capacity: stats.waiting,
            prompt_tokens: stats.cost,
            outputs: stats.batch,
            admitted: stats.batch,
            prefill_tokens: stats.cost,
            decode_tokens: stats.batch,
            busy: report.ended.since(report.began),
            ..Self::default()
        }
    }

    /// Of a vocoder: its outputs are codec frames decoded; it has no prompts and no KV cache.
    pub(super) fn chunk(stats: &ChunkStats, began: Stamp, at: Stamp) -> Self {
        Self {
            at,
            running: stats.streams,
            outputs: stats.items,
            queued_items: stats.queued_items,
            decode_tokens: stats.items,
            late: stats.late,
            busy: at.since(began),
            ..Self::default()
        }
    }
}

/// The beginning of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeqTaken {
    /// Which.
    pub seq: SeqId,
    /// When it arrived at the edge.
    pub arrived: Stamp,
    /// Most outputs it is allowed.
    pub max_outputs: Option<u32>,
}

impl SeqTaken {
    /// It is over at `now`, for a reason that its engine cannot tell any more.
    pub(crate) fn lost(&self, reason: EndReason, now: Stamp) -> EngineEvent {
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
    /// Which.
    pub seq: SeqId,
    /// Why.
    pub reason: EndReason,
    /// From its arrival to now.
    pub latency: Duration,
    /// Its life in figures, if the engine could tell it.
    pub record: Option<SeqRecord>,
    /// Most outputs it was allowed.
    pub max_outputs: Option<u32>,
}

/// Why an engine is done with a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// It came to its end.
    Stop,
    /// It reached a limit.
    Length,
    /// It was given up.
    Abort,
    /// It failed.
    Error,
    /// It was going round in circles.
    Repetition,
}

impl From<&FinishReason> for EndReason {
    fn from(reason: &FinishReason) -> Self {
        match reason {
            FinishReason::Stop => Self::Stop,
            FinishReason::Length => Self::Length,
            FinishReason::Abort => Self::Abort,
            FinishReason::Error(_) => Self::Error,
            FinishReason::Repetition => Self::Repetition,
        }
    }
}

/// What an engine has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another sequence.
    Sequences,
    /// So many positions.
    Positions,
}

impl Refusal {
    pub(super) fn of(error: &AddError) -> Option<Self> {
        match error {
            AddError::QueueFull { .. } => Some(Self::Sequences),
            AddError::QueueTokens { .. } => Some(Self::Positions),
            _ => None,
        }
    }
}

/// Takes what the engine of one replica tells. Called on the replica's thread: must not block.
pub trait EngineSink: Send + Sync {
    /// Something happened.
    fn on_event(&self, event: &EngineEvent);
}

/// Takes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct IgnoreEngines;

impl EngineSink for IgnoreEngines {
    fn on_event(&self, _event: &EngineEvent) {}
}

/// Gives each replica of a stage somebody who listens.
pub type Listen = Arc<dyn Fn(&'static str, ReplicaId) -> Arc<dyn EngineSink> + Send + Sync>;

/// When a sequence arrived at an engine, and when it last gave an output.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeqTimeline {
    taken: SeqTaken,
    last_output: Option<Stamp>,
}

impl SeqTimeline {
    /// Of a sequence that is taken at `now`. Where nobody has said when it arrived, that is now.
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

    /// It was taken.
    pub(super) fn begin(&self) -> EngineEvent {
        EngineEvent::Taken(self.taken)
    }

    /// It gave an output.
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

    /// It is over.
    pub(super) fn end(&self, reason: EndReason, record: Option<SeqRecord>, now: Stamp) -> SeqEnd {
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
            reason: EndReason::Abort,
            latency: Duration::from_millis(150),
            record: None,
            max_outputs: Some(9),
        };
        let end = timeline.end(EndReason::Abort, None, at(250));
        assert_eq!(end, expected);
    }

    #[test]
    fn a_sequence_of_which_nobody_knows_better_arrives_when_it_is_taken() {
        let mut timeline = SeqTimeline::new(SeqId(3), &StageProgress::default(), None, at(10));
        let after = Duration::from_millis(5);
        assert_eq!(timeline.output(at(15)), EngineEvent::FirstOutput { after });
    }
}
