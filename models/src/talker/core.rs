//! The talker over one backend: sequences, the paged cache, one step in two halves (compute, sample).

mod frame_slots;
mod frames;
mod inspect;
mod prepare;
mod prompts;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use omni_backend::sampling::{Choice, Limits, Sampling};
use omni_backend::{Backend, Batch, StepKey};
use omni_engine::{
    AsyncExecutor, CodecFrame, KvCache, KvSpec, ModelError, Sampled, SeqId, SeqStep, Sequences, StepExecutor,
    Warmup,
};

use crate::computed::{Computed, Kept, check_new, find};
use crate::paged;

use super::net::TalkerNet;
use super::predictor::PredictorKv;
use super::prompt::{self, FrameCodes, Prompt, Vocabulary};
use super::sequence::{Input, Sequence};
use super::{KvOptions, TalkerRequest, UserRow};
use crate::config::{CONTROL_CODES, PromptFormat};
use crate::qwen3_tts;
use frame_slots::{FrameSlots, PADDING_SLOT};
use frames::Asked;

/// Settings of a padding row, for which any do.
const PADDING_SAMPLING: Sampling = Sampling {
    temperature: 0.0,
    top_k: 0,
    top_p: 1.0,
    repetition_penalty: 1.0,
    min_tokens: 0,
};

const PADDING: Choice<'static> = Choice {
    sampling: &PADDING_SAMPLING,
    limits: Limits {
        generated: &[],
        suppress_from: None,
        end: None,
    },
    seed: 0,
    step: 0,
    said: None,
};

pub(crate) struct Core<B: Backend> {
    b: B,
    net: Arc<TalkerNet<B>>,
    newline: u32,
    spec: KvSpec,
    kv: Vec<B::Kv>,
    predictor_kv: PredictorKv<B>,
    /// Memory of `computed`.
    kept: Kept<B>,
    /// Last frame of every sequence, input of its next step.
    frame_slots: FrameSlots<B>,
    sequences: HashMap<SeqId, Sequence>,
    computed: Option<Computed<B>>,
    /// In queue order.
    asked: VecDeque<Asked<B>>,
}

impl<B: Backend> Core<B> {
    /// `newline` is the text token id of a line break.
    pub(crate) fn new(b: B, net: Arc<TalkerNet<B>>, newline: u32, kv: KvOptions) -> Result<Self, ModelError> {
        let (spec, slots) = paged::spec(kv, net.config.max_positions)?;
        Ok(Self {
            kv: net.stack.kv(&b, slots)?,
            predictor_kv: PredictorKv::new(&b, &net.predictor)?,
            frame_slots: FrameSlots::new(&b, net.predictor.groups)?,
            spec,
            b,
            net,
            newline,
            kept: Kept::default(),
            sequences: HashMap::new(),
            computed: None,
            asked: VecDeque::new(),
        })
    }

    fn check(&self, request: &TalkerRequest) -> Result<(), ModelError> {
        let config = &self.net.config;
        let rejected = |reason: String| Err(ModelError::Rejected(reason));
        for (name, sampling) in [("talker", &request.talker), ("predictor", &request.predictor)] {
            if let Err(e) = sampling.validate() {
                return rejected(format!("{name} sampling: {e}"));
            }
        }
        let asked = &request.predictor;
        #[expect(clippy::float_cmp, reason = "exactly 1 is the neutral setting")]
        if asked.repetition_penalty != 1.0 || asked.min_tokens != 0 {
            return rejected(format!(
                "predictor sampling: repetition_penalty is {} and min_tokens is {}, expected 1 and 0: every frame has \
                 one code per group and none repeats another",
                asked.repetition_penalty, asked.min_tokens
            ));
        }
        for (i, row) in request.user.iter().enumerate() {
            match row {
                UserRow::Token(id) if *id as usize >= config.text_vocab => {
                    return rejected(format!(
                        "row {i} of the user turn is token {id}, expected below {}",
                        config.text_vocab
                    ));
                }
                UserRow::Hidden(_) if !self.net.takes_hidden() => {
                    return rejected(format!(
                        "row {i} of the user turn is a hidden state, expected a token"
                    ));
                }
                UserRow::Hidden(state) if state.len() != config.text_hidden => {
                    let found = state.len();
                    let expected = config.text_hidden;
                    return rejected(format!(
                        "row {i} of the user turn has {found} numbers, expected {expected}"
                    ));
                }
                _ => {}
            }
        }
        let frame = self.vocabulary().frame;
        if let Some(i) = request.prior_frames.iter().position(|f| frame.refuses(&f.0)) {
            return rejected(format!(
                "frame {i} made before is no frame, expected {} codes, the first below {} and the others below {}",
                frame.groups, frame.first, frame.others
            ));
        }
        let text = request.text.iter().flatten();
        if let Some(id) = text.copied().find(|&id| id as usize >= config.text_vocab) {
            let expected = config.text_vocab;
            return rejected(format!(
                "text token {id} does not exist, expected below {expected}"
            ));
        }
        Ok(())
    }

