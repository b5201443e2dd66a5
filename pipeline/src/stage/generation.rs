//! A generation of a replica's worker thread: from its start until it ends, or until it is revoked because a step
//! exceeds its timeout.
//!
//! A thread cannot be killed. A revoked one is left behind: its writes are ignored, and it ends when its step
//! returns. [`WorkerGeneration::lost`] reports the end of its work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use omni_engine::{SeqId, Stamp};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::events::SeqTimeline;

const NO_TURN: u64 = u64::MAX;
/// Flag in the start of a turn that builds the model. Nanoseconds of a process's life never reach it.
const BUILDS: u64 = 1 << 62;

/// Kind of a thread's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Builds its model.
    Build,
    /// One step of it, or of its warm-up.
    Step,
}

/// Longest turns of a replica's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnTimeouts {
    /// Longest step.
    pub step: Duration,
    /// Longest build of the model.
    pub load: Duration,
}

impl TurnTimeouts {
    pub(crate) fn of(self, work: Work) -> Duration {
        match work {
            Work::Build => self.load,
            Work::Step => self.step,
        }
    }

    pub(crate) fn shortest(self) -> Duration {
        self.step.min(self.load)
    }

    /// Message about a thread that is overdue.
    pub(crate) fn overdue(self, work: Work) -> String {
        let timeout = self.of(work);
        match work {
            Work::Build => format!("its model has not been built for {timeout:?} (load_timeout)"),
            Work::Step => format!("a step of its model has not returned for {timeout:?}"),
        }
    }
}

/// See the module's text. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkerGeneration(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Start of the turn in progress, in nanoseconds, and [`BUILDS`]; [`NO_TURN`] between turns.
    turn: AtomicU64,
    revoked: AtomicBool,
    lost: CancellationToken,
    ended: AtomicBool,
    /// Sequences that it works on.
    open: Mutex<BTreeMap<SeqId, SeqTimeline>>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            turn: AtomicU64::new(NO_TURN),
            revoked: AtomicBool::new(false),
            lost: CancellationToken::new(),
            ended: AtomicBool::new(false),
            open: Mutex::default(),
        }
    }
}

impl WorkerGeneration {
    /// Begins a turn of the thread at `now`.
    pub(super) fn begin_turn(&self, work: Work, now: Stamp) {
        let nanos = u64::try_from(now.0.as_nanos()).map_or(BUILDS - 1, |nanos| nanos.min(BUILDS - 1));
        let flag = if work == Work::Build { BUILDS } else { 0 };
        self.0.turn.store(nanos | flag, Ordering::SeqCst);
    }

    /// Ends the turn.
    pub(super) fn end_turn(&self) {
        self.0.turn.store(NO_TURN, Ordering::SeqCst);
    }

    /// Kind and start of the turn in progress, if there is one.
    pub(super) fn at_work(&self) -> Option<(Work, Stamp)> {
        match self.0.turn.load(Ordering::SeqCst) {
            NO_TURN => None,
            turn if turn & BUILDS != 0 => Some((Work::Build, Stamp(Duration::from_nanos(turn & !BUILDS)))),
            turn => Some((Work::Step, Stamp(Duration::from_nanos(turn)))),
        }
    }

    /// Returns true once it was revoked.
    pub(super) fn is_revoked(&self) -> bool {
        self.0.revoked.load(Ordering::SeqCst)
    }

    /// Revokes it. Returns the sequences that it was working on, whose ends it no longer reports.
    pub(super) fn give_up(&self) -> BTreeMap<SeqId, SeqTimeline> {
        self.0.revoked.store(true, Ordering::SeqCst);
        std::mem::take(&mut *self.0.open.lock())
    }

    /// Cancels [`lost`](Self::lost). Called when the replica's status shows the loss.
    pub(super) fn announce_loss(&self) {
        self.0.lost.cancel();
    }

    /// Cancelled once it is revoked.
    pub(super) fn lost(&self) -> &CancellationToken {
        &self.0.lost
    }

    /// Adds a sequence to its work.
    pub(super) fn took(&self, seq: SeqId, timeline: SeqTimeline) {
        let mut open = self.0.open.lock();
        if !self.is_revoked() {
            open.insert(seq, timeline);
        }
    }

    /// Removes a sequence from its work. Returns true if it was there.
    pub(super) fn let_go(&self, seq: SeqId) -> bool {
        self.0.open.lock().remove(&seq).is_some()
    }

    /// Marks the thread as ended.
    pub(super) fn end(&self) {
        self.0.ended.store(true, Ordering::SeqCst);
    }

    /// Returns true once the thread has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::SeqCst)
    }
}

/// Wakes the watchdog of a pool when a step begins while it sleeps. Clones share it.
///
/// A step costs one load of a flag. The watchdog sleeps while no step is in progress, and otherwise wakes once per
/// timeout.
#[derive(Debug, Clone, Default)]
pub(super) struct WatchdogNotifier(Arc<WatchdogState>);

#[derive(Debug, Default)]
struct WatchdogState {
    awake: AtomicBool,
    rung: Notify,
}

impl WatchdogNotifier {
    /// Notifies the watchdog that a turn has begun.
    pub(super) fn notify(&self) {
        if !self.0.awake.load(Ordering::SeqCst) && !self.0.awake.swap(true, Ordering::SeqCst) {
            self.0.rung.notify_one();
        }
    }

    /// Requests a notification of the next turn. The watchdog may sleep if it finds no turn in progress afterwards.
    pub(super) fn rest(&self) {
        self.0.awake.store(false, Ordering::SeqCst);
    }

    /// Requests no notification: the watchdog wakes by itself.
    pub(super) fn stay(&self) {
        self.0.awake.store(true, Ordering::SeqCst);
    }

    /// Waits for a notification.
    pub(super) async fn notified(&self) {
        self.0.rung.notified().await;
    }
}
