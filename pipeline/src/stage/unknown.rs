//! A stage that its family does not have: a replica that cannot be built, and says so.

use omni_engine::Stamp;

use super::family::BackendError;
use super::flow::End;
use super::job::StageJob;
use super::sides::lost;
use super::worker::Core;

/// The stage of that name.
pub(super) struct Unknown(pub(super) &'static str);

impl Core for Unknown {
    type Job = StageJob;

    fn load(&mut self) -> Result<(), BackendError> {
        Err(BackendError::Failed(format!(
            "the model's family has no stage {}, which its graph names",
            self.0
        )))
    }

    fn accept(&mut self, job: StageJob) {
        job.outputs.end(lost(self.0));
    }

    fn tend(&mut self) {}

    fn has_work(&self) -> bool {
        false
    }

    fn wake_at(&self) -> Option<Stamp> {
        None
    }

    fn step(&mut self) {}

    fn settle(&mut self) {}

    fn end_all(&mut self, _end: &End) {}
}
