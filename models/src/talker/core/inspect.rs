//! What can be looked at between steps.

use omni_engine::{ModelError, SeqId, SeqStep};

use super::{Core, inputs};
use crate::backend::Backend;
use crate::talker::Inspect;

impl<B: Backend> Inspect for Core<B> {
    fn logits(&self, seq: SeqId) -> Option<Vec<f32>> {
        let computed = self.computed.as_ref()?;
        let row = self.b.gather(&computed.logits, &[*computed.row.get(&seq)?]);
        self.b.host(&row.ok()?).ok()
    }

    fn hidden(&self, seq: SeqId) -> Option<Vec<f32>> {
        let computed = self.computed.as_ref()?;
        let row = self.b.gather(&computed.hidden, &[*computed.row.get(&seq)?]);
        self.b.host(&row.ok()?).ok()
    }

    fn input_rows(&self, seq: SeqId, start: u32, len: u32) -> Result<Vec<f32>, ModelError> {
        let step = SeqStep {
            seq,
            start,
            len,
            blocks: &[],
        };
        let inputs = inputs(&self.sequences, &[step])?;
        Ok(self.b.host(&self.net.embed(&self.b, &inputs)?)?)
    }
}
