//! Submission of jobs to a replica.

use tokio::sync::mpsc;

use super::generation::WorkerGeneration;
use super::job::StageJob;
use super::notifier::{CancelFlag, Notifier};

/// Reason why a job was not taken.
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
    /// The thread has ended, or was abandoned.
    #[error("stage {stage} is not running")]
    Ended {
        /// Name of the stage.
        stage: &'static str,
    },
}

/// The caller's side of a replica.
#[derive(Debug)]
pub struct StageHandle<J = StageJob> {
    name: &'static str,
    jobs: mpsc::Sender<J>,
    wake: Notifier,
    stop: CancelFlag,
    generation: WorkerGeneration,
}

impl<J> StageHandle<J> {
    /// Creates the handle of a replica that takes `jobs`, is notified by `wake` and stopped by `stop`, until
    /// `generation` is revoked.
    pub(super) fn new(
        name: &'static str,
        jobs: mpsc::Sender<J>,
        wake: Notifier,
        stop: CancelFlag,
        generation: WorkerGeneration,
    ) -> Self {
        Self {
            name,
            jobs,
            wake,
            stop,
            generation,
        }
    }

    /// Submits a job; never waits.
    ///
    /// # Errors
    /// [`JobRefused`]; the job is dropped then.
    pub fn submit(&self, job: J) -> Result<(), JobRefused> {
        let stage = self.name;
        if self.generation.is_revoked() {
            return Err(JobRefused::Ended { stage });
        }
        self.jobs.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => JobRefused::Full {
                stage,
                limit: self.jobs.max_capacity(),
            },
            mpsc::error::TrySendError::Closed(_) => JobRefused::Ended { stage },
        })?;
        self.wake.notify();
        Ok(())
    }

    /// Waits until the thread is given up: jobs sent to it are lost.
    pub(super) async fn lost(&self) {
        self.generation.lost().cancelled().await;
    }

    /// Notifier for the receivers and senders of its jobs.
    pub fn wake(&self) -> &Notifier {
        &self.wake
    }

    /// Asks it to stop after the step in progress. Its sequences fail.
    pub fn stop(&self) {
        self.stop.set();
        self.wake.notify();
    }
}

/// Ends a replica that can no longer be reached, even if it was not stopped.
impl<J> Drop for StageHandle<J> {
    fn drop(&mut self) {
        self.stop();
    }
}
