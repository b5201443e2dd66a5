//! One replica as others see it: its id, its state, its figures.
//!
//! The thread of the replica writes them through its [`Seat`]; pools, health and metrics read them at any time.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use omni_engine::{ArStats, ChunkStats, Stamp};
use tokio::sync::watch;

use super::news::{EngineNews, EngineSink, IgnoreEngines};
use crate::config::deploy::Restart;

/// Names a replica within its stage. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicaId(pub u32);

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a replica can work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaState {
    /// It builds its model for the first time.
    Loading,
    /// It works.
    Ready,
    /// Its model died; it is built anew after a wait.
    Restarting {
        /// What happened.
        message: String,
    },
    /// Its model could not be built at all. It stays like this.
    Failed {
        /// What happened.
        message: String,
    },
    /// It was told to stop and did.
    Removed,
}

/// Figures of a replica: what is now, and what has been since it was added, restarts included.
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
    /// Prompt positions computed, recomputation included.
    pub prefill_tokens: u64,
    /// Decode positions computed; codec frames decoded by a vocoder.
    pub decode_tokens: u64,
    /// Sequences that lost their place to another.
    pub preempted: u64,
    /// Times that a sequence ran out of input although its upstream stage should have delivered. Waiting for a caller's text is
    /// not counted.
    pub starved: u64,
    /// Chunks of audio that came after an ideal listener had run dry.
    pub late: u64,
    /// Times that the model died.
    pub deaths: u64,
}

impl ReplicaStats {
    /// Books a step of an autoregressive engine.
    pub(super) fn ar_step(&mut self, step: &ArStats, busy: Duration) {
        self.running = step.running;
        self.waiting = step.waiting;
        self.kv_usage = step.kv_usage;
        self.steps += 1;
        self.busy += busy;
        self.prefill_tokens += u64::from(step.prefill_tokens);
        self.decode_tokens += u64::from(step.decode_tokens);
        self.preempted += u64::from(step.preempted);
    }

    /// Books a step of a vocoder.
    pub(super) fn chunk_step(&mut self, step: &ChunkStats, busy: Duration) {
        self.running = step.streams;
        self.queued_items = step.queued_items;
        self.steps += 1;
        self.busy += busy;
        self.decode_tokens += u64::from(step.items);
        self.late += u64::from(step.late);
    }

    /// Nothing is there any more.
    pub(crate) fn idle(&mut self) {
        self.running = 0;
        self.waiting = 0;
        self.kv_usage = 0.0;
        self.queued_items = 0;
    }
}

/// Rings whenever the state of any replica of a pipeline changes. Copies are the same one.
#[derive(Debug, Clone)]
pub struct Changes(Arc<watch::Sender<u64>>);

impl Default for Changes {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Changes {
    /// Follows changes from now on.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    pub(super) fn announce(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}

/// The place of a replica in its pool: where its thread writes state and figures. Copies are the same one.
#[derive(Clone)]
pub struct Seat {
    id: ReplicaId,
    restart: Restart,
    changes: Changes,
    shared: Arc<Shared>,
    listener: Arc<dyn EngineSink>,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("id", &self.id)
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<ReplicaState>,
    /// How often the model died: what began in an earlier life is lost.
    lives: AtomicU32,
    stats: Mutex<ReplicaStats>,
    /// When the turn in progress began, in nanoseconds; [`NO_TURN`] between turns.
    turn: AtomicU64,
}

const NO_TURN: u64 = u64::MAX;

impl Seat {
    /// Of a replica that begins to build its model. Every change of its state rings `changes`.
    #[must_use]
    pub fn new(id: ReplicaId, restart: Restart, changes: Changes) -> Self {
        Self {
            id,
            restart,
            changes,
            shared: Arc::new(Shared {
                state: Mutex::new(ReplicaState::Loading),
                lives: AtomicU32::new(0),
                stats: Mutex::default(),
                turn: AtomicU64::new(NO_TURN),
            }),
            listener: Arc::new(IgnoreEngines),
        }
    }

    /// `listener` hears what the engine tells from now on.
    #[must_use]
    pub fn heard_by(mut self, listener: Arc<dyn EngineSink>) -> Self {
        self.listener = listener;
        self
    }

    /// Tells whoever listens.
    pub(super) fn tell(&self, news: &EngineNews) {
        self.listener.news(news);
    }

    /// Whose it is.
    #[must_use]
    pub fn id(&self) -> ReplicaId {
        self.id
    }

    /// When to build the model anew.
    pub(super) fn restart(&self) -> Restart {
        self.restart
    }

    /// The state now.
    #[must_use]
    pub fn state(&self) -> ReplicaState {
        lock(&self.shared.state).clone()
    }

    pub(super) fn is_ready(&self) -> bool {
        *lock(&self.shared.state) == ReplicaState::Ready
    }

    pub(super) fn set(&self, state: ReplicaState) {
        *lock(&self.shared.state) = state;
        self.changes.announce();
    }

    /// Which life of the replica it is.
    pub(super) fn life(&self) -> u32 {
        self.shared.lives.load(Ordering::Acquire)
    }

    /// Its model died. Called before anybody can notice that its work is lost.
    pub(super) fn die(&self, message: &str) {
        self.shared.lives.fetch_add(1, Ordering::AcqRel);
        self.count(|stats| stats.deaths += 1);
        self.set(ReplicaState::Restarting {
            message: message.to_owned(),
        });
    }

    /// Its thread begins to work at `now`.
    pub(super) fn begin_turn(&self, now: Stamp) {
        let nanos = u64::try_from(now.0.as_nanos()).unwrap_or(NO_TURN);
        self.shared.turn.store(nanos, Ordering::Relaxed);
    }

    /// Its thread is back.
    pub(super) fn end_turn(&self) {
        self.shared.turn.store(NO_TURN, Ordering::Relaxed);
    }

    /// Since when its thread has been at work without coming back, one step of the model at most.
    pub(crate) fn at_work_since(&self) -> Option<Stamp> {
        match self.shared.turn.load(Ordering::Relaxed) {
            NO_TURN => None,
            nanos => Some(Stamp(Duration::from_nanos(nanos))),
        }
    }

    /// The figures now.
    #[must_use]
    pub fn stats(&self) -> ReplicaStats {
        *lock(&self.shared.stats)
    }

    /// Changes the figures. Called once per step; readers hold the lock for a copy only.
    pub(crate) fn count(&self, change: impl FnOnce(&mut ReplicaStats)) {
        change(&mut lock(&self.shared.stats));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
