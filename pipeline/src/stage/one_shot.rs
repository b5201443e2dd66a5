//! A one-shot stage: whole requests in, all outputs of each from one step, one [`OneShotEngine`]. Outputs for which the
//! edge has no room wait in the engine.

use omni_engine::{OneShotConfig, OneShotEngine, Stamp};
use tokio::sync::oneshot;

use super::driver::{Admission, Course, Driver, Verdict, WARM_UP};
use super::family::{BackendError, OneShotBackend};
use super::flow::End;
use super::job::StageJob;
use super::sides::{Sink, failed};
use super::status::ReplicaStatus;
use super::worker::Core;
use crate::clock::Clock;

pub(super) struct OneShot<B: OneShotBackend> {
    backend: B,
    config: OneShotConfig,
    clock: Clock,
    driver: Driver<OneShotEngine<B::Model>, Whole>,
}

/// State of a sequence besides its request. Dropping it resolves `finished`.
struct Whole {
    _finished: Option<oneshot::Sender<()>>,
}

impl Course for Whole {}

impl<B: OneShotBackend> OneShot<B> {
    pub(super) fn new(backend: B, config: OneShotConfig, status: &ReplicaStatus, clock: Clock) -> Self {
        Self {
            backend,
            config,
            clock,
            driver: Driver::new(status.clone(), B::item, clock),
        }
    }
}

impl<B: OneShotBackend> Core for OneShot<B> {
    type Job = StageJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let mut engine = OneShotEngine::new(self.backend.load()?, self.config);
        let request = self.backend.warm_up()?;
        let most = request.max_outputs().unwrap_or(u32::MAX);
        let input = self.backend.request(request)?;
        engine
            .add(WARM_UP, input, most, self.clock.now())
            .map_err(BackendError::warm_up)?;
        self.driver.load(engine, |_, _| Ok(false));
        Ok(())
    }

    fn warm_up(&mut self) -> Result<bool, BackendError> {
        self.driver.warm_up()
    }

    fn accept(&mut self, job: StageJob) {
        if job.cancel.is_set() {
            return;
        }
        let sink = Sink::new(job.outputs);
        let stage = self.driver.stage();
        let gives = job.request.output();
        let max_outputs = job.request.max_outputs();
        let input = match self.backend.request(job.request) {
            Ok(input) => input,
            Err(error) => return sink.end(failed(stage, error.to_string())),
        };
        if job.inputs.is_some() {
            return sink.end(failed(stage, "it was given inputs besides its request"));
        }
        let admission = Admission {
            seq: job.seq,
            sink,
            cancel: job.cancel,
            progress: job.progress,
            max_outputs,
            gives,
            course: Whole {
                _finished: job.finished,
            },
        };
        self.driver.admit(admission, |engine, _, now| {
            engine.add(job.seq, input, max_outputs.unwrap_or(u32::MAX), now)
        });
    }

    /// Drops cancelled requests that wait; one in a step cannot be stopped.
    fn tend(&mut self) {
        self.driver.tend(|_, _, _| Verdict::Keep);
    }

    fn has_work(&self) -> bool {
        self.driver.has_work()
    }

    fn lost(&self) -> Option<String> {
        self.driver.lost()
    }

    fn wake_at(&self) -> Option<Stamp> {
        None
    }

    fn step(&mut self) {
        self.driver.step();
    }

    fn settle(&mut self) {
        self.driver.settle();
    }

    fn end_all(&mut self, end: &End) {
        self.driver.end_all(end);
    }
}
