//! The thinker over one backend: sequences, the paged cache, one step in two halves (compute, sample).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use omni_backend::sampling::{Draw, Said, Tally, TextChoice, TextSampling};
use omni_backend::{Backend, Batch, StepKey, TextChosen};
use omni_engine::{
    AsyncExecutor, ContentKey, KvCache, KvSpec, ModelError, Sampled, SeqId, SeqStep, Sequences, StepExecutor,
    Warmup,
};

use crate::computed::{Computed, Kept, check_new, find, nothing_computed};
use crate::nn::Tap;
use crate::paged;
use crate::talker::KvOptions;

use super::net::ThinkerNet;
use super::sequence::{Input, Sequence};
use super::{Inspect, PromptPiece, ThinkerRequest, ThinkerToken};

/// A hidden row that a step computes for a sequence's export.
struct Export {
    seq: SeqId,
    nth: u32,
}

/// Keys that steps are prepared for, most. A longer conversation's sizes are new when it comes to them.
const PREPARED_KEYS: usize = 4096;

pub(crate) struct Core<B: Backend> {
    b: B,
    net: Arc<ThinkerNet<B>>,
    spec: KvSpec,
    kv: Vec<B::Kv>,
    /// Memory of `computed`.
    kept: Kept<B>,
    sequences: HashMap<SeqId, Sequence>,
    computed: Option<Computed<B>>,
}

impl<B: Backend> Core<B> {
    pub(crate) fn new(b: B, net: Arc<ThinkerNet<B>>, kv: KvOptions) -> Result<Self, ModelError> {
        let (spec, slots) = paged::spec(kv, net.config.max_positions)?;
        Ok(Self {
            kv: net.stack.kv(&b, slots)?,
            spec,
            b,
            net,
            kept: Kept::default(),
            sequences: HashMap::new(),
            computed: None,
        })
    }

    fn check(&self, request: &ThinkerRequest) -> Result<(), ModelError> {
        let rejected = |reason: String| Err(ModelError::Rejected(reason));
        if let Err(e) = request.sampling.validate() {
            return rejected(format!("sampling: {e}"));
        }
        let vocab = self.net.config.vocab;
        let hidden = self.net.config.stack.hidden;
        let mut positions = 0;
        for (i, piece) in request.prompt.iter().enumerate() {
            match piece {
                PromptPiece::Token(id) if *id as usize >= vocab => {
                    return rejected(format!(
                        "piece {i} of the prompt is token {id}, expected below {vocab}"
                    ));
                }
                PromptPiece::Token(_) => positions += 1,
                PromptPiece::Audio(rows) => {
                    if rows.is_empty() || !rows.len().is_multiple_of(hidden) {
                        let found = rows.len();
                        return rejected(format!(
                            "piece {i} of the prompt is audio of {found} numbers, expected rows of {hidden}"
                        ));
                    }
                    if rows.iter().any(|v| !v.is_finite()) {
                        return rejected(format!(
                            "piece {i} of the prompt is audio with numbers that are infinite or none"
                        ));
                    }
                    positions += rows.len() / hidden;
                }
            }
        }
        if positions == 0 {
            return rejected("the prompt is empty".into());
        }
        if positions >= self.spec.max_len as usize {
            return rejected(format!(
                "the prompt has {positions} positions, at most {} fit",
                self.spec.max_len - 1
            ));
        }
        match &request.axes {
            Some(axes) if axes.len() != positions => rejected(format!(
                "{} positions have places on the axes, but the prompt has {positions}",
                axes.len()
            )),
            Some(axes)
                if axes
                    .iter()
                    .flatten()
                    .any(|&a| a as usize >= self.net.config.max_positions) =>
            {
                let most = self.net.config.max_positions;
                rejected(format!("a place on an axis is {most} or beyond"))
            }
            _ => Ok(()),
        }
    }

