//! The thread of a replica: warms its model up, takes jobs, steps, sleeps, and survives a panic of the model.
//!
//! Every turn of the loop runs under `catch_unwind`. After a panic nothing in the engine can be trusted: all its
//! sequences are lost, the engine is dropped and, after a wait that grows with every failure in a row, rebuilt.
//! Meanwhile jobs are lost at once, so that they can go elsewhere. Only two models are given up: one that could not
//! be built in the first place, and one whose device this process has lost, because a rebuild would fail, too. The
//! replica that finds the device lost notifies all that compute on it. A thread whose step did not return in time was
//! given up meanwhile by its pool: another thread works for the replica, and this one drops everything and ends.

mod build;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use omni_engine::Stamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::device::SharedDevice;
use super::family::BackendError;
use super::flow::End;
use super::generation::{Work, WorkerGeneration};
use super::handle::StageHandle;
use super::notifier::{CancelFlag, Notifier};
use super::replica::ReplicaState;
use super::sides::lost;
use super::status::ReplicaStatus;
use crate::clock::Clock;

/// An engine with the sequences it works on; what differs between stages.
pub(crate) trait Core: Send {
    /// Request to it.
    type Job: Send;

    /// Builds model and engine.
    fn load(&mut self) -> Result<(), BackendError>;

    /// Runs one step of the warm-up: a little work that no caller requested and no figure counts, so that the first
    /// caller does not pay for initialisation. Returns false when it is over. Called after [`load`](Self::load) until
    /// then.
    fn warm_up(&mut self) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// Takes a job; one that cannot run is ended here, and one that was cancelled is dropped: it must not take the
    /// place of another. Without an engine every job is lost.
    fn accept(&mut self, job: Self::Job);

    /// Returns true if it takes a job now. Other jobs wait in the mailbox, where they are bounded.
    fn has_room(&self) -> bool {
        true
    }

    /// Checks cancellations and both sides of every sequence.
    fn tend(&mut self);

    /// Returns true if a step would do anything.
    fn has_work(&self) -> bool;

    /// Time of the next look without a notification.
    fn wake_at(&self) -> Option<Stamp>;

    /// One step.
    fn step(&mut self);

    /// Writes current values (not totals) to the replica's statistics; called before it sleeps.
    fn settle(&mut self);

    /// Ends every sequence with `end` and drops the engine.
    fn end_all(&mut self, end: &End);

    /// Fault of the engine that is known without a panic, if there is one.
    fn fault(&mut self) -> Option<Fault> {
        None
    }

    /// Reason why this process can compute nothing more: a rebuilt engine would not help.
    fn lost(&self) -> Option<String> {
        None
    }

    /// Sleeps until `wake` is notified, or for `timeout`.
    fn sleep(&mut self, wake: &Notifier, timeout: Option<Duration>) {
        wake.sleep(timeout);
    }
}

/// Fault that ends an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Text in messages.
    pub(crate) message: String,
    /// `true` if its process became unreachable. Its work is not known to be at fault.
    pub(crate) severed: bool,
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self {
            message,
            severed: false,
        }
    }
}

/// The body of a replica's thread, for its starter to run.
#[derive(derive_more::Debug)]
#[debug("StageBody")]
pub struct StageBody {
    run: Box<dyn FnOnce() + Send>,
    generation: WorkerGeneration,
}

impl StageBody {
    /// Works until the replica is stopped, or its model cannot be built.
    pub fn run(self) {
        (self.run)();
    }

    /// Cancelled when the thread is given up because a step does not return: it may never end.
    pub fn given_up(&self) -> CancellationToken {
        self.generation.lost().clone()
    }
}

/// Puts a core behind a mailbox of `mailbox` jobs.
pub(super) fn stage<C: Core + 'static>(
    core: C,
    status: ReplicaStatus,
    mailbox: usize,
    clock: Clock,
    device: SharedDevice,
) -> (StageHandle<C::Job>, StageBody) {
    let parts = StageParts {
        mailbox,
        wake: Notifier::default(),
        stop: CancelFlag::default(),
        status,
        clock,
        device,
    };
    stage_of(core, parts)
}

