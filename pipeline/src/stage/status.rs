//! State and statistics of a replica: its worker thread writes them, and pools, health and metrics read them.
//!
//! A worker that does not return from a step is revoked, and another thread takes its place. Writes of a revoked
//! worker are ignored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use omni_engine::{FinishReason, SeqId, Stamp};
use parking_lot::Mutex;

use super::backoff::Backoff;
use super::events::{EngineEvent, EngineSink, IgnoreEngines, SeqEnd, SeqTimeline};
use super::generation::{WatchdogNotifier, Work, WorkerGeneration};
use super::replica::{Changes, ReplicaId, ReplicaState, ReplicaStats};
use crate::settings::Restart;

/// Status of a replica as one generation of its workers writes it. Clones share it.
#[derive(Clone, derive_more::Debug)]
#[debug("ReplicaStatus {{ id: {:?}, shared: {:?}, .. }}", self.id, self.shared)]
pub struct ReplicaStatus {
    stage: &'static str,
    id: ReplicaId,
    changes: Changes,
    shared: Arc<Shared>,
    listener: Arc<dyn EngineSink>,
    notifier: Option<WatchdogNotifier>,
    generation: WorkerGeneration,
    /// Delay before the start of a thread that replaces another.
    delay: Option<Duration>,
    /// `true` if it runs elsewhere. The caller that let it join logs its loss and its return.
    joined: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<ReplicaState>,
    /// Number of deaths of the model: sequences of an earlier life are lost.
    lives: AtomicU32,
    /// Number of the last life that ended because its process became unreachable, counted from 1; else 0.
    severed: AtomicU32,
    stats: Mutex<ReplicaStats>,
    /// Message of its last death.
    last_error: Mutex<Option<String>>,
    /// Id of its process, if it has one of its own; else 0.
    process: AtomicU32,
    backoff: Mutex<Backoff>,
}

impl ReplicaStatus {
    /// Creates the status of a replica of `stage` that begins to build its model. Every change of its state notifies
    /// `changes`.
    pub fn new(stage: &'static str, id: ReplicaId, restart: Restart, changes: Changes) -> Self {
        Self {
            stage,
            id,
            changes,
            shared: Arc::new(Shared {
                state: Mutex::new(ReplicaState::Loading),
                lives: AtomicU32::new(0),
                severed: AtomicU32::new(0),
                stats: Mutex::default(),
                last_error: Mutex::default(),
                process: AtomicU32::new(0),
                backoff: Mutex::new(Backoff::new(restart)),
            }),
            listener: Arc::new(IgnoreEngines),
            notifier: None,
            generation: WorkerGeneration::default(),
            delay: None,
            joined: false,
        }
    }

    pub(super) fn of_joined(mut self) -> Self {
        self.joined = true;
        self
    }

    pub(crate) fn has_joined(&self) -> bool {
        self.joined
    }

    /// Sets the receiver of the engine's events.
    #[must_use]
    pub fn observed_by(mut self, listener: Arc<dyn EngineSink>) -> Self {
        self.listener = listener;
        self
    }

    /// Sets the watchdog of its steps.
    pub(super) fn watched_by(mut self, notifier: WatchdogNotifier) -> Self {
        self.notifier = Some(notifier);
        self
    }

    /// Counts an event, and passes it to the listener.
    pub(crate) fn tell(&self, event: &EngineEvent) {
        if !self.is_given_up() {
            self.count(|stats| stats.record(event));
            self.listener.on_event(event);
        }
    }

    /// As above, for an event that does not name its sequence.
    pub(super) fn tell_of(&self, seq: SeqId, event: &EngineEvent) {
        if !self.is_given_up() {
            self.count(|stats| stats.record(event));
            self.listener.on_event_of(seq, event);
        }
    }

    /// Its thread works on a sequence.
    pub(super) fn took(&self, seq: SeqId, timeline: SeqTimeline) {
        self.tell(&timeline.begin());
        self.generation.took(seq, timeline);
    }

    /// Reports that its thread is done with a sequence, once for each that it [`took`](Self::took).
    pub(super) fn done(&self, seq: SeqId, end: SeqEnd) {
        if self.generation.let_go(seq) {
            self.listener.on_event(&EngineEvent::Finished(end));
        }
    }

