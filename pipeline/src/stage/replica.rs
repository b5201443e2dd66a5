//! One replica as others see it: its id, its state, its statistics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::events::EngineEvent;

/// Id of a replica within its stage. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicaId(pub u32);

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// State of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaState {
    /// It builds its model for the first time.
    Loading,
    /// It works.
    Ready,
    /// Its model died, or did not return from a step; it is rebuilt after a wait.
    Restarting {
        /// Error message.
        message: String,
    },
    /// Its model could not be built at all. The state is final.
    Failed {
        /// Error message.
        message: String,
    },
    /// It was stopped.
    Removed,
}

/// Statistics of a replica: current values, and totals since it was added, restarts included.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ReplicaStats {
    /// Sequences that hold a place in the engine; streams of a vocoder.
    pub running: u32,
    /// Sequences that wait for one.
    pub waiting: u32,
    /// Share of the KV blocks in use, 0 to 1.
    pub kv_usage: f64,
    /// Items that wait to be decoded by a vocoder.
    pub queued_items: u32,
    /// Steps done.
    pub steps: u64,
    /// Time spent in them.
    pub busy: Duration,
    /// Prompt positions computed, recomputation included; frames of audio read by an encoder.
    pub prefill_tokens: u64,
    /// Decode positions computed; codec frames decoded by a vocoder; recordings encoded.
    pub decode_tokens: u64,
    /// Sequences that lost their place to another.
    pub preempted: u64,
    /// Times that a sequence ran out of input although its upstream stage should have delivered. Waiting for a
    /// caller's text is not counted.
    pub starved: u64,
    /// Chunks of audio that came after an ideal listener had run dry.
    pub late: u64,
    /// Times that the model died, or did not return from a step.
    pub deaths: u64,
}

impl ReplicaStats {
    /// Adds an event to the statistics.
    pub(super) fn record(&mut self, event: &EngineEvent) {
        match event {
            EngineEvent::Step {
                busy, stats: step, ..
            } => {
                self.running = step.running;
                self.waiting = step.waiting();
                self.kv_usage = step.kv_usage;
                self.queued_items = step.queued_items;
                self.steps += 1;
                self.busy += *busy;
                self.prefill_tokens += u64::from(step.prefill_tokens);
                self.decode_tokens += u64::from(step.decode_tokens);
                self.preempted += u64::from(step.preempted);
                self.late += u64::from(step.late);
            }
            EngineEvent::Starved => self.starved += 1,
            EngineEvent::Running(count) => self.running = *count,
            EngineEvent::Idle => self.idle(),
            EngineEvent::Loaded { .. }
            | EngineEvent::Cache(_)
            | EngineEvent::Taken(_)
            | EngineEvent::FirstOutput { .. }
            | EngineEvent::NextOutput { .. }
            | EngineEvent::Finished(_)
            | EngineEvent::Refused(_) => {}
        }
    }

    /// Clears all load figures.
    pub(super) fn idle(&mut self) {
        self.running = 0;
        self.waiting = 0;
        self.kv_usage = 0.0;
        self.queued_items = 0;
    }
}

/// Notifies of every state change of a pipeline's replicas. Clones share the channel.
#[derive(Debug, Clone)]
pub struct Changes(Arc<watch::Sender<u64>>);

impl Default for Changes {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Changes {
    /// Follows changes from now on.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    pub(super) fn announce(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}
