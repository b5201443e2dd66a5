//! The thread of a stage: takes jobs, steps, sleeps, and survives a panic of the model.
//!
//! Every turn of the loop runs under `catch_unwind`. After a panic nothing that the engine holds can be trusted: all its
//! sequences fail, the engine is dropped and built anew. If that fails too, the stage says so and refuses what follows.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use omni_engine::Stamp;
use tokio::sync::{mpsc, watch};

use super::backend::BackendError;
use super::wake::{CancelFlag, Wake};
use crate::clock::Clock;

/// Whether a stage can work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageState {
    /// It builds its model; jobs wait.
    Loading,
    /// It works.
    Ready,
    /// It has no model and refuses jobs.
    Failed(String),
    /// It was asked to stop and did.
    Stopped,
}

/// Why a job was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobRefused {
    /// Its mailbox is full: the thread does not keep up.
    #[error("stage {stage} has {limit} jobs waiting")]
    Full {
        /// Name of the stage.
        stage: &'static str,
        /// The bound.
        limit: usize,
    },
    /// The thread has ended.
    #[error("stage {stage} is not running")]
    Ended {
        /// Name of the stage.
        stage: &'static str,
    },
}

/// The caller's side of a stage.
#[derive(Debug)]
pub struct StageHandle<J> {
    name: &'static str,
    jobs: mpsc::Sender<J>,
    wake: Wake,
    stop: CancelFlag,
    state: watch::Receiver<StageState>,
}

impl<J> StageHandle<J> {
    /// Hands over a job; never waits.
    ///
    /// # Errors
    /// [`JobRefused`]; the job is dropped then.
    pub fn submit(&self, job: J) -> Result<(), JobRefused> {
        let stage = self.name;
        self.jobs.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => JobRefused::Full {
                stage,
                limit: self.jobs.max_capacity(),
            },
            mpsc::error::TrySendError::Closed(_) => JobRefused::Ended { stage },
        })?;
        self.wake.ring();
        Ok(())
    }

    /// The stage's bell.
    #[must_use]
    pub fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Follows whether it can work.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<StageState> {
        self.state.clone()
    }

    /// Asks it to stop after the step in progress. Its sequences fail.
    pub fn stop(&self) {
        self.stop.set();
        self.wake.ring();
    }
}

/// A stage that nobody can reach any more ends, whoever forgot to stop it.
impl<J> Drop for StageHandle<J> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An engine with the sequences it works on; what differs between stages.
pub(super) trait Core: Send {
    type Job: Send;

    /// Builds model and engine.
    fn load(&mut self) -> Result<(), BackendError>;

    /// Takes a job; one that cannot run is ended here, and one that was cancelled is dropped: it must not take the place of
    /// another. Without an engine every job is ended.
    fn accept(&mut self, job: Self::Job);

    /// Looks at cancellations and at both sides of every sequence.
    fn tend(&mut self);

    /// Whether a step would do anything.
    fn has_work(&self) -> bool;

    /// When to look again although nothing rings.
    fn wake_at(&self) -> Option<Stamp>;

    /// One step.
    fn step(&mut self);

    /// Ends every sequence as failed and drops the engine.
    fn fail_all(&mut self, message: &str);
}

/// The body of a stage's thread. Whoever starts threads runs it.
pub struct StageBody(Box<dyn FnOnce() + Send>);

impl StageBody {
    /// Works until the stage is stopped, all its handles are gone, or its model is lost for good.
    pub fn run(self) {
        (self.0)();
    }
}

impl fmt::Debug for StageBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StageBody")
    }
}

/// Puts a core behind a mailbox of `mailbox` jobs.
pub(super) fn stage<C: Core + 'static>(
    name: &'static str,
    core: C,
    wake: Wake,
    mailbox: usize,
    clock: Clock,
) -> (StageHandle<C::Job>, StageBody) {
    let (jobs_tx, jobs) = mpsc::channel(mailbox);
    let (state, state_rx) = watch::channel(StageState::Loading);
    let stop = CancelFlag::default();
    let handle = StageHandle {
        name,
        jobs: jobs_tx,
        wake: wake.clone(),
        stop: stop.clone(),
        state: state_rx,
    };
    let worker = Worker {
        name,
        core,
        jobs,
        wake,
        stop,
        state,
        clock,
    };
    (handle, StageBody(Box::new(move || worker.run())))
}

struct Worker<C: Core> {
    name: &'static str,
    core: C,
    jobs: mpsc::Receiver<C::Job>,
    wake: Wake,
    stop: CancelFlag,
    state: watch::Sender<StageState>,
    clock: Clock,
}