    fn batch(&self, steps: &[SeqStep<'_>]) -> Result<Batch, ModelError> {
        let mut batch = paged::batch(&self.spec);
        for step in steps {
            let sequence = find(&self.sequences, step.seq)?;
            paged::push(&mut batch, &self.spec, step, |p| sequence.axes(p))?;
        }
        Ok(batch)
    }

    /// A decode-only step in `rows` rows with room for `keys` keys: hidden rows and logits.
    fn decode(
        &mut self,
        steps: &[SeqStep<'_>],
        mut batch: Batch,
        rows: usize,
        keys: usize,
    ) -> Result<(B::Rows, B::Rows), ModelError> {
        paged::fill(&mut batch, rows);
        batch.make_room(keys);
        let mut inputs = inputs(&self.sequences, steps)?;
        inputs.resize(rows, Input::Token(0));
        let key = StepKey {
            stage: "thinker",
            rows,
            also: keys,
            ends: 0,
        };
        let net = &self.net;
        let kv = &mut self.kv;
        let kept = &mut self.kept;
        let computed = self.b.step(key, |b| {
            let x = net.stack.forward(b, net.embed(b, &inputs)?, &batch, kv)?;
            net.finish(b, &x, kept)
        })?;
        Ok(computed)
    }

    /// Any step: prompts and pieces of them beside tokens.
    fn mixed(&mut self, steps: &[SeqStep<'_>], batch: &Batch) -> Result<(B::Rows, B::Rows), ModelError> {
        let inputs = inputs(&self.sequences, steps)?;
        let (rows, exports) = self.exports(steps);
        let net = &self.net;
        let kv = &mut self.kv;
        let kept = &mut self.kept;
        let tap = Tap {
            layer: net.config.accept_layer,
            rows: &rows,
        };
        let (computed, tapped) = self.b.step_once("thinker", |b| {
            let x = net.embed(b, &inputs)?;
            let (x, tapped) = net.stack.forward_tapped(b, x, batch, kv, &tap)?;
            let last = b.gather(&x, &batch.last_rows())?;
            Ok((net.finish(b, &last, kept)?, tapped))
        })?;
        let tapped = tapped.map_or_else(|| Ok(Vec::new()), |rows| self.b.host(&rows))?;
        for (export, row) in exports.iter().zip(tapped.chunks_exact(net.config.stack.hidden)) {
            if let Some(sequence) = self.sequences.get_mut(&export.seq) {
                sequence.keep(export.nth, row);
            }
        }
        Ok(computed)
    }

    /// The rows of the batch whose hidden states are to be exported, and their sequences.
    fn exports(&self, steps: &[SeqStep<'_>]) -> (Vec<u32>, Vec<Export>) {
        let mut rows = Vec::new();
        let mut exports = Vec::new();
        let mut first = 0;
        for step in steps {
            let sequence = self.sequences.get(&step.seq);
            for (row, p) in (first..).zip(paged::positions(step)) {
                if let Some(nth) = sequence.and_then(|s| s.missing_export(p)) {
                    rows.push(row);
                    exports.push(Export { seq: step.seq, nth });
                }
            }
            first += step.len;
        }
        (rows, exports)
    }

    /// Chooses the next token of every sequence.
    fn choose(&self, seqs: &[SeqId], computed: &Computed<B>) -> Result<Vec<TextChosen>, ModelError> {
        let mut rows = Vec::new();
        let mut choices = Vec::new();
        for seq in seqs {
            rows.push(computed.row(*seq)?);
            choices.push(find(&self.sequences, *seq)?.choice());
        }
        let vocab = self.net.config.vocab;
        Ok(self.b.choose_text(&computed.logits, vocab, &rows, &choices)?)
    }

    /// Result of a chosen token.
    fn sampled(&self, seq: SeqId, chosen: TextChosen) -> Result<Sampled<ThinkerToken>, ModelError> {
        let sequence = find(&self.sequences, seq)?;
        if sequence.over() {
            return Ok(Sampled::End);
        }
        let chosen = match chosen {
            Ok(chosen) => chosen,
            Err(e) => return Ok(Sampled::Failed(format!("thinker: {e}"))),
        };
        if sequence.request().stop.contains(&chosen.token) {
            return Ok(Sampled::End);
        }
        Ok(match sequence.export() {
            Ok(hidden) => Sampled::Item(ThinkerToken {
                token: chosen.token,
                logprob: chosen.logprob,
                hidden,
            }),
            Err(reason) => Sampled::Failed(format!("thinker: {reason}")),
        })
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
            let input = sequence.input(p).ok_or_else(|| {
                ModelError::Compute(format!(
                    "sequence {}: position {p} needs a token that has not been sampled",
                    step.seq.0
                ))
            })?;
            inputs.push(input);
        }
    }
    Ok(inputs)
}

impl<B: Backend> Sequences for Core<B> {
    type Request = ThinkerRequest;
    type Row = ();

    fn open(&mut self, seq: SeqId, request: ThinkerRequest) -> Result<u32, ModelError> {
        check_new(&self.sequences, seq)?;
        self.check(&request)?;
        let sequence = Sequence::new(request, self.net.config.stack.hidden);
        let prompt = u32::try_from(sequence.prompt_len()).unwrap_or(u32::MAX);
        self.sequences.insert(seq, sequence);
        Ok(prompt)
    }

    fn push(&mut self, _: SeqId, _: Vec<()>, _: bool) {}

    fn close(&mut self, seq: SeqId) {
        self.sequences.remove(&seq);
    }
}

impl<B: Backend> StepExecutor for Core<B> {
    type Output = ThinkerToken;

    fn execute(&mut self, steps: &[SeqStep<'_>]) -> Result<(), ModelError> {
        self.computed = None;
        if steps.is_empty() {
            return Ok(());
        }
        let batch = self.batch(steps)?;
        let mut known = steps.iter().map(|step| {
            let sequence = find(&self.sequences, step.seq)?;
            Ok::<_, ModelError>(step.len == 1 && step.start as usize >= sequence.prompt_len())
        });
        let decode = known.try_fold(true, |all, one| Ok::<_, ModelError>(one? && all))?;
        let computed = if decode {
            let rows = self.b.bucket(steps.len());
            let keys = self.b.bucket_keys(batch.keys());
            self.decode(steps, batch, rows, keys)?
        } else {
            self.mixed(steps, &batch)?
        };
        self.computed = Some(Computed::of(steps, computed));
        Ok(())
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<ThinkerToken>>, ModelError> {
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        let computed = self.computed.as_ref().ok_or_else(nothing_computed)?;
        let chosen = self.choose(seqs, computed)?;
        let sampled = seqs.iter().zip(chosen);
        let sampled = sampled.map(|(&seq, chosen)| self.sampled(seq, chosen));
        let sampled = sampled.collect::<Result<Vec<_>, _>>()?;
        for (seq, sampled) in seqs.iter().zip(&sampled) {
            if let (Sampled::Item(item), Some(sequence)) = (sampled, self.sequences.get_mut(seq)) {
                sequence.add(item.token);
            }
        }
        Ok(sampled)
    }

    fn token(&self, output: &ThinkerToken) -> Option<u32> {
        Some(output.token)
    }
}

impl<B: Backend> AsyncExecutor for Core<B> {}

impl<B: Backend> KvCache for Core<B> {
    fn kv_spec(&self) -> KvSpec {
        self.spec
    }

    fn content_keys(&self, seq: SeqId, positions: Range<u32>) -> Option<Vec<ContentKey>> {
        self.sequences.get(&seq)?.content_keys(positions)
    }
}

impl<B: Backend> Warmup for Core<B> {
    fn prepare(&mut self, nth: u32, seqs: u32) -> Result<bool, ModelError> {
        let b = &self.b;
        let keys = b.buckets_of_keys(PREPARED_KEYS.min(self.spec.max_len as usize));
        // The largest come first, so that memory grows once.
        let sizes = b.buckets(seqs as usize);
        let mut pieces = sizes
            .iter()
            .flat_map(|&rows| keys.iter().map(move |&keys| (rows, keys)));
        let Some((rows, keys)) = pieces.nth(nth as usize) else {
            return Ok(false);
        };
        self.computed = None;
        let (_, logits) = self.decode(&[], paged::batch(&self.spec), rows, keys)?;
        let sampling = TextSampling::default();
        let tally = Tally::default();
        let padding = TextChoice {
            sampling: &sampling,
            said: Said {
                tally: &tally,
                ends: &[],
            },
            place: Draw {
                seed: 0,
                step: 0,
                group: 0,
            },
            logprob: false,
        };
        let vocab = self.net.config.vocab;
        let paddings = vec![padding; rows];
        self.b.choose_text(&logits, vocab, &vec![0; rows], &paddings)?;
        Ok(true)
    }
}

impl<B: Backend> Inspect for Core<B> {
    fn logits(&self, seq: SeqId) -> Option<Vec<f32>> {
        self.computed.as_ref()?.logits_of(&self.b, seq)
    }

    fn hidden(&self, seq: SeqId) -> Option<Vec<f32>> {
        self.computed.as_ref()?.hidden_of(&self.b, seq)
    }
}