/// Parts of a replica beside its core.
pub(crate) struct StageParts {
    /// Jobs that may wait.
    pub(crate) mailbox: usize,
    /// Its notifier.
    pub(crate) wake: Notifier,
    /// Set when it is to stop.
    pub(crate) stop: CancelFlag,
    /// Record of its state and figures.
    pub(crate) status: ReplicaStatus,
    /// The time.
    pub(crate) clock: Clock,
    /// Its device in this process.
    pub(crate) device: SharedDevice,
}

/// Puts a core behind a mailbox.
pub(crate) fn stage_of<C: Core + 'static>(core: C, parts: StageParts) -> (StageHandle<C::Job>, StageBody) {
    let StageParts {
        mailbox,
        wake,
        stop,
        status,
        clock,
        device,
    } = parts;
    let name = status.stage();
    let (jobs_tx, jobs) = mpsc::channel(mailbox);
    let generation = status.generation().clone();
    let handle = StageHandle::new(name, jobs_tx, wake.clone(), stop.clone(), generation.clone());
    let worker = Worker {
        name,
        core,
        jobs,
        wake,
        stop,
        status,
        clock,
        device,
    };
    let run = Box::new(move || {
        let _guard = worker.status.guard();
        worker.run();
    });
    (handle, StageBody { run, generation })
}

struct Worker<C: Core> {
    name: &'static str,
    core: C,
    jobs: mpsc::Receiver<C::Job>,
    wake: Notifier,
    stop: CancelFlag,
    status: ReplicaStatus,
    clock: Clock,
    device: SharedDevice,
}

/// Result of one turn of the loop.
enum Turn {
    Worked,
    /// Nothing to do until a notification or that time.
    Idle(Option<Stamp>),
    /// The engine has failed.
    Died(Fault),
    /// The engine has failed, and no other can be built in this process.
    Lost(String),
    /// The replica was stopped, or no more jobs can be sent.
    Over,
}

impl<C: Core> Worker<C> {
    fn run(mut self) {
        let _told = self.device.used_by(&self.wake);
        let end = match self.begin() {
            Ok(()) => self.work(),
            Err(end) => end,
        };
        if self.status.is_given_up() {
            self.leave();
        }
        self.refuse_waiting();
        self.status.set(end);
    }

    /// Builds the model for the first time, or again where a thread before this one was given up. The error is the
    /// final state.
    fn begin(&mut self) -> Result<(), ReplicaState> {
        if let Some(delay) = self.status.delay() {
            return self.rebuild(delay);
        }
        match self.load() {
            Ok(true) => Ok(()),
            Ok(false) => Err(ReplicaState::Removed),
            // A build that ends because the replica was stopped has not failed.
            Err(_) if self.stop.is_set() => Err(ReplicaState::Removed),
            Err(BackendError::Lost(message)) => Err(self.give_up_for_good(message)),
            Err(BackendError::Failed(message)) => {
                // The caller that let a replica join tries again, and logs that.
                if !self.status.is_given_up() && !self.status.has_joined() {
                    tracing::error!(stage = self.name, replica = %self.status.id(), message, "replica failed: its model cannot be built");
                }
                Err(ReplicaState::Failed { message })
            }
        }
    }

    /// Drops a model whose step has returned after all, too late.
    fn leave(&mut self) {
        tracing::warn!(
            stage = self.name,
            replica = %self.status.id(),
            "step returned after its replica was given up; the thread ends"
        );
        self.end_all(&lost(self.name));
    }

