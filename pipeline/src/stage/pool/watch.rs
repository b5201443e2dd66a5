//! Watchdog of threads in a step: a step that does not return in time is the death of its replica.
//!
//! A thread cannot be killed. It is left behind with all it holds, another thread takes its place after the usual
//! wait, and its work is lost, as it would be if its model had panicked. The number left behind is bounded: each
//! keeps its state in memory, and the next one would hang too. Beyond that a replica stays without a thread until one
//! of those ends.
//!
//! Nothing is polled: a thread that begins to work notifies, and while none works the watchdog sleeps.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::Stamp;

use super::{Replica, Slots, StagePool, Unassigned, Wanted};
use crate::clock::Clock;
use crate::stage::generation::{TurnTimeouts, Work};

/// Bounds on the turns of a replica's threads, and on threads stuck in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLimits {
    /// Longest turns.
    pub timeouts: TurnTimeouts,
    /// Most threads of the stage that may be left behind.
    pub left_behind: u32,
}

/// Interval of attempts to start a thread for a replica that has none.
const RETRY: Duration = Duration::from_millis(500);

/// Wait of the watchdog.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// No thread works: until a notification.
    Ring,
    /// A thread may be overdue at that time.
    At(Stamp),
}

impl<J: Send + 'static> StagePool<J> {
    /// Gives up threads that do not return from a step in time, until dropped. It begins with a check.
    pub async fn watch(&self, clock: Clock) {
        let Some(limits) = self.shared.parts.steps else {
            return std::future::pending().await;
        };
        let mut changes = self.shared.parts.changes.follow();
        let mut next = self.look(limits, clock.now());
        loop {
            let wait = async {
                match next {
                    // A turn that has just begun cannot be overdue before that.
                    Next::Ring => {
                        self.shared.notifier.notified().await;
                        Next::At(clock.now() + limits.timeouts.shortest())
                    }
                    Next::At(at) => {
                        tokio::time::sleep(at.since(clock.now())).await;
                        self.look(limits, clock.now())
                    }
                }
            };
            let vacant = !self.shared.slots.lock().vacant.is_empty();
            tokio::select! {
                then = wait => next = then,
                // A thread that was left behind may have ended.
                Ok(()) = changes.changed() => self.start_vacant(&mut self.shared.slots.lock(), limits),
                // The system may have threads again.
                () = tokio::time::sleep(RETRY), if vacant => self.start_vacant(&mut self.shared.slots.lock(), limits),
            }
        }
    }

    /// Gives up threads that are overdue. Returns the time of the next check.
    fn look(&self, limits: StepLimits, now: Stamp) -> Next {
        let notifier = &self.shared.notifier;
        // Set first: a thread that begins to work after its check notifies.
        notifier.rest();
        let mut slots = self.shared.slots.lock();
        let mut due: Option<Stamp> = None;
        for replica in slots.replicas.clone() {
            let thread = replica.thread();
            let Some((work, since)) = thread.status.at_work() else {
                continue;
            };
            if thread.status.is_given_up() {
                continue;
            }
            let at = since + limits.timeouts.of(work);
            if at <= now {
                self.give_up(&mut slots, &replica, limits, work, now);
            } else {
                due = Some(due.map_or(at, |due| due.min(at)));
            }
        }
        match due {
            None => Next::Ring,
            Some(at) => {
                notifier.stay();
                Next::At(at)
            }
        }
    }

    fn give_up(
        &self,
        slots: &mut Slots<J>,
        replica: &Arc<Replica<J>>,
        limits: StepLimits,
        work: Work,
        now: Stamp,
    ) {
        let stage = self.stage();
        let id = replica.status.id();
        let thread = replica.thread();
        let message = limits.timeouts.overdue(work);
        tracing::error!(
            stage,
            replica = %id,
            message,
            "replica hangs; its thread is left behind, another takes its place"
        );
        slots.left.push(thread.status.generation().clone());
        thread.status.give_up(&message, now);
        // It may just have returned and gone to sleep.
        thread.handle.wake().notify();
        let delay = thread.status.down(now);
        slots.vacant.push(Unassigned { id, delay });
        self.start_vacant(slots, limits);
    }

    /// Starts threads for replicas that have none, within the bound; called again after every change, and after a
    /// while.
    fn start_vacant(&self, slots: &mut Slots<J>, limits: StepLimits) {
        for vacancy in std::mem::take(&mut slots.vacant) {
            let id = vacancy.id;
            let Some(replica) = slots.find(id).cloned() else {
                continue;
            };
            if slots.stopped || replica.is(Wanted::Removed) {
                replica.status.removed();
            } else if let Err(why) = self.start_successor(slots, &replica, limits, vacancy.delay) {
                slots.vacant.push(vacancy);
                if replica.status.unassigned(&why) {
                    tracing::error!(stage = self.stage(), replica = %id, why, "replica has no thread");
                }
            }
        }
    }

    /// Starts another thread for a replica.
    fn start_successor(
        &self,
        slots: &mut Slots<J>,
        replica: &Replica<J>,
        limits: StepLimits,
        delay: Duration,
    ) -> Result<(), String> {
        let left = slots.left_behind();
        let most = limits.left_behind;
        if left > most as usize {
            return Err(format!(
                "{left} threads of the stage have not returned from a step, and at most {most} are replaced"
            ));
        }
        let status = replica.thread().status.clone();
        let thread = self
            .occupy(replica.make.as_ref(), status.successor(delay))
            .map_err(|error| format!("no thread could be started: {error}"))?;
        replica.set_thread(thread);
        Ok(())
    }
}
