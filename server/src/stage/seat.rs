//! The place of a replica in its pool: where its thread writes state and figures, and where pools, health and metrics read them.
//!
//! Threads follow each other at a seat when one had to be given up. What one of them writes after that counts for nothing.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use omni_engine::{SeqId, Stamp};

use super::backoff::Backoff;
use super::news::{Course, EndReason, EngineNews, EngineSink, IgnoreEngines, SeqEnd};
use super::replica::{Changes, ReplicaId, ReplicaState, ReplicaStats};
use super::term::{StepBell, Term, Work};
use crate::config::deploy::Restart;

/// The place of a replica as one of its threads has it. Copies are the same one.
#[derive(Clone)]
pub struct Seat {
    id: ReplicaId,
    changes: Changes,
    shared: Arc<Shared>,
    listener: Arc<dyn EngineSink>,
    bell: Option<StepBell>,
    term: Term,
    /// What a thread that follows another waits for first.
    delay: Option<Duration>,
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
    /// What it died of last.
    last_error: Mutex<Option<String>>,
    /// The process that it works in, if that is one of its own; else 0.
    process: AtomicU32,
    backoff: Mutex<Backoff>,
}

impl Seat {
    /// Of a replica that begins to build its model. Every change of its state rings `changes`.
    #[must_use]
    pub fn new(id: ReplicaId, restart: Restart, changes: Changes) -> Self {
        Self {
            id,
            changes,
            shared: Arc::new(Shared {
                state: Mutex::new(ReplicaState::Loading),
                lives: AtomicU32::new(0),
                stats: Mutex::default(),
                last_error: Mutex::default(),
                process: AtomicU32::new(0),
                backoff: Mutex::new(Backoff::new(restart)),
            }),
            listener: Arc::new(IgnoreEngines),
            bell: None,
            term: Term::default(),
            delay: None,
        }
    }

    /// `listener` hears what the engine tells from now on.
    #[must_use]
    pub fn heard_by(mut self, listener: Arc<dyn EngineSink>) -> Self {
        self.listener = listener;
        self
    }

    /// Turns ring `bell` from now on.
    pub(super) fn ringing(mut self, bell: StepBell) -> Self {
        self.bell = Some(bell);
        self
    }

    /// Tells whoever listens.
    pub(crate) fn tell(&self, news: &EngineNews) {
        if !self.is_given_up() {
            self.listener.news(news);
        }
    }

    /// Its thread works on a sequence.
    pub(super) fn took(&self, seq: SeqId, course: Course) {
        self.tell(&course.begin());
        self.term.took(seq, course);
    }

    /// Its thread is done with a sequence: tells so, once for each that it [`took`](Self::took).
    pub(super) fn done(&self, seq: SeqId, end: SeqEnd) {
        if self.term.let_go(seq) {
            self.listener.news(&EngineNews::Finished(end));
        }
    }

    /// Whose it is.
    #[must_use]
    pub fn id(&self) -> ReplicaId {
        self.id
    }

    /// What the thread waits for before it begins, and that it follows another then.
    pub(super) fn delay(&self) -> Option<Duration> {
        self.delay
    }

    /// The state now.
    #[must_use]
    pub fn state(&self) -> ReplicaState {
        lock(&self.shared.state).clone()
    }

    /// What it died of last, or why it cannot work.
    pub(super) fn last_error(&self) -> Option<String> {
        lock(&self.shared.last_error).clone()
    }

    /// The process that it works in, if it has one of its own now.
    pub(crate) fn works_in(&self, process: Option<u32>) {
        self.shared
            .process
            .store(process.unwrap_or_default(), Ordering::Release);
    }

    pub(super) fn process(&self) -> Option<u32> {
        Some(self.shared.process.load(Ordering::Acquire)).filter(|process| *process != 0)
    }

    pub(super) fn is_ready(&self) -> bool {
        *lock(&self.shared.state) == ReplicaState::Ready
    }

    pub(super) fn set(&self, state: ReplicaState) {
        let mut now = lock(&self.shared.state);
        if self.is_given_up() {
            return;
        }
        if let ReplicaState::Failed { message } = &state {
            *lock(&self.shared.last_error) = Some(message.clone());
        }
        *now = state;
        drop(now);
        self.changes.announce();
    }

    /// Its model works, from `now` on.
    pub(super) fn up(&self, now: Stamp) {
        if !self.is_given_up() {
            lock(&self.shared.backoff).up(now);
        }
        self.set(ReplicaState::Ready);
    }

    /// Its model died at `now`. Returns how long to wait before it is built anew.
    pub(super) fn down(&self, now: Stamp) -> Duration {
        lock(&self.shared.backoff).down(now)
    }

    /// Which life of the replica it is.
    pub(super) fn life(&self) -> u32 {
        self.shared.lives.load(Ordering::Acquire)
    }

    /// Its model died. Called before anybody can notice that its work is lost.
    pub(super) fn die(&self, message: &str) {
        let mut state = lock(&self.shared.state);
        if self.is_given_up() {
            return;
        }
        self.end_life(&mut state, message);
        drop(state);
        self.changes.announce();
    }

    fn end_life(&self, state: &mut ReplicaState, message: &str) {
        self.shared.lives.fetch_add(1, Ordering::AcqRel);
        lock(&self.shared.stats).deaths += 1;
        *lock(&self.shared.last_error) = Some(message.to_owned());
        *state = ReplicaState::Restarting {
            message: message.to_owned(),
        };
    }

