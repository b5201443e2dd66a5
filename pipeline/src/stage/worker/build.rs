//! Building a replica's model, for the first time and after each death.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use omni_engine::Stamp;

use super::super::events::EngineEvent;
use super::super::family::BackendError;
use super::super::generation::Work;
use super::super::replica::ReplicaState;
use super::super::sides::lost;
use super::{Core, Worker, panic_message};

impl<C: Core> Worker<C> {
    /// Rebuilds the model after `delay`, again and again until that works. The error is the final state: the replica
    /// was stopped or given up meanwhile, or its device is lost.
    pub(super) fn rebuild(&mut self, mut delay: Duration) -> Result<(), ReplicaState> {
        let down_since = self.clock.now();
        let mut failures = 0_u64;
        loop {
            if !self.wait(delay) {
                return Err(ReplicaState::Removed);
            }
            if let Some(message) = self.device.lost().map(str::to_owned) {
                return Err(self.give_up_for_good(message));
            }
            match self.load() {
                Ok(true) => {
                    self.is_back(failures, down_since);
                    return Ok(());
                }
                Ok(false) => return Err(ReplicaState::Removed),
                Err(_) if self.status.is_given_up() || self.stop.is_set() => {
                    return Err(ReplicaState::Removed);
                }
                Err(BackendError::Lost(message)) => return Err(self.give_up_for_good(message)),
                Err(BackendError::Failed(message)) => {
                    delay = self.stays_down(&message, failures);
                    failures += 1;
                }
            }
        }
    }

    /// Records that the model that died could not be rebuilt: not another death, and logged once. Returns the wait
    /// before the next attempt.
    fn stays_down(&mut self, message: &str, failures: u64) -> Duration {
        let delay = self.status.down(self.clock.now());
        let stage = self.name;
        let replica = self.status.id();
        if failures > 0 || self.status.has_joined() {
            tracing::debug!(stage, %replica, message, failures, "replica rebuild failed");
        } else {
            tracing::warn!(
                stage,
                %replica,
                message,
                "replica rebuild failed; retrying"
            );
        }
        self.status.stays_down(message);
        // The engine may be in any state.
        self.end_all(&lost(self.name));
        delay
    }

    /// Logs that it works again; the caller that let it join does so itself.
    fn is_back(&self, failures: u64, down_since: Stamp) {
        if self.status.has_joined() {
            return;
        }
        tracing::info!(
            stage = self.name,
            replica = %self.status.id(),
            failures,
            after_s = self.clock.since(down_since).as_secs_f64(),
            "replica recovered"
        );
    }

    /// Waits, and loses jobs that arrive nevertheless. Ends early if its device is lost. Returns false if it was
    /// stopped.
    fn wait(&mut self, delay: Duration) -> bool {
        let until = self.clock.now() + delay;
        loop {
            while let Ok(job) = self.jobs.try_recv() {
                self.core.accept(job);
            }
            if self.stop.is_set() {
                return false;
            }
            match until.since(self.clock.now()) {
                Duration::ZERO => return true,
                _ if self.device.lost().is_some() => return true,
                left => self.wake.sleep(Some(left)),
            }
        }
    }

    /// Builds the model and warms it up. Returns false if it was stopped meanwhile. Building is a turn: it may hang,
    /// in a driver or on a disk.
    pub(super) fn load(&mut self) -> Result<bool, BackendError> {
        let begun = self.clock.now();
        self.status.begin_turn(Work::Build, begun);
        let built = caught(|| self.core.load());
        self.status.end_turn();
        if self.status.is_given_up() {
            return Err(given_up());
        }
        built?;
        self.status.tell(&EngineEvent::Loaded {
            after: self.clock.since(begun),
        });
        let warm = self.warm_up();
        if !matches!(warm, Ok(true)) {
            // The engine may be in any state.
            self.end_all(&lost(self.name));
            return warm.map_err(|error| match error {
                BackendError::Failed(message) => {
                    BackendError::Failed(format!("the warm-up failed: {message}"))
                }
                lost @ BackendError::Lost(_) => lost,
            });
        }
        self.status.up(self.clock.now());
        Ok(true)
    }

    /// Runs the warm-up. Each step of it counts as a turn: it may hang like any other. Returns false if it was
    /// stopped before the end.
    fn warm_up(&mut self) -> Result<bool, BackendError> {
        while !self.stop.is_set() {
            self.status.begin_turn(Work::Step, self.clock.now());
            let step = caught(|| self.core.warm_up());
            self.status.end_turn();
            if self.status.is_given_up() {
                return Err(given_up());
            }
            if !step? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn given_up() -> BackendError {
    BackendError::Failed("the replica was given up meanwhile".to_owned())
}

/// Runs `work`; a panic is an error.
fn caught<T>(work: impl FnOnce() -> Result<T, BackendError>) -> Result<T, BackendError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(BackendError::Failed(panic_message(&*panic))))
}
