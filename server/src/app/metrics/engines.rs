//! Engine events of one replica, to its instruments.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use omni_engine::{FinishReason as EndedFor, StepStats};
use omni_telemetry::{
    CacheConfig, EngineInstruments, FinishReason, FinishedRequest, Intervals, IterationRecord,
    RejectionReason, SchedulerRecord, SessionInstruments, TorchServeInstruments,
};

use omni_pipeline::stage::{CacheFigures, EngineEvent, EngineSink, Refusal, SeqEnd};

/// Listens to one replica, on its thread.
pub(super) struct Engine {
    instruments: EngineInstruments,
    sessions: Arc<SessionInstruments>,
    torchserve: Arc<TorchServeInstruments>,
    /// Its name, as TorchServe's workers have one.
    name: String,
    /// True if its stage looks up prefixes.
    shares_prefixes: bool,
    /// True once its work is for callers, and no warm-up.
    serving: Arc<AtomicBool>,
}

impl Engine {
    pub(super) fn new(
        instruments: EngineInstruments,
        sessions: Arc<SessionInstruments>,
        torchserve: Arc<TorchServeInstruments>,
        (name, shares_prefixes): (String, bool),
        serving: Arc<AtomicBool>,
    ) -> Self {
        Self {
            shares_prefixes,
            instruments,
            sessions,
            torchserve,
            name,
            serving,
        }
    }

    fn config(&self, cache: &CacheFigures) -> CacheConfig {
        let positions = u64::from(cache.blocks) * u64::from(cache.block_size);
        CacheConfig {
            block_size: cache.block_size,
            dtype: cache
                .position
                .map_or("unknown", |position| position.format.name())
                .to_owned(),
            prefix_caching: cache.prefix_caching && self.shares_prefixes,
            blocks: u64::from(cache.blocks),
            bytes: cache.position.map_or(0, |position| position.bytes * positions),
            max_model_len: cache.max_len,
        }
    }

    fn step(&self, step: &StepStats) {
        self.instruments.stepped(&scheduler(step));
        let iteration = IterationRecord {
            prompt_tokens: u64::from(step.prompt_tokens),
            cached_tokens: u64::from(step.cached_tokens),
            new_tokens: u64::from(step.outputs),
        };
        // A step without outputs only prepared some.
        if iteration.new_tokens > 0 {
            self.instruments.iteration(&iteration);
        }
        for _ in 0..step.preempted {
            self.instruments.preempted();
        }
    }
}

impl EngineSink for Engine {
    fn on_event(&self, event: &EngineEvent) {
        match event {
            EngineEvent::Loaded { after } => {
                self.instruments.loaded();
                return self.torchserve.worker_loaded(&self.name, *after);
            }
            EngineEvent::Cache(cache) => return self.instruments.initialised(&self.config(cache)),
            _ if !self.serving.load(Ordering::Acquire) => return,
            _ => {}
        }
        match event {
            EngineEvent::Step { stats, .. } => self.step(stats),
            EngineEvent::FirstOutput { after } => self.instruments.first_output(*after),
            EngineEvent::NextOutput { gap } => self.instruments.next_output(*gap),
            EngineEvent::Starved => self.instruments.starved(),
            EngineEvent::Finished(end) => match end.record {
                Some(_) => self.instruments.finished(&finished(end)),
                None => self.instruments.lost(label(&end.reason), end.latency),
            },
            EngineEvent::Refused(refusal) => self.sessions.rejected(match refusal {
                Refusal::Sequences => RejectionReason::Requests,
                Refusal::Positions => RejectionReason::Tokens,
            }),
            EngineEvent::Idle => self.instruments.idle(),
            // Counted when it ends.
            EngineEvent::Taken(_)
            | EngineEvent::Running(_)
            | EngineEvent::Loaded { .. }
            | EngineEvent::Cache(_) => {}
        }
    }
}

fn scheduler(step: &StepStats) -> SchedulerRecord {
    SchedulerRecord {
        running: u64::from(step.running),
        waiting_for_capacity: u64::from(step.waiting_capacity),
        deferred: u64::from(step.waiting_deferred),
        kv_usage: step.kv_usage,
        prefix_requests: match step.prefix_queries {
            0 => 0,
            _ => u64::from(step.admitted),
        },
        prefix_queries: u64::from(step.prefix_queries),
        prefix_hits: u64::from(step.prefix_hits),
    }
}

fn finished(end: &SeqEnd) -> FinishedRequest {
    let record = end.record.unwrap_or_default();
    let outputs = u64::from(record.outputs);
    FinishedRequest {
        reason: label(&end.reason),
        latency: end.latency,
        intervals: Intervals {
            queue: record.queue_time(),
            prefill: record.prefill_time(),
            decode: record.decode_time(),
            inference: record.inference_time(),
            mean_per_token: (outputs > 0).then(|| record.time_per_output()),
            tokens: outputs,
            preemptions: u64::from(record.preemptions),
        },
        prompt_tokens: u64::from(record.prompt_tokens),
        cached_tokens: u64::from(record.cached_tokens),
        max_tokens: end.max_outputs.map(u64::from),
    }
}

fn label(reason: &EndedFor) -> FinishReason {
    match reason {
        EndedFor::Stop => FinishReason::Stop,
        EndedFor::Length => FinishReason::Length,
        EndedFor::Abort => FinishReason::Abort,
        EndedFor::Error(_) => FinishReason::Error,
        EndedFor::Repetition => FinishReason::Repetition,
    }
}
