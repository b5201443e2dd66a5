//! Intermediate results between steps.

use omni_backend::Backend;
use omni_engine::{ModelError, SeqId, SeqStep};

use super::{Core, inputs};
use crate::computed::nothing_computed;
use crate::talker::Inspect;
use crate::talker::predictor::Beginning;

impl<B: Backend> Inspect for Core<B> {
    fn logits(&self, seq: SeqId) -> Option<Vec<f32>> {
        self.computed.as_ref()?.logits_of(&self.b, seq)
    }

    fn hidden(&self, seq: SeqId) -> Option<Vec<f32>> {
        self.computed.as_ref()?.hidden_of(&self.b, seq)
    }

    fn predictor_logits(&mut self, seq: SeqId, codes: &[u32]) -> Result<Vec<f32>, ModelError> {
        let net = &self.net;
        let computed = self.computed.as_ref().ok_or_else(nothing_computed)?;
        let groups = net.predictor.groups;
        if codes.is_empty() || codes.len() >= groups {
            return Err(ModelError::Compute(format!(
                "{} codes stand in front of a code of the predictor, expected 1 to {}",
                codes.len(),
                groups - 1
            )));
        }
        let from = Beginning {
            hidden: &computed.hidden,
            rows: &[computed.row(seq)?],
            first: &net.codec_embedding,
        };
        self.predictor_kv.reserve(&self.b, 1, groups)?;
        let logits = net
            .predictor
            .logits(&self.b, &from, codes, &mut self.predictor_kv)?;
        Ok(self.b.host(&logits)?)
    }

    fn replace_frame(&mut self, seq: SeqId, codes: &[u32]) -> Result<(), ModelError> {
        let none = || ModelError::Compute(format!("sequence {} has no frame", seq.0));
        let sequence = self.sequences.get_mut(&seq).ok_or_else(none)?;
        let slot = sequence
            .frame_slot()
            .filter(|_| sequence.frames() > 0)
            .ok_or_else(none)?;
        sequence.replace_frame(codes);
        let frame = self.b.ids(codes.len(), codes.to_vec())?;
        Ok(self.b.put_ids(&mut self.frame_slots.frames, &[slot], &frame)?)
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
