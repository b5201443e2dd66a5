//! The talker over one backend: sequences, the paged cache, one step in two halves (compute, sample).

use std::collections::HashMap;
use std::sync::Arc;

use omni_engine::{ArModel, CodecFrame, KvSpec, ModelError, Sampled, SeqId, SeqStep};

use crate::backend::{Backend, Batch};
use crate::config::CONTROL_CODES;
use crate::paged;
use crate::sampling::{Limits, sample};

use super::net::TalkerNet;
use super::predictor::PredictorKv;
use super::sequence::{ASSISTANT_ROWS, Input, Sequence, Vocabulary};
use super::{Inspect, KvOptions, TalkerRequest, UserRow};

/// What the last `execute` left.
struct Computed<B: Backend> {
    row: HashMap<SeqId, u32>,
    /// `[sequences, hidden]`, after the final norm.
    hidden: B::Rows,
    /// `[sequences, vocab]`.
    logits: Vec<f32>,
}

pub(crate) struct Core<B: Backend> {
    b: B,
    net: Arc<TalkerNet<B>>,
    newline: u32,
    spec: KvSpec,
    kv: Vec<B::Kv>,
    predictor_kv: PredictorKv<B>,
    sequences: HashMap<SeqId, Sequence>,
    computed: Option<Computed<B>>,
}

impl<B: Backend> Core<B> {
    /// `newline` is the text token id of a line break.
    pub(crate) fn new(b: B, net: Arc<TalkerNet<B>>, newline: u32, kv: KvOptions) -> Result<Self, ModelError> {
        let (spec, slots) = paged::spec(kv, net.config.max_positions)?;
        Ok(Self {
            kv: net.stack.kv(&b, slots)?,
            predictor_kv: PredictorKv::new(&b, &net.predictor)?,
            spec,
            b,
            net,
            newline,
            sequences: HashMap::new(),
            computed: None,
        })
    }

