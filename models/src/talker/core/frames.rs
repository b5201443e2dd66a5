//! From a step's hidden states to frames: asked for, and answered.

use omni_backend::sampling::{Choice, Limits, chosen};
use omni_backend::{Backend, StepKey};
use omni_engine::{CodecFrame, ModelError, Sampled, SeqId};

use super::super::net::TalkerNet;
use super::super::predictor::Beginning;
use super::super::sequence::Sequence;
use super::frame_slots::PADDING_SLOT;
use super::{Core, PADDING};
use crate::computed::{Computed, find, nothing_computed};
use crate::config::CONTROL_CODES;

/// Frames in flight.
pub(super) struct Asked<B: Backend> {
    pub(super) seqs: Vec<SeqId>,
    /// Per sequence: its result, if no frame had to be computed for it.
    pub(super) over: Vec<Option<Sampled<CodecFrame>>>,
    /// Frames of the other sequences.
    frames: Option<Frames<B>>,
}

/// Frames on their way.
pub(super) struct Frames<B: Backend> {
    /// First codes of all, where they were known before the others.
    first: Vec<u32>,
    /// Sequences whose frames have further codes.
    live: Vec<usize>,
    /// All codes of those.
    pub(super) codes: B::PendingIds,
}

impl<B: Backend> Core<B> {
    /// Reason why no frame of a sequence is to be computed, if there is one.
    fn over(&self, seq: SeqId, computed: &Computed<B>) -> Result<Option<Sampled<CodecFrame>>, ModelError> {
        let sequence = find(&self.sequences, seq)?;
        computed.row(seq)?;
        if let Some(reason) = sequence.broken() {
            return Ok(Some(Sampled::Failed(reason.to_owned())));
        }
        let most = sequence.request().max_frames;
        Ok((sequence.frames() >= most).then_some(Sampled::End))
    }

    /// Asks for the next frame of every sequence; of one whose first code ends the speech or failed, perhaps only for
    /// that. Computed in `n` rows, which are filled up with `padding`.
    pub(super) fn frames(
        &mut self,
        seqs: &[SeqId],
        computed: &Computed<B>,
        n: usize,
        padding: Choice<'_>,
    ) -> Result<Frames<B>, ModelError> {
        self.assign_slots(seqs)?;
        let net = &self.net;
        let groups = self.net.predictor.groups;
        let sequences = seqs
            .iter()
            .map(|seq| find(&self.sequences, *seq))
            .collect::<Result<Vec<_>, _>>()?;
        let end = net.config.codec.eos;
        let (mut firsts, mut others): (Vec<_>, Vec<_>) = sequences.iter().map(|s| choices(s, net)).unzip();
        let rows = seqs.iter().map(|seq| computed.row(*seq));
        let mut rows = rows.collect::<Result<Vec<u32>, _>>()?;
        let mut slots: Vec<u32> = sequences
            .iter()
            .map(|s| s.frame_slot().unwrap_or(PADDING_SLOT))
            .collect();
        firsts.resize(n, padding);
        others.resize(n, PADDING);
        rows.resize(n, rows.first().copied().unwrap_or(0));
        slots.resize(n, PADDING_SLOT);
        let kv = &mut self.predictor_kv;
        kv.reserve(&self.b, n, groups)?;
        let kept = &mut self.frame_slots.frames;
        let counted = firsts.iter().filter_map(Choice::counted).map(<[u32]>::len).max();
        let key = StepKey {
            stage: "frame",
            rows: n,
            also: counted.map_or(0, |n| self.b.bucket_keys(n)),
            ends: 0,
        };
        let (first, live, frames) = self.b.step(key, |b| {
            let mut frames = b.ids(groups, vec![0; n * groups])?;
            b.sample_of(&computed.logits, &rows, &firsts, Some(kept), &mut frames, 0)?;
            let mut first = Vec::new();
            let mut live: Vec<usize> = (0..seqs.len()).collect();
            // Sequences that are known to have ended need no frame.
            if let Some(known) = b.known(&frames) {
                first = known.chunks(groups).map(|codes| codes[0]).collect();
                live.retain(|&i| chosen(first[i]).is_ok_and(|code| code != end));
                if live.len() < n {
                    let codes = live.iter().flat_map(|&i| &known[i * groups..(i + 1) * groups]);
                    frames = b.ids(groups, codes.copied().collect())?;
                    rows = live.iter().map(|&i| rows[i]).collect();
                    others = live.iter().map(|&i| others[i]).collect();
                    slots = live.iter().map(|&i| slots[i]).collect();
                }
            }
            if !rows.is_empty() {
                let from = Beginning {
                    hidden: &computed.hidden,
                    rows: &rows,
                    first: &net.codec_embedding,
                };
                net.predictor.predict(b, &from, &others, kv, &mut frames)?;
                b.put_ids(kept, &slots, &frames)?;
            }
            Ok((first, live, frames))
        })?;
        let codes = self.b.download_ids(&frames)?;
        Ok(Frames { first, live, codes })
    }

