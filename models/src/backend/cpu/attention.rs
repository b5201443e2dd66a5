//! Attention over cached keys and values, one query at a time; every key row is one contiguous read.
#![expect(
    unsafe_code,
    reason = "entering functions compiled for instructions that have been detected"
)]

use crate::backend::{AttentionShape, Batch, Span};

use super::pointwise::{exp, fma, fold, sum};

for_each_isa! {
    /// Normalises (if `norms` are given) and rotates the query and key heads of `qkv [rows, q | k | v]`; `cos` and
    /// `sin` are `[rows, head_dim / 2]`.
    pub(super) fn rotate_heads(
        qkv: &mut [f32], shape: &AttentionShape, norms: Option<(&[f32], &[f32])>, cos: &[f32], sin: &[f32],
    ) = rotate_heads_body;
    /// Attends the queries of one span: `out [len, q]`, `qkv [len, q | k | v]`; `scores` is scratch.
    pub(super) fn attend(
        out: &mut [f32], qkv: &[f32], shape: &AttentionShape, span: &Span, seen: &Seen<'_>, scores: &mut Vec<f32>,
    ) = attend_body;
    /// Attends the queries of one block, `qkv [len, q | k | v]`, over all of `seen`.
    pub(super) fn attend_all(
        out: &mut [f32], qkv: &[f32], shape: &AttentionShape, seen: &Seen<'_>, scores: &mut Vec<f32>,
    ) = attend_all_body;
}

/// The keys and values that queries may see.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    /// Keys, row `r` from `r * stride` on.
    pub(super) k: &'a [f32],
    /// Values, laid out alike.
    pub(super) v: &'a [f32],
    /// From one row to the next.
    pub(super) stride: usize,
    /// Rows of the positions, in order.
    pub(super) slots: &'a [u32],
}

pub(super) fn row_width(shape: &AttentionShape) -> usize {
    shape.q_width() + 2 * shape.kv_width()
}

#[inline(always)]
fn rotate_heads_body<const FUSED: bool>(
    qkv: &mut [f32],
    shape: &AttentionShape,
    norms: Option<(&[f32], &[f32])>,
    cos: &[f32],
    sin: &[f32],
) {
    let (dim, half) = (shape.head_dim, shape.head_dim / 2);
    let rotations = cos.chunks_exact(half).zip(sin.chunks_exact(half));
    for (row, (cos, sin)) in qkv.chunks_exact_mut(row_width(shape)).zip(rotations) {
        let heads = row[..shape.q_width() + shape.kv_width()].chunks_exact_mut(dim);
        for (h, head) in heads.enumerate() {
            if let Some((q_norm, k_norm)) = norms {
                let w = if h < shape.heads { q_norm } else { k_norm };
                let squares = sum::<FUSED>(head, |acc, x| fma::<FUSED>(x, x, acc));
                let scale = 1.0 / (squares / dim as f32 + shape.eps).sqrt();
                for (x, w) in head.iter_mut().zip(w) {
                    *x = w * (*x * scale);
                }
            }
            let (first, second) = head.split_at_mut(half);
            for (((a, b), c), s) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                (*a, *b) = (fma::<FUSED>(*a, *c, -(*b * s)), fma::<FUSED>(*b, *c, *a * s));
            }
        }
    }
}

/// Copies new keys and values to their places in the cache.
pub(super) fn store(qkv: &[f32], shape: &AttentionShape, batch: &Batch, k: &mut [f32], v: &mut [f32]) {
    let (q, width) = (shape.q_width(), shape.kv_width());
    let slots = batch.spans().iter().flat_map(|span| batch.new_slots(span));
    for (row, &slot) in qkv.chunks_exact(row_width(shape)).zip(slots) {
        let at = slot as usize * width;
        k[at..at + width].copy_from_slice(&row[q..q + width]);
        v[at..at + width].copy_from_slice(&row[q + width..]);
    }
}

#[inline(always)]
fn attend_body<const FUSED: bool>(
    out: &mut [f32],
    qkv: &[f32],
    shape: &AttentionShape,
    span: &Span,
    cache: &Seen<'_>,
    scores: &mut Vec<f32>,
) {
    let rows = out
        .chunks_exact_mut(shape.q_width())
        .zip(qkv.chunks_exact(row_width(shape)));
    for (i, (out, row)) in rows.enumerate() {
        let position = span.start + i;
        let first = shape
            .window
            .map_or(0, |w| (position + 1).saturating_sub(w))
            .max(span.first_key);
        let slots = &cache.slots[first - span.first_key..=position - span.first_key];
        attend_row::<FUSED>(out, row, shape, &Seen { slots, ..*cache }, scores);
    }
}

#[inline(always)]
fn attend_all_body<const FUSED: bool>(
    out: &mut [f32],
    qkv: &[f32],
    shape: &AttentionShape,
    seen: &Seen<'_>,
    scores: &mut Vec<f32>,
) {
    let rows = out
        .chunks_exact_mut(shape.q_width())
        .zip(qkv.chunks_exact(row_width(shape)));
    for (out, row) in rows {
        attend_row::<FUSED>(out, row, shape, seen, scores);
    }
}

/// The queries of one row, over all of `seen`.
#[inline(always)]
fn attend_row<const FUSED: bool>(
    out: &mut [f32],
    row: &[f32],
    shape: &AttentionShape,
    seen: &Seen<'_>,
    scores: &mut Vec<f32>,
) {
    let Seen { k, v, stride, slots } = *seen;
    let (dim, group) = (shape.head_dim, shape.heads / shape.kv_heads);
    let scale = 1.0 / (dim as f32).sqrt();
    for h in 0..shape.heads {
        let at = h / group * dim;
        let q = &row[h * dim..(h + 1) * dim];
        // Plain loops: what an iterator's adapters are given may not be compiled for these instructions.
        scores.resize(slots.len(), 0.0);
        for (score, &slot) in scores.iter_mut().zip(slots) {
            let from = slot as usize * stride + at;
            *score = dot::<FUSED>(q, &k[from..from + dim]) * scale;
        }
        let total = exp_all::<FUSED>(scores);
        let out = &mut out[h * dim..(h + 1) * dim];
        for (&slot, &weight) in slots.iter().zip(scores.iter()) {
            let from = slot as usize * stride + at;
            for (out, v) in out.iter_mut().zip(&v[from..from + dim]) {
                *out = fma::<FUSED>(weight, *v, *out);
            }
        }
        let total = 1.0 / total;
        for out in out {
            *out *= total;
        }
    }
}

/// Scores to unnormalised weights; returns their sum.
#[inline(always)]
fn exp_all<const FUSED: bool>(scores: &mut [f32]) -> f32 {
    let mut max = f32::NEG_INFINITY;
    for &s in scores.iter() {
        max = if s > max { s } else { max };
    }
    for s in scores.iter_mut() {
        *s = exp::<FUSED>(*s - max);
    }
    sum::<FUSED>(scores, |acc, s| acc + s)
}

#[inline(always)]
fn dot<const FUSED: bool>(a: &[f32], b: &[f32]) -> f32 {
    let mut acc = [0.0; 16];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (a, b) in a.iter().zip(b) {
        for ((acc, a), b) in acc.iter_mut().zip(a).zip(b) {
            *acc = fma::<FUSED>(*a, *b, *acc);
        }
    }
    for ((acc, a), b) in acc.iter_mut().zip(a_rest).zip(b_rest) {
        *acc = fma::<FUSED>(*a, *b, *acc);
    }
    fold(acc)
}
