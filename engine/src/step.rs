//! Report of an engine's step: events, counts, and per sequence the record of its life. The same for every engine;
//! values that an engine does not have are absent or zero.

use std::time::Duration;

use crate::ids::{SeqId, Stamp};

/// Reason why a sequence ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it, or the caller found a stop string.
    Stop,
    /// It reached `max_outputs`, the longest sequence allowed, or the size of the KV pool.
    Length,
    /// The caller aborted it.
    Abort,
    /// Its computation failed.
    Error(String),
    /// Its outputs repeated.
    Repetition,
}

/// Event in the life of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub enum SeqEvent<T> {
    /// It was added since the last step.
    Queued {
        /// The sequence.
        seq: SeqId,
        /// Time of the event.
        at: Stamp,
    },
    /// It got a place, for the first time or again after a preemption.
    Scheduled {
        /// The sequence.
        seq: SeqId,
        /// Time at which it began to wait for a place: it was added, or preempted.
        queued_at: Stamp,
        /// Start of the step that took it.
        at: Stamp,
        /// `true` if it had run before.
        resumed: bool,
    },
    /// It lost its place and its KV blocks; it is recomputed later.
    Preempted {
        /// The sequence.
        seq: SeqId,
        /// Start of the step in which it did.
        at: Stamp,
    },
    /// It produced one output, at [`StepReport::ended`].
    Output {
        /// The sequence.
        seq: SeqId,
        /// The output.
        item: T,
    },
    /// It has ended and is forgotten. Every sequence that was admitted gets exactly one of these.
    Finished {
        /// The sequence.
        seq: SeqId,
        /// Reason of the end.
        reason: FinishReason,
        /// Record of its life.
        record: SeqRecord,
    },
}

/// Record of one sequence's life. All stamps are the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeqRecord {
    /// Time at which it was added.
    pub queued: Stamp,
    /// Time at which it first got a place. Later preemptions do not change it.
    pub scheduled: Option<Stamp>,
    /// Time of its first output.
    pub first_output: Option<Stamp>,
    /// Time of its last output.
    pub last_output: Option<Stamp>,
    /// Time of its end.
    pub finished: Stamp,
    /// Prompt positions; of a one-shot request its cost.
    pub prompt_tokens: u32,
    /// Tokens of these found in the prefix cache when it first got a place.
    pub cached_tokens: u32,
    /// Outputs it gave; of a stream the items that were decoded.
    pub outputs: u32,
    /// Number of its preemptions.
    pub preemptions: u32,
}

impl SeqRecord {
    /// From being added to its first place.
    pub fn queue_time(&self) -> Option<Duration> {
        Some(self.scheduled?.since(self.queued))
    }

    /// From its first place to its first output, preemptions in between included.
    pub fn prefill_time(&self) -> Option<Duration> {
        Some(self.first_output?.since(self.scheduled?))
    }

    /// From its first to its last output, preemptions in between included.
    pub fn decode_time(&self) -> Option<Duration> {
        Some(self.last_output?.since(self.first_output?))
    }

    /// From its first place to its last output: prefill and decode time together.
    pub fn inference_time(&self) -> Option<Duration> {
        Some(self.last_output?.since(self.scheduled?))
    }

    /// Decode time per output after the first; zero if there is none.
    pub fn time_per_output(&self) -> Duration {
        match self.outputs {
            0 | 1 => Duration::ZERO,
            outputs => self.decode_time().unwrap_or_default() / (outputs - 1),
        }
    }
}

/// State of an engine after a step, and what the step did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepStats {
    /// Sequences that have a place, and hold KV blocks where there are any.
    pub running: u32,
    /// Sequences without a place that could run if there were room.
    pub waiting_capacity: u32,
    /// Sequences without a place that could not run even so: no row from upstream, or a full consumer.
    pub waiting_deferred: u32,
    /// Share of the KV blocks that sequences hold, 0 to 1. Cached blocks without a holder are free.
    pub kv_usage: f64,
    /// Prompt positions of the sequences that gave their first output in this step, found ones included.
    pub prompt_tokens: u32,
    /// Tokens of these found in the prefix cache.
    pub cached_tokens: u32,
    /// Outputs: tokens, codec frames made or decoded, requests answered.
    pub outputs: u32,
    /// Sequences that got a place for the first time.
    pub admitted: u32,
    /// Positions looked up in the prefix cache; counted once per sequence, when it first gets a place.
    pub prefix_queries: u32,
    /// Those of them found.
    pub prefix_hits: u32,
    /// Sequences preempted in this step.
    pub preempted: u32,
    /// Items that wait to be decoded.
    pub queued_items: u32,
    /// Prompt positions computed in this step, recomputation included; the cost of the requests answered.
    pub prefill_tokens: u32,
    /// Decode positions computed in this step; items decoded; requests answered.
    pub decode_tokens: u32,
    /// Streams that had nothing left to play (counted at the chunk that came too late).
    pub late: u32,
}

impl StepStats {
    /// Sequences without a place.
    pub fn waiting(&self) -> u32 {
        self.waiting_capacity + self.waiting_deferred
    }
}

/// Outcome of one step.
#[derive(Debug)]
pub struct StepReport<T> {
    /// In order of occurrence, beginning with what happened since the last step.
    pub events: Vec<SeqEvent<T>>,
    /// Counts for this step.
    pub stats: StepStats,
    /// Beginning of the step; one begun ahead begins when the one before it ends.
    pub began: Stamp,
    /// Time at which its results were there: the time of its outputs.
    pub ended: Stamp,
}

impl<T> StepReport<T> {
    /// Creates the report of a step that begins now.
    pub(crate) fn new(now: Stamp) -> Self {
        Self {
            events: Vec::new(),
            stats: StepStats::default(),
            began: now,
            ended: now,
        }
    }

    /// Adds the end of a sequence to the report.
    pub(crate) fn end(&mut self, seq: SeqId, reason: FinishReason, record: SeqRecord) {
        let record = SeqRecord {
            finished: self.ended,
            ..record
        };
        self.events.push(SeqEvent::Finished { seq, reason, record });
    }
}