    /// Gives every sequence that has none a place for its frames.
    fn assign_slots(&mut self, seqs: &[SeqId]) -> Result<(), ModelError> {
        for seq in seqs {
            if let Some(sequence) = self.sequences.get_mut(seq)
                && sequence.frame_slot().is_none()
            {
                sequence.set_frame_slot(self.frame_slots.take(&self.b)?);
            }
        }
        Ok(())
    }

    /// Asks for what `seqs` give.
    pub(super) fn ask_for(&mut self, seqs: &[SeqId]) -> Result<(), ModelError> {
        let computed = self.computed.take().ok_or_else(nothing_computed)?;
        let over = seqs.iter().map(|&seq| self.over(seq, &computed));
        let over = over.collect::<Result<Vec<_>, _>>()?;
        let going = seqs.iter().zip(&over).filter(|(_, over)| over.is_none());
        let going: Vec<SeqId> = going.map(|(&seq, _)| seq).collect();
        let mut frames = None;
        if !going.is_empty() {
            frames = Some(self.frames(&going, &computed, self.b.bucket(going.len()), PADDING)?);
        }
        for seq in &going {
            if let Some(sequence) = self.sequences.get_mut(seq) {
                sequence.ask();
            }
        }
        self.computed = Some(computed);
        let seqs = seqs.to_vec();
        self.asked.push_back(Asked { seqs, over, frames });
        Ok(())
    }

    /// The codes of every frame, when they are there.
    fn codes(&self, frames: Frames<B>, count: usize) -> Result<Vec<Vec<u32>>, ModelError> {
        let codes = self.b.wait_ids(frames.codes)?;
        let mut all: Vec<Vec<u32>> = frames.first.into_iter().map(|code| vec![code]).collect();
        all.resize(count, Vec::new());
        for (i, codes) in frames
            .live
            .into_iter()
            .zip(codes.chunks(self.net.predictor.groups))
        {
            all[i] = codes.to_vec();
        }
        Ok(all)
    }

    /// Result of a frame's codes.
    fn sampled(&self, codes: Vec<u32>) -> Sampled<CodecFrame> {
        for (group, &code) in codes.iter().enumerate() {
            match chosen(code) {
                Ok(code) if group == 0 && code == self.net.config.codec.eos => return Sampled::End,
                Ok(_) => {}
                Err(e) if group == 0 => return Sampled::Failed(format!("talker: {e}")),
                Err(e) => return Sampled::Failed(format!("code predictor, group {group}: {e}")),
            }
        }
        Sampled::Item(CodecFrame(codes.into()))
    }

    /// Waits for the oldest frames in flight.
    pub(super) fn answer_asked(&mut self) -> Result<Vec<Sampled<CodecFrame>>, ModelError> {
        let Some(Asked { seqs, over, frames }) = self.asked.pop_front() else {
            return Err(ModelError::Compute("no frames were asked for".into()));
        };
        let count = over.iter().filter(|over| over.is_none()).count();
        let frames = frames.map_or_else(|| Ok(Vec::new()), |frames| self.codes(frames, count))?;
        let mut frames = frames.into_iter();
        let mut results = Vec::with_capacity(seqs.len());
        for (seq, over) in seqs.into_iter().zip(over) {
            let came = over.is_none();
            let sampled = match over {
                Some(over) => over,
                None => self.sampled(frames.next().unwrap_or_default()),
            };
            if let Some(sequence) = self.sequences.get_mut(&seq).filter(|_| came) {
                sequence.answered();
                if let Sampled::Item(frame) = &sampled {
                    sequence.add_frame(&frame.0);
                }
            }
            results.push(sampled);
        }
        Ok(results)
    }
}

/// Choices of a sequence's next frame: its first code, and the others.
fn choices<'a, B: Backend>(sequence: &'a Sequence, net: &TalkerNet<B>) -> (Choice<'a>, Choice<'a>) {
    let request = sequence.request();
    let first = Choice {
        sampling: &request.talker,
        limits: Limits {
            generated: sequence.first_codes(),
            suppress_from: Some(net.config.vocab - CONTROL_CODES),
            end: Some(net.config.codec.eos),
        },
        seed: request.seed,
        step: sequence.frames(),
        said: sequence.said(),
    };
    let others = Choice {
        sampling: &request.predictor,
        limits: Limits::default(),
        said: None,
        ..first
    };
    (first, others)
}