    fn check(&self, request: &TalkerRequest) -> Result<u32, ModelError> {
        let config = &self.net.config;
        let rejected = |reason: String| Err(ModelError::Rejected(reason));
        let Some(&speaker) = config.speakers.get(&request.speaker.to_lowercase()) else {
            let known: Vec<&str> = config.speakers.keys().map(String::as_str).collect();
            return rejected(format!(
                "unknown voice {:?}, expected one of: {}",
                request.speaker,
                known.join(", ")
            ));
        };
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
                UserRow::Hidden(state) if state.len() != config.thinker_hidden => {
                    let (found, expected) = (state.len(), config.thinker_hidden);
                    return rejected(format!(
                        "row {i} of the user turn has {found} numbers, expected {expected}"
                    ));
                }
                _ => {}
            }
        }
        let prompt = request.user.len() + ASSISTANT_ROWS;
        if prompt >= self.spec.max_len as usize {
            return rejected(format!(
                "the prompt has {prompt} positions, at most {} fit",
                self.spec.max_len - 1
            ));
        }
        Ok(speaker)
    }

    fn inputs(&self, seq: SeqId, start: u32, len: u32) -> Result<Vec<Input<'_>>, ModelError> {
        let sequence = find(&self.sequences, seq)?;
        let positions = start as usize..start as usize + len as usize;
        let inputs = positions
            .map(|p| sequence.input(p))
            .collect::<Result<Vec<_>, _>>();
        inputs.map_err(|e| ModelError::Compute(format!("sequence {}: {e}", seq.0)))
    }

    fn batch(&self, steps: &[SeqStep<'_>]) -> Result<Batch, ModelError> {
        let mut batch = Batch::default();
        for step in steps {
            paged::push(&mut batch, &self.spec, step, |p| [paged::offset(p); 3])?;
        }
        Ok(batch)
    }

    /// The first code of each sequence's next frame.
    fn sample_first(&self, seqs: &[SeqId], computed: &Computed<B>) -> Result<Vec<Sampled<u32>>, ModelError> {
        let vocab = self.net.config.vocab;
        let mut codes = Vec::with_capacity(seqs.len());
        for &seq in seqs {
            let sequence = find(&self.sequences, seq)?;
            let Some(&row) = computed.row.get(&seq) else {
                return Err(ModelError::Compute(format!(
                    "sequence {} was not computed in the last step",
                    seq.0
                )));
            };
            let request = sequence.request();
            if let Some(reason) = sequence.broken() {
                codes.push(Sampled::Failed(reason.to_owned()));
                continue;
            }
            if sequence.first_codes().len() >= request.max_frames as usize {
                codes.push(Sampled::End);
                continue;
            }
            let end = self.net.config.codec.eos;
            let limits = Limits {
                generated: sequence.first_codes(),
                suppress_from: Some(vocab - CONTROL_CODES),
                end: Some(end),
            };
            let at = row as usize * vocab;
            let mut logits = computed.logits[at..at + vocab].to_vec();
            codes.push(
                match sample(&mut logits, &request.talker, limits, sequence.draw(0)) {
                    Ok(code) if code == end => Sampled::End,
                    Ok(code) => Sampled::Item(code),
                    Err(e) => Sampled::Failed(format!("talker: {e}")),
                },
            );
        }
        Ok(codes)
    }

    /// Completes the frames of the sequences in `live`, which begin with the codes there.
    fn predict(
        &mut self,
        live: &[(SeqId, u32)],
        computed: &Computed<B>,
    ) -> Result<Vec<Result<Vec<u32>, String>>, ModelError> {
        let sequences = live
            .iter()
            .map(|(seq, _)| find(&self.sequences, *seq))
            .collect::<Result<Vec<_>, _>>()?;
        let (b, net) = (&self.b, &self.net);
        let rows: Vec<u32> = live.iter().map(|(seq, _)| computed.row[seq]).collect();
        let first: Vec<u32> = live.iter().map(|&(_, code)| code).collect();
        let mut frames: Vec<Result<Vec<u32>, String>> = first.iter().map(|&code| Ok(vec![code])).collect();
        let choose = |group: usize, mut logits: Vec<f32>| {
            let rows = logits
                .chunks_mut(net.predictor.vocab)
                .zip(&sequences)
                .zip(&mut frames);
            rows.map(|((logits, sequence), frame)| {
                let code = sample(
                    logits,
                    &sequence.request().predictor,
                    Limits::default(),
                    sequence.draw(group),
                );
                match (&mut *frame, code) {
                    (Ok(codes), Ok(code)) => codes.push(code),
                    (Ok(_), Err(e)) => *frame = Err(format!("code predictor, group {group}: {e}")),
                    (Err(_), _) => {}
                }
                // A broken sequence goes along with any code until its frame ends.
                code.unwrap_or(0)
            })
            .collect()
        };
        let hidden = b.gather(&computed.hidden, &rows)?;
        let embedded = b.lookup(&net.codec_embedding, &first)?;
        net.predictor
            .predict(b, &hidden, &embedded, live.len(), &mut self.predictor_kv, choose)?;
        Ok(frames)
    }
}

fn find(sequences: &HashMap<SeqId, Sequence>, seq: SeqId) -> Result<&Sequence, ModelError> {
    sequences
        .get(&seq)
        .ok_or_else(|| ModelError::Compute(format!("sequence {} is not open", seq.0)))
}

impl<B: Backend> ArModel for Core<B> {
    type Request = TalkerRequest;
    type Row = u32;
    type Output = CodecFrame;

    fn kv_spec(&self) -> KvSpec {
        self.spec
    }