    /// The prompt of a request, which is checked and takes the user turn and the text out of it.
    fn prompt(&self, request: &mut TalkerRequest, ids: &Vocabulary) -> Result<Prompt, ModelError> {
        self.check(request)?;
        let config = &self.net.config;
        let prompt = match &config.prompt {
            PromptFormat::Qwen3Omni => prompt::qwen3_omni(request, ids, config),
            PromptFormat::Qwen3Tts(own) => qwen3_tts::prompt(request, ids, config, own),
        };
        let prompt = prompt.map_err(ModelError::Rejected)?;
        let len = prompt.rows.len();
        let most = self.spec.max_len as usize;
        if len >= most {
            return Err(ModelError::Rejected(format!(
                "the prompt has {len} positions, at most {} fit",
                most - 1
            )));
        }
        Ok(prompt)
    }

    fn vocabulary(&self) -> Vocabulary {
        let net = &self.net;
        Vocabulary {
            newline: self.newline,
            text: net.text,
            text_vocab: net.config.text_vocab,
            codec: net.config.codec,
            frame: FrameCodes {
                groups: net.predictor.groups,
                first: net.config.vocab - CONTROL_CODES,
                others: net.predictor.codes,
            },
        }
    }

    fn batch(&self, steps: &[SeqStep<'_>]) -> Result<Batch, ModelError> {
        let mut batch = paged::batch(&self.spec);
        for step in steps {
            paged::push(&mut batch, &self.spec, step, |p| [paged::offset(p); 3])?;
        }
        Ok(batch)
    }

    /// Slots of the frames that a step continues, if it continues only the last ones.
    fn frame_slots_of(&self, steps: &[SeqStep<'_>]) -> Result<Option<Vec<u32>>, ModelError> {
        let slot = |step: &SeqStep<'_>| {
            let sequence = find(&self.sequences, step.seq)?;
            let last = sequence.frame_slot_at(step.start as usize);
            Ok(last.filter(|_| step.len == 1))
        };
        steps.iter().map(slot).collect()
    }

    /// A decode-only step over the frames in `slots`, in `rows` rows with room for `keys` keys: such steps repeat.
    fn decode(
        &mut self,
        steps: &[SeqStep<'_>],
        mut batch: Batch,
        mut slots: Vec<u32>,
        rows: usize,
        keys: usize,
    ) -> Result<Computed<B>, ModelError> {
        let text = |step: &SeqStep<'_>| {
            let text = find(&self.sequences, step.seq)?.text_at(step.start as usize);
            text.map_err(|e| ModelError::Compute(format!("sequence {}: {e}", step.seq.0)))
        };
        let mut texts = steps.iter().map(text).collect::<Result<Vec<u32>, _>>()?;
        paged::fill(&mut batch, rows);
        texts.resize(rows, self.net.text.tts_pad);
        slots.resize(rows, PADDING_SLOT);
        batch.make_room(keys);
        let key = StepKey {
            stage: "talker",
            rows,
            also: keys,
            ends: 0,
        };
        let net = &self.net;
        let kv = &mut self.kv;
        let kept = &mut self.kept;
        let frames = &self.frame_slots.frames;
        let computed = self.b.step(key, |b| {
            let x = net.embed_frames(b, texts, frames, &slots)?;
            let x = net.stack.forward(b, x, &batch, kv)?;
            net.finish(b, &x, kept)
        })?;
        Ok(Computed::of(steps, computed))
    }

    /// Any step: prompts and pieces of them beside frames.
    fn mixed(&mut self, steps: &[SeqStep<'_>], batch: Batch) -> Result<Computed<B>, ModelError> {
        let inputs = inputs(&self.sequences, steps)?;
        if self.b.rounds_up()
            && let Some(plain) = prompts::plain(&inputs, self.net.predictor.groups)
        {
            let size = self.prompt_size(steps.len(), &batch);
            return Ok(Computed::of(steps, self.prompts(plain, batch, size)?));
        }
        let net = &self.net;
        let kv = &mut self.kv;
        let kept = &mut self.kept;
        let batch = &batch;
        let computed = self.b.step_once("talker", |b| {
            let x = net.stack.forward(b, net.embed(b, &inputs)?, batch, kv)?;
            let last = b.gather(&x, &batch.last_rows())?;
            net.finish(b, &last, kept)
        })?;
        Ok(Computed::of(steps, computed))
    }
}

/// Inputs of the positions to be computed.
fn inputs<'a>(
    sequences: &'a HashMap<SeqId, Sequence>,
    steps: &[SeqStep<'_>],
) -> Result<Vec<Input<'a>>, ModelError> {
    let mut inputs = Vec::new();
    for step in steps {
        let sequence = find(sequences, step.seq)?;
        for p in paged::positions(step) {
            let input = sequence.input(p);
            inputs.push(input.map_err(|e| ModelError::Compute(format!("sequence {}: {e}", step.seq.0)))?);
        }
    }
    Ok(inputs)
}

impl<B: Backend> Sequences for Core<B> {
    type Request = TalkerRequest;
    type Row = u32;