    /// Name of the stage.
    pub fn stage(&self) -> &'static str {
        self.stage
    }

    /// The replica's id.
    pub fn id(&self) -> ReplicaId {
        self.id
    }

    /// Delay before the thread begins, for a thread that replaces another.
    pub(super) fn delay(&self) -> Option<Duration> {
        self.delay
    }

    /// The state now.
    pub fn state(&self) -> ReplicaState {
        self.shared.state.lock().clone()
    }

    /// Message of its last death, or the reason why it cannot work.
    pub(super) fn last_error(&self) -> Option<String> {
        self.shared.last_error.lock().clone()
    }

    /// Sets the id of its process, if it now has one of its own.
    pub(crate) fn works_in(&self, process: Option<u32>) {
        self.shared
            .process
            .store(process.unwrap_or_default(), Ordering::Release);
    }

    pub(super) fn process(&self) -> Option<u32> {
        Some(self.shared.process.load(Ordering::Acquire)).filter(|process| *process != 0)
    }

    pub(super) fn is_ready(&self) -> bool {
        *self.shared.state.lock() == ReplicaState::Ready
    }

    pub(super) fn set(&self, state: ReplicaState) {
        let mut now = self.shared.state.lock();
        if self.is_given_up() {
            return;
        }
        if let ReplicaState::Failed { message } = &state {
            *self.shared.last_error.lock() = Some(message.clone());
        }
        *now = state;
        drop(now);
        self.changes.announce();
    }

    /// Records that its model works, from `now` on.
    pub(super) fn up(&self, now: Stamp) {
        if !self.is_given_up() {
            self.shared.backoff.lock().up(now);
        }
        self.set(ReplicaState::Ready);
    }

    /// Records that its model died at `now`. Returns the wait before it is rebuilt.
    pub(super) fn down(&self, now: Stamp) -> Duration {
        self.shared.backoff.lock().down(now)
    }

    /// Number of the replica's current life.
    pub(super) fn life(&self) -> u32 {
        self.shared.lives.load(Ordering::Acquire)
    }

    /// Returns true if that life of the replica ended because its process became unreachable.
    pub(super) fn was_severed(&self, life: u32) -> bool {
        self.shared.severed.load(Ordering::Acquire) == life + 1
    }

    /// Records that its model died, or that its process became unreachable. Called before the loss of its work can be
    /// noticed.
    pub(super) fn die(&self, message: &str, severed: bool) {
        let mut state = self.shared.state.lock();
        if self.is_given_up() {
            return;
        }
        if severed {
            self.shared.severed.store(self.life() + 1, Ordering::Release);
        }
        self.end_life(&mut state, message);
        drop(state);
        self.changes.announce();
    }

    /// Records that its model, which has died, could not be rebuilt.
    pub(super) fn stays_down(&self, message: &str) {
        let mut state = self.shared.state.lock();
        if self.is_given_up() {
            return;
        }
        let message = message.to_owned();
        *self.shared.last_error.lock() = Some(message.clone());
        *state = ReplicaState::Restarting { message };
        drop(state);
        self.changes.announce();
    }

    /// Records that its model died, and that its process cannot build another. Called before the loss of its work can
    /// be noticed. Returns the state.
    pub(super) fn fail_for_good(&self, message: &str) -> ReplicaState {
        let mut state = self.shared.state.lock();
        if !self.is_given_up() {
            self.end_life(&mut state, message);
            *state = ReplicaState::Failed {
                message: message.to_owned(),
            };
        }
        let state = state.clone();
        self.changes.announce();
        state
    }

    fn end_life(&self, state: &mut ReplicaState, message: &str) {
        self.shared.lives.fetch_add(1, Ordering::AcqRel);
        self.shared.stats.lock().deaths += 1;
        *self.shared.last_error.lock() = Some(message.to_owned());
        *state = ReplicaState::Restarting {
            message: message.to_owned(),
        };
    }

    /// Records that its thread does not return from a step, as the watchdog found at `now`: the replica has died, and
    /// its thread, which cannot be ended, is left behind.
    pub(super) fn give_up(&self, message: &str, now: Stamp) {
        let mut state = self.shared.state.lock();
        let lost = self.generation.give_up();
        self.end_life(&mut state, message);
        drop(state);
        self.shared.stats.lock().idle();
        for timeline in lost.into_values() {
            let reason = FinishReason::Error(message.to_owned());
            let end = timeline.end(reason, None, now);
            self.listener.on_event(&EngineEvent::Finished(end));
        }
        self.listener.on_event(&EngineEvent::Idle);
        self.changes.announce();
        self.generation.announce_loss();
    }

    /// Returns true once its thread was abandoned.
    pub(super) fn is_given_up(&self) -> bool {
        self.generation.is_revoked()
    }

    /// Creates the status of the thread that follows, which waits for `delay` first.
    pub(super) fn successor(&self, delay: Duration) -> Self {
        Self {
            generation: WorkerGeneration::default(),
            delay: Some(delay),
            ..self.clone()
        }
    }

    /// Records that no thread follows for now, with the reason. Returns true if that is new.
    pub(super) fn unassigned(&self, message: &str) -> bool {
        let message = message.to_owned();
        let vacant = ReplicaState::Restarting { message };
        let before = std::mem::replace(&mut *self.shared.state.lock(), vacant.clone());
        let is_news = before != vacant;
        if is_news {
            self.changes.announce();
        }
        is_news
    }

    /// Records that none will follow.
    pub(super) fn removed(&self) {
        *self.shared.state.lock() = ReplicaState::Removed;
        self.changes.announce();
    }

    /// Generation of its thread.
    pub(super) fn generation(&self) -> &WorkerGeneration {
        &self.generation
    }

    /// Creates a guard of its thread, held until the thread ends.
    pub(super) fn guard(&self) -> WorkerGuard {
        WorkerGuard(self.clone())
    }

    /// Records that its thread begins a turn at `now`.
    pub(super) fn begin_turn(&self, work: Work, now: Stamp) {
        self.generation.begin_turn(work, now);
        if let Some(notifier) = &self.notifier {
            notifier.notify();
        }
    }

    /// Records that the turn ended.
    pub(super) fn end_turn(&self) {
        self.generation.end_turn();
    }

    /// Kind and start of its thread's turn in progress, if there is one.
    pub(crate) fn at_work(&self) -> Option<(Work, Stamp)> {
        self.generation.at_work()
    }

    /// The figures now.
    pub fn stats(&self) -> ReplicaStats {
        *self.shared.stats.lock()
    }

    /// Changes the figures. Readers hold the lock for a copy only.
    fn count(&self, change: impl FnOnce(&mut ReplicaStats)) {
        let mut stats = self.shared.stats.lock();
        if !self.is_given_up() {
            change(&mut stats);
        }
    }
}

