//! The code predictor: from the talker's hidden state and a frame's first code to the frame's other codes.
//!
//! A short sequence per frame with a cache of its own: the hidden state, the first code, then each sampled code; every
//! group has its own embedding and its own head. All sequences of a batch advance together, one group at a time.

use omni_backend::sampling::Choice;
use omni_backend::{Backend, Batch, Params, Result};

use crate::checkpoint::LoadError;
use crate::config::PredictorConfig;
use crate::loader::Loader;
use crate::nn::Stack;

pub(super) struct Predictor<P: Params> {
    pub(super) groups: usize,
    /// Codes of a group but the first.
    pub(super) codes: usize,
    /// Tables of groups 1, 2, ..., as wide as the talker.
    embeddings: Vec<P::Table>,
    heads: Vec<P::Matrix>,
    /// Projection from the talker's width, if the stack's differs.
    projection: Option<P::Matrix>,
    /// Width of the talker.
    width: usize,
    stack: Stack<P>,
}

impl<P: Params> Predictor<P> {
    pub(super) fn load(
        l: &Loader<'_, P>,
        c: &PredictorConfig,
        talker_hidden: usize,
    ) -> std::result::Result<Self, LoadError> {
        const NAME: &str = "talker.code_predictor";
        let residual = 0..c.groups - 1;
        let table = |g| {
            l.table(
                &format!("{NAME}.model.codec_embedding.{g}.weight"),
                c.vocab,
                talker_hidden,
            )
        };
        let projected = c.stack.hidden != talker_hidden;
        let projection = || {
            let name = format!("{NAME}.small_to_mtp_projection");
            l.linear(&name, c.stack.hidden, talker_hidden, true)
        };
        let head = |g| l.head(&format!("{NAME}.lm_head.{g}"), c.vocab, c.stack.hidden);
        Ok(Self {
            groups: c.groups,
            codes: c.vocab,
            projection: projected.then(projection).transpose()?,
            width: talker_hidden,
            embeddings: residual
                .clone()
                .map(table)
                .collect::<std::result::Result<_, _>>()?,
            heads: residual.map(head).collect::<std::result::Result<_, _>>()?,
            stack: Stack::load(l, &format!("{NAME}.model"), &c.stack)?,
        })
    }
}

/// The predictor's cache, good for a number of sequences; its content lives for one frame.
pub(super) struct PredictorKv<B: Backend> {
    kv: Vec<B::Kv>,
    sequences: usize,
}

impl<B: Backend> PredictorKv<B> {
    pub(super) fn new(b: &B, predictor: &Predictor<B>) -> Result<Self> {
        Ok(Self {
            kv: predictor.stack.kv(b, 0)?,
            sequences: 0,
        })
    }

    /// Makes room for `sequences` sequences.
    pub(super) fn reserve(&mut self, b: &B, sequences: usize, groups: usize) -> Result<()> {
        if sequences > self.sequences {
            self.kv
                .iter_mut()
                .try_for_each(|kv| b.grow(kv, sequences * groups))?;
            self.sequences = sequences;
        }
        Ok(())
    }
}

/// Inputs with which frames begin.
pub(super) struct Beginning<'a, B: Backend> {
    /// `[any number, hidden]`, of the talker.
    pub(super) hidden: &'a B::Rows,
    /// Index of every sequence's row among those.
    pub(super) rows: &'a [u32],
    /// Embeddings of first codes.
    pub(super) first: &'a B::Table,
}

impl<B: Backend> Predictor<B> {
    /// The embeddings of groups 1, 2, ...
    pub(super) fn embeddings(&self) -> &[B::Table] {
        &self.embeddings
    }

    /// Completes one frame per sequence, whose first codes are in `frames [n, groups]` and where the others are put,
    /// one of `choices` per sequence.
    pub(super) fn predict(
        &self,
        b: &B,
        from: &Beginning<'_, B>,
        choices: &[Choice<'_>],
        kv: &mut PredictorKv<B>,
        frames: &mut B::Ids,
    ) -> Result<()> {
        let mut x = b.pair_with_lookup(self.width, from.hidden, from.rows, from.first, frames)?;
        for group in 1..self.groups {
            let logits = self.pass(b, x, group, choices.len(), kv)?;
            if group + 1 == self.groups {
                return b.sample(&logits, choices, None, frames, group);
            }
            x = b.sample_and_lookup(&logits, choices, frames, group, &self.embeddings[group - 1])?;
        }
        Ok(())
    }

    /// The logits `[1, codes of that group]` of the code that follows `codes` in a frame of one sequence; there is at
    /// least one of them, and not all.
    pub(super) fn logits(
        &self,
        b: &B,
        from: &Beginning<'_, B>,
        codes: &[u32],
        kv: &mut PredictorKv<B>,
    ) -> Result<B::Rows> {
        let mut frame = codes.to_vec();
        frame.resize(self.groups, 0);
        let frame = b.ids(self.groups, frame)?;
        let mut x = b.pair_with_lookup(self.width, from.hidden, from.rows, from.first, &frame)?;
        for group in 1..codes.len() {
            self.pass(b, x, group, 1, kv)?;
            x = b.lookup(&self.embeddings[group - 1], &frame, group)?;
        }
        self.pass(b, x, codes.len(), 1, kv)
    }

    /// The logits `[n, codes of that group]` of one group of `n` sequences, from the rows that stand in front of it.
    fn pass(&self, b: &B, x: B::Rows, group: usize, n: usize, kv: &mut PredictorKv<B>) -> Result<B::Rows> {
        let (start, len) = if group == 1 { (0, 2) } else { (group, 1) };
        let mut batch = Batch::default();
        for i in 0..n {
            batch.push(start, len, 0, |p| slot(i * self.groups + p));
        }
        let x = match &self.projection {
            Some(projection) => b.linear(projection, &x)?,
            None => x,
        };
        let mut h = self.stack.forward(b, x, &batch, &mut kv.kv)?;
        if len > 1 {
            // Rows of one sequence are neighbours: hidden state, then first code.
            let odd: Vec<u32> = (0..slot(n)).map(|i| 2 * i + 1).collect();
            h = b.gather(&h, &odd)?;
        }
        self.stack.norm_linear(b, &self.heads[group - 1], &h)
    }
}

fn slot(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX)
}
