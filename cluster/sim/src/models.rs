//! Models that compute nothing and return the cost of doing so.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use omni_engine::{
    AsyncExecutor, ChunkModel, ContentKey, Decoded, KvCache, KvSpec, ModelError, Sampled, SeqId, SeqStep,
    Sequences, Skipped, StepExecutor, Warmup,
};

use crate::cost::{TalkerCosts, VocoderCosts};

/// Time of the step that was computed last.
pub(crate) type LastStep = Rc<Cell<Duration>>;

/// Request to a talker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text {
    /// Positions of its prompt.
    pub(crate) prompt: u32,
    /// Frames that it gives.
    pub(crate) frames: u32,
}

/// A talker.
#[derive(Debug)]
pub(crate) struct Talker {
    costs: TalkerCosts,
    kv_blocks: u32,
    /// Prompt, frames left.
    open: HashMap<SeqId, (u32, u32)>,
    last: LastStep,
}

impl Talker {
    pub(crate) fn new(costs: TalkerCosts, kv_blocks: u32, last: LastStep) -> Self {
        Self {
            costs,
            kv_blocks,
            open: HashMap::new(),
            last,
        }
    }
}

impl Sequences for Talker {
    type Request = Text;
    type Row = ();

    fn open(&mut self, seq: SeqId, request: Text) -> Result<u32, ModelError> {
        self.open.insert(seq, (request.prompt, request.frames));
        Ok(request.prompt)
    }

    fn push(&mut self, _seq: SeqId, _rows: Vec<()>, _last: bool) {}

    fn close(&mut self, seq: SeqId) {
        self.open.remove(&seq);
    }
}

impl StepExecutor for Talker {
    type Output = ();

    fn execute(&mut self, batch: &[SeqStep<'_>]) -> Result<(), ModelError> {
        let prompt = |step: &SeqStep<'_>| self.open.get(&step.seq).map_or(0, |open| open.0);
        let prefill = batch
            .iter()
            .filter(|step| step.start < prompt(step))
            .map(|step| step.len)
            .sum();
        let rows = batch
            .iter()
            .filter(|step| step.start + step.len >= prompt(step))
            .count();
        self.last.set(self.costs.step(rows as u32, prefill));
        Ok(())
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<()>>, ModelError> {
        let sample = |seq: &SeqId| match self.open.get_mut(seq) {
            Some((_, 0)) | None => Sampled::End,
            Some((_, left)) => {
                *left -= 1;
                Sampled::Item(())
            }
        };
        Ok(seqs.iter().map(sample).collect())
    }
}

impl AsyncExecutor for Talker {}

impl KvCache for Talker {
    fn kv_spec(&self) -> KvSpec {
        KvSpec {
            block_size: 16,
            num_blocks: self.kv_blocks,
            max_len: 1 << 20,
        }
    }

    fn content_keys(&self, _seq: SeqId, _positions: Range<u32>) -> Option<Vec<ContentKey>> {
        None
    }
}

impl Warmup for Talker {}

/// A vocoder.
#[derive(Debug)]
pub(crate) struct Vocoder {
    costs: VocoderCosts,
    /// Most previous frames on which the first audible one depends.
    context: u32,
    last: LastStep,
}

impl Vocoder {
    pub(crate) fn new(costs: VocoderCosts, context: u32, last: LastStep) -> Self {
        Self { costs, context, last }
    }
}

impl ChunkModel for Vocoder {
    type Item = ();
    type Sample = ();

    fn open(&mut self, _seq: SeqId, lead: u32) -> Result<Skipped, ModelError> {
        let items = lead.saturating_sub(self.context);
        Ok(Skipped {
            items,
            ..Skipped::default()
        })
    }

    fn decode(&mut self, batch: &[(SeqId, &[()])]) -> Result<Vec<Decoded<()>>, ModelError> {
        let frames: usize = batch.iter().map(|(_, items)| items.len()).sum();
        self.last.set(self.costs.step(batch.len() as u32, frames as u32));
        Ok(batch.iter().map(|_| Ok(Vec::new())).collect())
    }

    fn close(&mut self, _seq: SeqId) {}
}