    fn open(&mut self, seq: SeqId, mut request: TalkerRequest) -> Result<u32, ModelError> {
        check_new(&self.sequences, seq)?;
        let ids = self.vocabulary();
        let prompt = self.prompt(&mut request, &ids)?;
        let prior = std::mem::take(&mut request.prior_frames);
        let mut sequence = Sequence::new(request, prompt, ids);
        prior.iter().for_each(|frame| sequence.add_frame(&frame.0));
        let prompt = paged::offset(sequence.prompt_len());
        self.sequences.insert(seq, sequence);
        Ok(prompt)
    }

    fn push(&mut self, seq: SeqId, rows: Vec<u32>, last: bool) {
        if let Some(sequence) = self.sequences.get_mut(&seq) {
            sequence.push(&rows, last);
        }
    }

    fn close(&mut self, seq: SeqId) {
        if let Some(sequence) = self.sequences.remove(&seq)
            && let Some(slot) = sequence.frame_slot()
        {
            self.frame_slots.give_back(slot);
        }
    }
}

impl<B: Backend> StepExecutor for Core<B> {
    type Output = CodecFrame;

    fn execute(&mut self, steps: &[SeqStep<'_>]) -> Result<(), ModelError> {
        self.computed = None;
        if steps.is_empty() {
            return Ok(());
        }
        let batch = self.batch(steps)?;
        self.computed = Some(if let Some(slots) = self.frame_slots_of(steps)? {
            let rows = self.b.bucket(steps.len());
            let keys = self.b.bucket_keys(batch.keys());
            self.decode(steps, batch, slots, rows, keys)?
        } else {
            self.mixed(steps, batch)?
        });
        Ok(())
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<CodecFrame>>, ModelError> {
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        self.ask_for(seqs)?;
        self.wait_sample()
    }

    fn prior_outputs(&self, seq: SeqId) -> Vec<CodecFrame> {
        let sequence = self.sequences.get(&seq);
        sequence.map(Sequence::known_frames).unwrap_or_default()
    }
}

impl<B: Backend> AsyncExecutor for Core<B> {
    fn submit_sample(&mut self, seqs: &[SeqId]) -> Result<bool, ModelError> {
        if !self.b.is_apart() || seqs.is_empty() {
            return Ok(false);
        }
        self.ask_for(seqs)?;
        Ok(true)
    }

    fn wait_sample(&mut self) -> Result<Vec<Sampled<CodecFrame>>, ModelError> {
        self.answer_asked()
    }

    fn can_run_ahead(&self, seqs: &[SeqId]) -> bool {
        // A sequence that has ended has no next frame.
        let going = |asked: &Asked<B>| {
            let mut over = asked.seqs.iter().zip(&asked.over);
            over.all(|(seq, over)| over.is_none() || !seqs.contains(seq))
        };
        self.asked.back().is_some_and(going)
    }
}

impl<B: Backend> KvCache for Core<B> {
    fn kv_spec(&self) -> KvSpec {
        self.spec
    }
}

impl<B: Backend> Warmup for Core<B> {
    fn prepare(&mut self, nth: u32, seqs: u32) -> Result<bool, ModelError> {
        self.prepare_piece(nth as usize, seqs as usize)
    }
}