    /// Runs turns until the end; returns the final state.
    fn work(&mut self) -> ReplicaState {
        loop {
            self.status.begin_turn(Work::Step, self.clock.now());
            let turn = catch_unwind(AssertUnwindSafe(|| self.turn()));
            self.status.end_turn();
            if self.status.is_given_up() {
                return ReplicaState::Removed;
            }
            match turn {
                Ok(Turn::Worked) => {}
                Ok(Turn::Idle(until)) => {
                    self.core.settle();
                    let timeout = until.map(|at| at.since(self.clock.now()));
                    self.core.sleep(&self.wake, timeout);
                }
                Ok(Turn::Over) => {
                    let message = "the server stopped".to_owned();
                    self.end_all(&End::Failed {
                        stage: self.name,
                        message,
                    });
                    return ReplicaState::Removed;
                }
                Ok(Turn::Lost(message)) => return self.give_up_for_good(message),
                Ok(Turn::Died(fault)) => {
                    if let Err(end) = self.recover(fault) {
                        return end;
                    }
                }
                Err(panic) => {
                    if let Err(end) = self.recover(panic_message(&*panic).into()) {
                        return end;
                    }
                }
            }
        }
    }

    fn turn(&mut self) -> Turn {
        // Cancelled sequences leave before new jobs come, so that they free their places first.
        self.core.tend();
        let mut accepted = false;
        while self.core.has_room() {
            match self.jobs.try_recv() {
                Ok(job) => self.core.accept(job),
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => return Turn::Over,
            }
            accepted = true;
        }
        if self.stop.is_set() {
            return Turn::Over;
        }
        if accepted {
            // The first inputs of new jobs are there, and their notification has been taken.
            self.core.tend();
        }
        let lost = self.core.lost();
        if let Some(message) = lost.or_else(|| self.device.lost().map(str::to_owned)) {
            return Turn::Lost(message);
        }
        if let Some(fault) = self.core.fault() {
            return Turn::Died(fault);
        }
        if self.core.has_work() {
            self.core.step();
            return Turn::Worked;
        }
        Turn::Idle(self.core.wake_at())
    }

    /// Ends the replica after the loss of its device: its sequences go elsewhere, it takes no others, and other users
    /// of the device are notified. Returns the final state.
    fn give_up_for_good(&mut self, message: String) -> ReplicaState {
        tracing::error!(
            stage = self.name,
            replica = %self.status.id(),
            message,
            "replica failed permanently: device lost"
        );
        // The state first, so that work that learns of the loss does not come back here.
        let state = self.status.fail_for_good(&message);
        self.device.lose(&message);
        self.end_all(&End::Lost {
            stage: self.name,
            message,
        });
        state
    }

    /// Recovers from the death of the model: waits and rebuilds it until that works. The error is the final state.
    fn recover(&mut self, fault: Fault) -> Result<(), ReplicaState> {
        let delay = self.die(fault);
        self.rebuild(delay)
    }

    /// Records the death of the model. Returns the wait before it is rebuilt.
    fn die(&mut self, Fault { message, severed }: Fault) -> Duration {
        let delay = self.status.down(self.clock.now());
        let stage = self.name;
        let replica = self.status.id();
        if self.status.has_joined() {
            tracing::warn!(stage, %replica, message, "replica lost; reconnecting until it is back or has left");
        } else {
            let again_in_ms = delay.as_millis();
            tracing::error!(stage, %replica, message, again_in_ms, "replica failed; rebuilding its model");
        }
        // The state first, so that work that learns of the loss does not come back here.
        self.status.die(&message, severed);
        self.end_all(&End::Lost {
            stage: self.name,
            message,
        });
        delay
    }

    /// Drops the engine; a model that panicked may panic again in its drop.
    fn end_all(&mut self, end: &End) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.core.end_all(end)));
        if let Err(panic) = ended {
            let message = panic_message(&*panic);
            tracing::error!(stage = self.name, message, "model panicked while it was dropped");
        }
        self.core.settle();
    }

    /// Ends the jobs that will not be worked on.
    fn refuse_waiting(&mut self) {
        self.jobs.close();
        while let Ok(job) = self.jobs.try_recv() {
            self.core.accept(job);
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .map_or_else(|| "panic".to_owned(), |text| format!("panic: {text}"))
}

#[cfg(test)]
mod tests;
