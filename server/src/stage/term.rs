//! One thread's time at a replica: from its start until it ends, or until it is given up because a step does not return.
//!
//! A thread cannot be killed. One that is given up is left behind: nothing that it still writes counts, and it ends when its
//! step returns. Whoever waits for what it was working on is told by [`Term::lost`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use omni_engine::{SeqId, Stamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::news::Course;

const NO_TURN: u64 = u64::MAX;
/// Set in the time at which a turn began that builds the model. Nanoseconds of a process's life never reach it.
const BUILDS: u64 = 1 << 62;

/// What a thread does in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Builds its model.
    Build,
    /// One step of it, or of its warm-up.
    Step,
}

/// How long a replica's thread may stay in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnTimeouts {
    /// In a step.
    pub step: Duration,
    /// While its model is built.
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

    /// What is told of a thread that is overdue.
    pub(crate) fn overdue(self, work: Work) -> String {
        let timeout = self.of(work);
        match work {
            Work::Build => format!("its model has not been built for {timeout:?} (load_timeout)"),
            Work::Step => format!("a step of its model has not returned for {timeout:?}"),
        }
    }
}

/// See the module's text. Copies are the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct Term(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// When the turn in progress began, in nanoseconds, and [`BUILDS`]; [`NO_TURN`] between turns.
    turn: AtomicU64,
    over: AtomicBool,
    lost: CancellationToken,
    ended: AtomicBool,
    /// What it works on.
    open: Mutex<BTreeMap<SeqId, Course>>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            turn: AtomicU64::new(NO_TURN),
            over: AtomicBool::new(false),
            lost: CancellationToken::new(),
            ended: AtomicBool::new(false),
            open: Mutex::default(),
        }
    }
}

impl Term {
    /// A turn of the thread begins at `now`.
    pub(super) fn begin_turn(&self, work: Work, now: Stamp) {
        let nanos = u64::try_from(now.0.as_nanos()).map_or(BUILDS - 1, |nanos| nanos.min(BUILDS - 1));
        let flag = if work == Work::Build { BUILDS } else { 0 };
        self.0.turn.store(nanos | flag, Ordering::SeqCst);
    }

    /// It is over.
    pub(super) fn end_turn(&self) {
        self.0.turn.store(NO_TURN, Ordering::SeqCst);
    }

    /// What the thread is in a turn for, and since when.
    pub(super) fn at_work(&self) -> Option<(Work, Stamp)> {
        match self.0.turn.load(Ordering::SeqCst) {
            NO_TURN => None,
            turn if turn & BUILDS != 0 => Some((Work::Build, Stamp(Duration::from_nanos(turn & !BUILDS)))),
            turn => Some((Work::Step, Stamp(Duration::from_nanos(turn)))),
        }
    }

    /// Whether it was given up.
    pub(super) fn is_over(&self) -> bool {
        self.0.over.load(Ordering::SeqCst)
    }

    /// It is given up. Returns what it was working on, of which it tells no more.
    pub(super) fn give_up(&self) -> BTreeMap<SeqId, Course> {
        self.0.over.store(true, Ordering::SeqCst);
        std::mem::take(&mut *self.open())
    }

    /// Tells everybody who waits for it. Called when whoever is told can see what became of the replica.
    pub(super) fn tell_lost(&self) {
        self.0.lost.cancel();
    }

    /// Cancelled when it was given up.
    pub(super) fn lost(&self) -> &CancellationToken {
        &self.0.lost
    }

    /// It works on a sequence.
    pub(super) fn took(&self, seq: SeqId, course: Course) {
        let mut open = self.open();
        if !self.is_over() {
            open.insert(seq, course);
        }
    }

    /// It does no more. Whether it did until now.
    pub(super) fn let_go(&self, seq: SeqId) -> bool {
        self.open().remove(&seq).is_some()
    }

    /// The thread ends.
    pub(super) fn end(&self) {
        self.0.ended.store(true, Ordering::SeqCst);
    }

    /// Whether the thread has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::SeqCst)
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<SeqId, Course>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes whoever looks after threads in steps, when a turn begins and nobody looks. Copies are the same one.
///
/// It costs a thread one reading of a flag per turn; the one who looks sleeps while there is no turn, and wakes once per time
/// limit while there are some.
#[derive(Debug, Clone, Default)]
pub(super) struct StepBell(Arc<Bell>);

#[derive(Debug, Default)]
struct Bell {
    awake: AtomicBool,
    rung: Notify,
}

impl StepBell {
    /// A turn has begun.
    pub(super) fn ring(&self) {
        if !self.0.awake.load(Ordering::SeqCst) && !self.0.awake.swap(true, Ordering::SeqCst) {
            self.0.rung.notify_one();
        }
    }

    /// Whoever looks may sleep, if it finds no turn in progress now: the next one rings.
    pub(super) fn rest(&self) {
        self.0.awake.store(false, Ordering::SeqCst);
    }

    /// It looks again by itself: nobody need ring.
    pub(super) fn stay(&self) {
        self.0.awake.store(true, Ordering::SeqCst);
    }

    /// Waits for a ring.
    pub(super) async fn rung(&self) {
        self.0.rung.notified().await;
    }
}