    fn open(&mut self, seq: SeqId, request: TalkerRequest) -> Result<u32, ModelError> {
        if self.sequences.contains_key(&seq) {
            return Err(ModelError::Rejected(format!(
                "sequence {} is already open",
                seq.0
            )));
        }
        let speaker = self.check(&request)?;
        let net = &self.net;
        let codec = net.config.codec;
        let sequence = Sequence::new(
            request,
            Vocabulary {
                speaker,
                newline: self.newline,
                text: net.text,
                text_vocab: net.config.text_vocab,
                codec,
            },
            net.predictor.groups,
        );
        let prompt = paged::offset(sequence.prompt_len());
        self.sequences.insert(seq, sequence);
        Ok(prompt)
    }

    fn push(&mut self, seq: SeqId, rows: Vec<u32>, last: bool) {
        if let Some(sequence) = self.sequences.get_mut(&seq) {
            sequence.push(&rows, last);
        }
    }

    fn execute(&mut self, steps: &[SeqStep<'_>]) -> Result<(), ModelError> {
        self.computed = None;
        if steps.is_empty() {
            return Ok(());
        }
        let batch = self.batch(steps)?;
        let mut inputs = Vec::new();
        for step in steps {
            inputs.extend(self.inputs(step.seq, step.start, step.len)?);
        }
        let x = self.net.embed(&self.b, &inputs)?;
        let (b, net) = (&self.b, &self.net);
        let x = net.stack.forward(b, x, &batch, &mut self.kv)?;
        let hidden = net.stack.norm(b, &b.gather(&x, &batch.last_rows())?)?;
        let logits = b.host(&net.logits(b, &hidden)?)?;
        let row = steps.iter().map(|s| s.seq).zip(0..).collect();
        self.computed = Some(Computed { row, hidden, logits });
        Ok(())
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<CodecFrame>>, ModelError> {
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        let Some(computed) = self.computed.take() else {
            return Err(ModelError::Compute(
                "nothing has been computed since the last step".into(),
            ));
        };
        let first = self.sample_first(seqs, &computed)?;
        let live: Vec<(SeqId, u32)> = seqs
            .iter()
            .zip(&first)
            .filter_map(|(&seq, s)| {
                if let Sampled::Item(code) = s {
                    Some((seq, *code))
                } else {
                    None
                }
            })
            .collect();
        let frames = if live.is_empty() {
            Vec::new()
        } else {
            self.predict(&live, &computed)?
        };
        self.computed = Some(computed);
        let mut frames = frames.into_iter();
        let mut results = Vec::with_capacity(seqs.len());
        for (&seq, first) in seqs.iter().zip(first) {
            results.push(match first {
                Sampled::End => Sampled::End,
                Sampled::Failed(reason) => Sampled::Failed(reason),
                Sampled::Item(_) => match frames.next() {
                    Some(Ok(codes)) => {
                        if let Some(sequence) = self.sequences.get_mut(&seq) {
                            sequence.add_frame(&codes);
                        }
                        Sampled::Item(CodecFrame(codes.into()))
                    }
                    Some(Err(reason)) => Sampled::Failed(reason),
                    None => Sampled::Failed("code predictor: no frame".into()),
                },
            });
        }
        Ok(results)
    }

    fn close(&mut self, seq: SeqId) {
        self.sequences.remove(&seq);
    }
}

impl<B: Backend> Inspect for Core<B> {
    fn logits(&self, seq: SeqId) -> Option<Vec<f32>> {
        let computed = self.computed.as_ref()?;
        let (row, vocab) = (*computed.row.get(&seq)? as usize, self.net.config.vocab);
        Some(computed.logits[row * vocab..(row + 1) * vocab].to_vec())
    }

    fn hidden(&self, seq: SeqId) -> Option<Vec<f32>> {
        let computed = self.computed.as_ref()?;
        self.b
            .host(
                &self
                    .b
                    .gather(&computed.hidden, &[*computed.row.get(&seq)?])
                    .ok()?,
            )
            .ok()
    }

    fn input_rows(&self, seq: SeqId, start: u32, len: u32) -> Result<Vec<f32>, ModelError> {
        let inputs = self.inputs(seq, start, len)?;
        Ok(self.b.host(&self.net.embed(&self.b, &inputs)?)?)
    }
}
