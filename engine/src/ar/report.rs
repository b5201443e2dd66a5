//! What a step tells: events, counts, and per sequence the record of its life.

use std::time::Duration;

use crate::ids::{SeqId, Stamp};

/// Why a sequence ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it, or the caller found a stop string.
    Stop,
    /// It reached `max_outputs`, the longest sequence allowed, or the size of the KV pool.
    Length,
    /// The caller gave it up.
    Abort,
    /// Its computation failed.
    Error(String),
    /// Its outputs went round in circles.
    Repetition,
}

/// Where a live sequence is. One that has finished is forgotten; its end is an [`ArEvent::Finished`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeqState {
    /// Has never run and could: waits for a place or for KV blocks.
    Waiting,
    /// Has a place and takes part in steps.
    Running,
    /// Has lost its place, could run, and waits to be recomputed.
    Preempted,
    /// Lacks the row for its next output. It keeps its place, if it has one, until another needs it.
    WaitingForUpstream,
    /// Its consumer is full ([`set_paused`](crate::ArEngine::set_paused)). It keeps its place likewise.
    Paused,
}

/// What happened to a sequence.
#[derive(Debug, Clone, PartialEq)]
pub enum ArEvent<T> {
    /// It was added since the last step.
    Queued {
        /// The sequence.
        seq: SeqId,
        /// When.
        at: Stamp,
    },
    /// It got a place, for the first time or again after a preemption.
    Scheduled {
        /// The sequence.
        seq: SeqId,
        /// When it began to wait for it: when it was added, or preempted.
        queued_at: Stamp,
        /// Start of the step that took it.
        at: Stamp,
        /// Whether it had run before.
        resumed: bool,
    },
    /// It lost its place and its KV blocks; it is recomputed later.
    Preempted {
        /// The sequence.
        seq: SeqId,
        /// Start of the step in which it did.
        at: Stamp,
    },
    /// It produced one output, at [`ArReport::ended`].
    Output {
        /// The sequence.
        seq: SeqId,
        /// The output.
        item: T,
    },
    /// It is over and forgotten. Every sequence that was admitted gets exactly one of these.
    Finished {
        /// The sequence.
        seq: SeqId,
        /// Why.
        reason: FinishReason,
        /// Its life in figures.
        record: SeqRecord,
    },
}

/// One sequence's life in figures. All stamps are the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeqRecord {
    /// When it was added.
    pub queued: Stamp,
    /// When it first got a place. Later preemptions do not change it.
    pub scheduled: Option<Stamp>,
    /// When it gave its first output.
    pub first_output: Option<Stamp>,
    /// When it gave its last output.
    pub last_output: Option<Stamp>,
    /// When it ended.
    pub finished: Stamp,
    /// Prompt positions.
    pub prompt_tokens: u32,
    /// Of these, how many were found in the prefix cache when it first got a place.
    pub cached_tokens: u32,
    /// Outputs it gave.
    pub outputs: u32,
    /// How often it was preempted.
    pub preemptions: u32,
}

impl SeqRecord {
    /// From being added to its first place.
    #[must_use]
    pub fn queue_time(&self) -> Option<Duration> {
        Some(self.scheduled?.since(self.queued))
    }

    /// From its first place to its first output, preemptions in between included.
    #[must_use]
    pub fn prefill_time(&self) -> Option<Duration> {
        Some(self.first_output?.since(self.scheduled?))
    }

    /// From its first to its last output, preemptions in between included.
    #[must_use]
    pub fn decode_time(&self) -> Option<Duration> {
        Some(self.last_output?.since(self.first_output?))
    }

    /// From its first place to its last output: prefill and decode time together.
    #[must_use]
    pub fn inference_time(&self) -> Option<Duration> {
        Some(self.last_output?.since(self.scheduled?))
    }

    /// Decode time per output after the first; zero if there is none.
    #[must_use]
    pub fn time_per_output(&self) -> Duration {
        match self.outputs {
            0 | 1 => Duration::ZERO,
            outputs => self.decode_time().unwrap_or_default() / (outputs - 1),
        }
    }
}

/// State of the engine after a step, and what the step did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ArStats {
    /// Sequences that have a place (and hold KV blocks).
    pub running: u32,
    /// Of these, how many lack a row from upstream.
    pub held_upstream: u32,
    /// Of these, how many have a full consumer.
    pub held_consumer: u32,
    /// Sequences without a place: `waiting_capacity + waiting_deferred`.
    pub waiting: u32,
    /// Those that could run if there were room.
    pub waiting_capacity: u32,
    /// Those that could not run even so: no row from upstream, or a full consumer.
    pub waiting_deferred: u32,
    /// Share of the KV blocks that sequences hold, 0 to 1. Cached blocks that nobody holds are free.
    pub kv_usage: f64,
    /// Prompt positions computed in this step (recomputation included).
    pub prefill_tokens: u32,
    /// Of these, how many were computed before and lost to a preemption.
    pub recomputed_tokens: u32,
    /// Decode positions computed in this step.
    pub decode_tokens: u32,
    /// Prompt positions of the sequences that gave their first output in this step, found ones included.
    pub prompt_tokens: u32,
    /// Of these, how many were found in the prefix cache.
    pub prompt_tokens_cached: u32,
    /// Outputs of this step.
    pub generation_tokens: u32,
    /// Positions looked up in the prefix cache; counted once per sequence, when it first gets a place.
    pub prefix_queries: u32,
    /// Of these, how many were found.
    pub prefix_hits: u32,
    /// Sequences that ran out of upstream rows at the end of this step.
    pub starved: u32,
    /// Sequences preempted in this step.
    pub preempted: u32,
}

impl ArStats {
    /// What the step did for its callers: prompt positions computed for first outputs, and outputs.
    #[must_use]
    pub fn iteration_tokens(&self) -> u32 {
        self.prompt_tokens - self.prompt_tokens_cached + self.generation_tokens
    }
}

/// Outcome of one [`ArEngine::step`](crate::ArEngine::step).
#[derive(Debug)]
pub struct ArReport<T> {
    /// In order of occurrence, beginning with what happened since the last step.
    pub events: Vec<ArEvent<T>>,
    /// Counts for this step.
    pub stats: ArStats,
    /// When the step began; one begun ahead begins when the one before it is over.
    pub began: Stamp,
    /// When its results were there: the time of its outputs.
    pub ended: Stamp,
}

impl<T> ArReport<T> {
    /// Of a step that begins now.
    pub(super) fn new(now: Stamp) -> Self {
        Self {
            events: Vec::new(),
            stats: ArStats::default(),
            began: now,
            ended: now,
        }
    }
}
