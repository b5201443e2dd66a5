//! The part of the scripted model that hears.

use std::sync::Arc;

use omni_engine::{Answer, ModelError, OneShotModel, SeqId};

use super::thinker::ROW;
use super::{FAKE_RATE, FakeScript};

/// Encoder of [`FakeSpeech`](super::FakeSpeech): its rows hold the recording's length.
#[derive(Debug)]
pub(super) struct FakeEncoder {
    script: FakeScript,
}

impl FakeEncoder {
    pub(super) fn new(script: FakeScript) -> Self {
        Self { script }
    }
}

impl OneShotModel for FakeEncoder {
    type Input = Arc<[f32]>;
    type Output = Arc<[f32]>;

    fn cost(&self, input: &Arc<[f32]>) -> Result<u32, ModelError> {
        Ok(u32::try_from(input.len()).expect("a short recording") / (FAKE_RATE / 100))
    }

    fn run(&mut self, batch: &[(SeqId, &Arc<[f32]>)]) -> Result<Vec<Answer<Arc<[f32]>>>, ModelError> {
        self.script.ears.pass();
        if self.script.ears_hang.burns() {
            self.script.hangs.pass();
        }
        assert!(!self.script.ears_die.burns(), "the test lit the fuse");
        let rows = |(_, input): &(SeqId, &Arc<[f32]>)| {
            let samples = input.len();
            Ok(vec![vec![samples as f32; samples.div_ceil(ROW)].into()])
        };
        Ok(batch.iter().map(rows).collect())
    }
}