/// What one turn of the loop came to.
enum Turn {
    Worked,
    /// Nothing to do until a ring or that time.
    Idle(Option<Stamp>),
    /// Stopped, or nobody can send jobs any more.
    Over,
}

impl<C: Core> Worker<C> {
    fn run(mut self) {
        let end = match self.load() {
            true => self.work(),
            false => self.state.borrow().clone(),
        };
        self.state.send_replace(end);
        self.refuse_waiting();
    }

    /// Turns until the end; returns the state to end in.
    fn work(&mut self) -> StageState {
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.turn())) {
                Ok(Turn::Worked) => {}
                Ok(Turn::Idle(until)) => {
                    self.wake.sleep(until.map(|at| at.since(self.clock.now())));
                }
                Ok(Turn::Over) => {
                    self.core.fail_all("the server stopped");
                    return StageState::Stopped;
                }
                Err(panic) => {
                    let message = panic_message(&*panic);
                    tracing::error!(
                        stage = self.name,
                        message,
                        "panic in a stage, its model is built anew"
                    );
                    self.core.fail_all(&message);
                    if !self.load() {
                        return self.state.borrow().clone();
                    }
                }
            }
        }
    }

    fn turn(&mut self) -> Turn {
        // What was cancelled leaves before anybody new comes: it keeps nobody's place.
        self.core.tend();
        let mut accepted = false;
        loop {
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
            // The first inputs of the new ones are there, and their bell has rung.
            self.core.tend();
        }
        if self.core.has_work() {
            self.core.step();
            return Turn::Worked;
        }
        Turn::Idle(self.core.wake_at())
    }

    /// Builds the model; says whether that worked.
    fn load(&mut self) -> bool {
        self.state.send_replace(StageState::Loading);
        let loaded = catch_unwind(AssertUnwindSafe(|| self.core.load()))
            .unwrap_or_else(|panic| Err(BackendError(panic_message(&*panic))));
        let state = match &loaded {
            Ok(()) => StageState::Ready,
            Err(error) => {
                tracing::error!(stage = self.name, %error, "a stage has no model");
                StageState::Failed(error.to_string())
            }
        };
        self.state.send_replace(state);
        loaded.is_ok()
    }

    /// Ends the jobs that nobody will work on.
    fn refuse_waiting(mut self) {
        self.jobs.close();
        self.core.fail_all("the stage has ended");
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
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    use super::*;

    /// Has one place, and keeps a job until it is cancelled.
    #[derive(Default)]
    struct OnePlace {
        place: Option<CancelFlag>,
        refused: usize,
    }

    impl Core for OnePlace {
        type Job = CancelFlag;

        fn load(&mut self) -> Result<(), BackendError> {
            Ok(())
        }

        fn accept(&mut self, job: CancelFlag) {
            match self.place {
                Some(_) => self.refused += 1,
                None => self.place = Some(job),
            }
        }

        fn tend(&mut self) {
            self.place.take_if(|job| job.is_set());
        }

        fn has_work(&self) -> bool {
            false
        }

        fn wake_at(&self) -> Option<Stamp> {
            None
        }

        fn step(&mut self) {}

        fn fail_all(&mut self, _message: &str) {
            self.place = None;
        }
    }

    #[test]
    fn a_cancelled_job_leaves_before_the_next_one_comes() {
        let (jobs, mailbox) = mpsc::channel(4);
        let (state, _) = watch::channel(StageState::Ready);
        let mut worker = Worker {
            name: "test",
            core: OnePlace::default(),
            jobs: mailbox,
            wake: Wake::default(),
            stop: CancelFlag::default(),
            state,
            clock: Clock::start(),
        };
        let first = CancelFlag::default();
        jobs.try_send(first.clone()).unwrap();
        worker.turn();
        first.set();
        jobs.try_send(CancelFlag::default()).unwrap();
        worker.turn();
        assert_eq!(worker.core.refused, 0);
        assert!(worker.core.place.is_some());
    }

    #[test]
    fn a_stage_whose_handle_is_dropped_ends() {
        let (handle, body) = stage("test", OnePlace::default(), Wake::default(), 1, Clock::start());
        let (ended, end) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            body.run();
            ended.send(()).unwrap();
        });
        drop(handle);
        // Longer than anything takes; only a test that fails waits for it.
        assert_eq!(end.recv_timeout(Duration::from_secs(30)), Ok(()));
        thread.join().unwrap();
    }
}
