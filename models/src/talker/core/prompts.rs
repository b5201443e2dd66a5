//! Prompts beside frames, as steps that are alike: rows, keys and ends rounded up.

use omni_backend::{Backend, Batch, Result as ComputeResult, StepKey};
use omni_engine::ModelError;

use super::super::sequence::{CodecTrack, Input, NO_CODE, TextTrack};
use super::Core;
use crate::paged;

/// Most rows of prompts' ends that are computed for all such steps of a size, however few there are: one piece of a
/// product.
const ENDS: usize = 64;
/// Keys that room is made for: for the first sentence alone, or for all that is prepared. Attention hardly notices
/// empty room, and each number of keys is a graph.
const KEYS: [usize; 2] = [128, 1024];

/// Rows of text tokens and codes, nothing else.
#[derive(Default)]
pub(super) struct Plain {
    texts: Vec<u32>,
    /// `[texts, groups]`.
    codes: Vec<u32>,
}

/// The sizes of a step, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) keys: usize,
    pub(super) ends: usize,
}

/// The inputs, if they are such rows.
pub(super) fn plain(inputs: &[Input<'_>], groups: usize) -> Option<Plain> {
    let mut plain = Plain {
        texts: Vec::with_capacity(inputs.len()),
        codes: Vec::with_capacity(inputs.len() * groups),
    };
    for input in inputs {
        let (TextTrack::Token(id), false) = (input.text, matches!(input.codec, CodecTrack::Vector(_))) else {
            return None;
        };
        plain.texts.push(id);
        input.codec.append_codes(&mut plain.codes, groups);
    }
    Some(plain)
}

/// Bucket of keys with room for `keys`.
fn room(keys: usize, bucket: impl Fn(usize) -> usize) -> usize {
    let known = KEYS.into_iter().find(|&room| keys <= room);
    known.unwrap_or_else(|| bucket(keys))
}

/// Rows whose logits are computed, for `sequences` sequences.
fn ends(rows: usize, sequences: usize) -> usize {
    sequences.max(rows.min(ENDS))
}

impl<B: Backend> Core<B> {
    /// Size of a step with `sequences` sequences.
    pub(super) fn prompt_size(&self, sequences: usize, batch: &Batch) -> Size {
        let rows = self.b.bucket(batch.rows());
        Size {
            rows,
            keys: room(batch.keys(), |keys| self.b.bucket_keys(keys)),
            ends: ends(rows, self.b.bucket(sequences)),
        }
    }

    /// The sizes that are prepared for up to `sequences`: all of them at once, and a prompt of [`ENDS`] positions.
    pub(super) fn prompt_sizes(&self, sequences: usize) -> Vec<Size> {
        let b = &self.b;
        let keys = KEYS.map(|keys| keys.min(room(self.spec.max_len as usize, |keys| b.bucket_keys(keys))));
        let mut sizes = Vec::new();
        for rows in b.buckets(sequences + ENDS) {
            for counted in b.buckets(sequences.min(rows)) {
                for keys in keys {
                    let size = Size {
                        rows,
                        keys,
                        ends: ends(rows, counted),
                    };
                    if !sizes.contains(&size) {
                        sizes.push(size);
                    }
                }
            }
        }
        sizes
    }

    /// A step of prompts beside frames: hidden states and logits of every sequence's last row.
    pub(super) fn prompts(
        &mut self,
        Plain { mut texts, mut codes }: Plain,
        mut batch: Batch,
        size: Size,
    ) -> Result<(B::Rows, B::Rows), ModelError> {
        let Size { rows, keys, ends } = size;
        let mut last = batch.last_rows();
        last.resize(ends, 0);
        paged::fill(&mut batch, rows);
        batch.make_room_with_prompts(keys, ends);
        texts.resize(rows, self.net.text.tts_pad);
        codes.resize(rows * self.net.predictor.groups, NO_CODE);
        let key = StepKey {
            stage: "talker",
            rows,
            also: keys,
            ends,
        };
        let net = &self.net;
        let kv = &mut self.kv;
        let kept = &mut self.kept;
        let computed: ComputeResult<_> = self.b.step(key, |b| {
            let x = net.embed_codes(b, texts, codes)?;
            let x = net.stack.forward(b, x, &batch, kv)?;
            net.finish(b, &b.gather(&x, &last)?, kept)
        });
        Ok(computed?)
    }
}