    /// Its thread does not return from a step, as others see at `now`: the replica has died, and its thread, which cannot be
    /// ended, is left behind.
    pub(super) fn give_up(&self, message: &str, now: Stamp) {
        let mut state = lock(&self.shared.state);
        let lost = self.term.give_up();
        self.end_life(&mut state, message);
        drop(state);
        lock(&self.shared.stats).idle();
        for course in lost.into_values() {
            let end = course.end(EndReason::Error, None, now);
            self.listener.news(&EngineNews::Finished(end));
        }
        self.listener.news(&EngineNews::Idle);
        self.changes.announce();
        self.term.tell_lost();
    }

    /// Whether its thread was given up.
    pub(super) fn is_given_up(&self) -> bool {
        self.term.is_over()
    }

    /// For the thread that follows, and waits for `delay` first.
    pub(super) fn successor(&self, delay: Duration) -> Self {
        Self {
            term: Term::default(),
            delay: Some(delay),
            ..self.clone()
        }
    }

    /// No thread follows for now, and why. Whether that is news.
    pub(super) fn vacant(&self, message: &str) -> bool {
        let message = message.to_owned();
        let vacant = ReplicaState::Restarting { message };
        let before = std::mem::replace(&mut *lock(&self.shared.state), vacant.clone());
        let is_news = before != vacant;
        if is_news {
            self.changes.announce();
        }
        is_news
    }

    /// None will follow.
    pub(super) fn removed(&self) {
        *lock(&self.shared.state) = ReplicaState::Removed;
        self.changes.announce();
    }

    /// The time of its thread.
    pub(super) fn term(&self) -> &Term {
        &self.term
    }

    /// Until dropped, its thread has not ended.
    pub(super) fn sit(&self) -> Sitting {
        Sitting(self.clone())
    }

    /// Its thread begins to work at `now`.
    pub(super) fn begin_turn(&self, work: Work, now: Stamp) {
        self.term.begin_turn(work, now);
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Its thread is back.
    pub(super) fn end_turn(&self) {
        self.term.end_turn();
    }

    /// What its thread is at work at without coming back, and since when.
    pub(crate) fn at_work(&self) -> Option<(Work, Stamp)> {
        self.term.at_work()
    }

    /// The figures now.
    #[must_use]
    pub fn stats(&self) -> ReplicaStats {
        *lock(&self.shared.stats)
    }

    /// Changes the figures. Called once per step; readers hold the lock for a copy only.
    pub(crate) fn count(&self, change: impl FnOnce(&mut ReplicaStats)) {
        let mut stats = lock(&self.shared.stats);
        if !self.is_given_up() {
            change(&mut stats);
        }
    }
}

/// A thread at its seat.
pub(super) struct Sitting(Seat);

impl Drop for Sitting {
    fn drop(&mut self) {
        self.0.term.end();
        self.0.changes.announce();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::progress::StageProgress;
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<EngineNews>>);

    impl EngineSink for Heard {
        fn news(&self, news: &EngineNews) {
            lock(&self.0).push(news.clone());
        }
    }

    fn at(ms: u64) -> Stamp {
        Stamp(Duration::from_millis(ms))
    }

    fn seat() -> (Seat, Arc<Heard>) {
        let restart = Restart {
            first_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(9),
            healthy_after: Duration::from_secs(60),
        };
        let heard = Arc::new(Heard::default());
        let seat = Seat::new(ReplicaId(0), restart, Changes::default());
        (seat.heard_by(Arc::clone(&heard) as _), heard)
    }

    #[test]
    fn what_a_thread_writes_after_it_was_given_up_counts_for_nothing() {
        let (seat, heard) = seat();
        seat.up(at(0));
        seat.count(|stats| stats.running = 2);
        let course = Course::new(SeqId(1), &StageProgress::default(), None, at(10));
        seat.took(SeqId(1), course);
        seat.give_up("it hangs", at(40));
        let lost = course.end(EndReason::Error, None, at(40));
        let told = [
            course.begin(),
            EngineNews::Finished(lost.clone()),
            EngineNews::Idle,
        ];
        assert_eq!(*lock(&heard.0), told);

        seat.done(SeqId(1), lost);
        seat.tell(&EngineNews::Starved);
        seat.count(|stats| stats.running = 7);
        seat.set(ReplicaState::Removed);
        seat.die("twice");
        assert_eq!(lock(&heard.0).len(), told.len());
        assert_eq!((seat.stats().running, seat.stats().deaths), (0, 1));
        let message = "it hangs".to_owned();
        assert_eq!(seat.last_error(), Some(message.clone()));
        assert_eq!(seat.state(), ReplicaState::Restarting { message });
        assert!(seat.term().lost().is_cancelled());
    }

    #[test]
    fn the_thread_that_follows_waits_longer_every_time_and_counts_again() {
        let (first, _) = seat();
        first.up(at(0));
        first.give_up("it hangs", at(1));
        let second = first.successor(first.down(at(1)));
        assert_eq!(second.delay(), Some(Duration::from_secs(1)));
        second.up(at(1_001));
        assert_eq!(second.state(), ReplicaState::Ready);
        assert_eq!(second.down(at(1_002)), Duration::from_secs(2));
        assert!(!second.is_given_up() && second.life() == 1);
    }
}