/// Held by a worker thread until it ends.
pub(super) struct WorkerGuard(ReplicaStatus);

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        self.0.generation.end();
        self.0.changes.announce();
    }
}

#[cfg(test)]
mod tests {
    use super::super::progress::StageProgress;
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<EngineEvent>>);

    impl EngineSink for Heard {
        fn on_event(&self, event: &EngineEvent) {
            self.0.lock().push(event.clone());
        }
    }

    fn at(ms: u64) -> Stamp {
        Stamp(Duration::from_millis(ms))
    }

    fn status() -> (ReplicaStatus, Arc<Heard>) {
        let restart = Restart {
            first_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(9),
            healthy_after: Duration::from_secs(60),
        };
        let heard = Arc::new(Heard::default());
        let status = ReplicaStatus::new("talker", ReplicaId(0), restart, Changes::default());
        (status.observed_by(Arc::clone(&heard) as _), heard)
    }

    #[test]
    fn what_a_thread_writes_after_it_was_given_up_counts_for_nothing() {
        let (status, heard) = status();
        status.up(at(0));
        status.count(|stats| stats.running = 2);
        let timeline = SeqTimeline::new(SeqId(1), &StageProgress::default(), None, at(10));
        status.took(SeqId(1), timeline);
        status.give_up("it hangs", at(40));
        let lost = timeline.end(FinishReason::Error("it hangs".to_owned()), None, at(40));
        let told = [
            timeline.begin(),
            EngineEvent::Finished(lost.clone()),
            EngineEvent::Idle,
        ];
        assert_eq!(*heard.0.lock(), told);

        status.done(SeqId(1), lost);
        status.tell(&EngineEvent::Starved);
        status.count(|stats| stats.running = 7);
        status.set(ReplicaState::Removed);
        status.die("twice", true);
        assert_eq!(heard.0.lock().len(), told.len());
        assert_eq!((status.stats().running, status.stats().deaths), (0, 1));
        let message = "it hangs".to_owned();
        assert_eq!(status.last_error(), Some(message.clone()));
        assert_eq!(status.state(), ReplicaState::Restarting { message });
        assert!(status.generation().lost().is_cancelled());
    }

    #[test]
    fn the_thread_that_follows_waits_longer_every_time_and_counts_again() {
        let (first, _) = status();
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
