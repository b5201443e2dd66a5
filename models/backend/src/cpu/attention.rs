//! Attention over cached keys and values, a few queries at a time.
//!
//! Keys are cached in groups of sixteen rows, `[group][kv_width][16]`, so that a step of a score reads one number of
//! each of sixteen keys; values are cached row by row.
#![expect(
    unsafe_code,
    reason = "entering functions compiled for instructions that have been detected"
)]

mod number;
mod tile;

use std::ops::Range;

use crate::{AttentionShape, Batch, Span};

use super::gemm::simd::{self, Widen};
use super::held::Lists;
use super::isa::{Isa, PORTABLE_FMA};
use super::pointwise::{fma, sum};
use super::rows::Rows;
pub(super) use number::Number;
use tile::{Query, Run};

/// Cache rows whose keys lie side by side.
pub(super) const KEY_GROUP: usize = 16;

for_each_isa! {
    /// Normalises (if `norms` are given) and rotates the query and key heads of `qkv [rows, q | k | v]`; `cos` and
    /// `sin` are `[rows, head_dim / 2]`.
    pub(super) fn rotate_heads(
        qkv: &mut [f32], shape: &AttentionShape, norms: Option<(&[f32], &[f32])>, cos: &[f32], sin: &[f32],
    ) = rotate_heads_body;
}

/// The keys and values that queries may see.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a, N> {
    /// Keys, in groups.
    pub(super) k: &'a [N],
    /// Values, row `r` from `r * v_stride` on.
    pub(super) v: &'a [N],
    pub(super) v_stride: usize,
    pub(super) kv_width: usize,
    pub(super) head_dim: usize,
    /// Cache rows of the positions, in order.
    pub(super) slots: &'a [u32],
}

/// Positions that a query sees.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    /// All.
    Any,
    /// Those up to its own, `window` at most.
    Causal {
        /// Position of the first query, counted from the first key.
        start: usize,
        window: usize,
    },
}

/// Memory that goes from call to call.
#[derive(Default)]
pub(super) struct Scratch {
    scores: Vec<f32>,
    runs: Vec<Run>,
}

impl Order {
    pub(super) fn of(span: &Span, shape: &AttentionShape) -> Self {
        Self::Causal {
            start: span.start - span.first_key,
            window: shape.window.unwrap_or(usize::MAX),
        }
    }

    fn sees(self, query: usize, positions: usize) -> Range<usize> {
        match self {
            Self::Any => 0..positions,
            Self::Causal { start, window } => {
                let end = start + query + 1;
                end.saturating_sub(window)..end
            }
        }
    }
}

pub(super) fn row_width(shape: &AttentionShape) -> usize {
    shape.q_width() + 2 * shape.kv_width()
}

/// Elements of the keys of `slots` cache rows.
pub(super) fn keys_size(slots: usize, kv_width: usize) -> usize {
    slots.next_multiple_of(KEY_GROUP) * kv_width
}

#[inline(always)]
fn rotate_heads_body<const FUSED: bool>(
    qkv: &mut [f32],
    shape: &AttentionShape,
    norms: Option<(&[f32], &[f32])>,
    cos: &[f32],
    sin: &[f32],
) {
    let dim = shape.head_dim;
    let half = shape.head_dim / 2;
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

/// Copies new keys and values into the cache.
pub(super) fn store<N: Number>(qkv: &[f32], shape: &AttentionShape, batch: &Batch, k: &mut [N], v: &mut [N]) {
    let q = shape.q_width();
    let width = shape.kv_width();
    let slots = batch.spans().iter().flat_map(|span| batch.new_slots(span));
    for (row, slot) in qkv.chunks_exact(row_width(shape)).zip(slots) {
        let at = slot as usize * width;
        store_key(&row[q..q + width], slot as usize, k);
        for (v, x) in v[at..at + width].iter_mut().zip(&row[q + width..]) {
            *v = N::of(*x);
        }
    }
}

/// Copies the keys `[kv_width]` of one row into its group.
pub(super) fn store_key<N: Number>(key: &[f32], slot: usize, k: &mut [N]) {
    let from = slot / KEY_GROUP * key.len() * KEY_GROUP;
    let group = &mut k[from..from + key.len() * KEY_GROUP];
    for (place, x) in group.as_chunks_mut::<KEY_GROUP>().0.iter_mut().zip(key) {
        place[slot % KEY_GROUP] = N::of(*x);
    }
}

/// Keeps the keys and values of rotated rows `qkv [rows, q | k | v]`, and attends their queries to what their
/// sequences have cached.
pub(super) fn attend_cached<N: Number>(
    isa: Isa,
    shape: &AttentionShape,
    qkv: &Rows,
    batch: &Batch,
    lists: &mut Lists<N>,
) -> Rows {
    store(qkv.data(), shape, batch, &mut lists.k, &mut lists.v);
    let width = shape.q_width();
    let mut out = Rows::scratch(qkv.rows(), width);
    let mut row = 0;
    let mut scratch = Scratch::default();
    for span in batch.spans() {
        let seen = Seen {
            k: &lists.k,
            v: &lists.v,
            v_stride: shape.kv_width(),
            kv_width: shape.kv_width(),
            head_dim: shape.head_dim,
            slots: batch.slots(span),
        };
        let end = row + span.len;
        let heads = &mut out.data_mut()[row * width..end * width];
        let block = qkv.range(row, end);
        let order = Order::of(span, shape);
        attend(isa, heads, block, shape, order, &seen, &mut scratch);
        row = end;
    }
    out
}

/// Attention within blocks: the queries of `qkv [rows, q | k | v]` attend to their own block only. `lens` are the
/// rows per block.
pub(super) fn attend_within(isa: Isa, shape: &AttentionShape, qkv: &Rows, lens: &[usize]) -> Rows {
    let q_width = shape.q_width();
    let kv_width = shape.kv_width();
    let mut out = Rows::scratch(qkv.rows(), q_width);
    let longest = lens.iter().copied().max().unwrap_or(0);
    let mut k = vec![0.0; keys_size(longest, kv_width)];
    let slots: Vec<u32> = (0..).take(longest).collect();
    let mut row = 0;
    let mut scratch = Scratch::default();
    for &len in lens {
        let block = qkv.range(row, row + len);
        for (slot, row) in block.chunks_exact(row_width(shape)).enumerate() {
            store_key(&row[q_width..q_width + kv_width], slot, &mut k);
        }
        let seen = Seen {
            k: &k,
            v: &block[q_width + kv_width..],
            v_stride: row_width(shape),
            kv_width,
            head_dim: shape.head_dim,
            slots: &slots[..len],
        };
        let heads = &mut out.data_mut()[row * q_width..(row + len) * q_width];
        attend(isa, heads, block, shape, Order::Any, &seen, &mut scratch);
        row += len;
    }
    out
}

/// Attends the queries of `qkv [len, q | k | v]` to `out [len, q]`.
pub(super) fn attend<N: Number>(
    isa: Isa,
    out: &mut [f32],
    qkv: &[f32],
    shape: &AttentionShape,
    order: Order,
    seen: &Seen<'_, N>,
    scratch: &mut Scratch,
) {
    find_runs(seen.slots, &mut scratch.runs);
    let runs = &scratch.runs;
    let scores = &mut scratch.scores;
    let job = Job {
        qkv,
        shape,
        order,
        seen,
        runs,
    };
    match isa {
        // SAFETY: `Isa::best` gives this value only where these instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { attend_avx512(&job, out, scores) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { attend_avx2(&job, out, scores) },
        // SAFETY: needs no instructions but the compiler's own.
        _ => unsafe { job.run::<simd::Portable, PORTABLE_FMA>(out, scores) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
fn attend_avx512<N: Number>(job: &Job<'_, N>, out: &mut [f32], scores: &mut Vec<f32>) {
    // SAFETY: compiled with the instructions that the vector type needs.
    unsafe { job.run::<simd::Avx512, true>(out, scores) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn attend_avx2<N: Number>(job: &Job<'_, N>, out: &mut [f32], scores: &mut Vec<f32>) {
    // SAFETY: compiled with the instructions that the vector type needs.
    unsafe { job.run::<simd::Avx2, true>(out, scores) }
}

/// The queries of a span or block.
struct Job<'a, N> {
    qkv: &'a [f32],
    shape: &'a AttentionShape,
    order: Order,
    seen: &'a Seen<'a, N>,
    runs: &'a [Run],
}

impl<N: Number> Job<'_, N> {
    /// # Safety
    /// The machine must have `S`'s instructions.
    #[inline(always)]
    unsafe fn run<S: Widen, const FUSED: bool>(&self, out: &mut [f32], scores: &mut Vec<f32>) {
        let count = self.qkv.len() / row_width(self.shape) * (self.shape.heads / self.shape.kv_heads);
        for head in 0..self.shape.kv_heads {
            let mut first = 0;
            while first < count {
                let seen = self.seen;
                let runs = self.runs;
                // SAFETY: the caller's promise.
                first += unsafe {
                    match count - first {
                        1 => {
                            tile::attend::<S, N, FUSED, 1>(
                                self.queries(out, head, first),
                                head,
                                seen,
                                runs,
                                scores,
                            );
                            1
                        }
                        2 | 3 => {
                            tile::attend::<S, N, FUSED, 2>(
                                self.queries(out, head, first),
                                head,
                                seen,
                                runs,
                                scores,
                            );
                            2
                        }
                        _ => {
                            tile::attend::<S, N, FUSED, 4>(
                                self.queries(out, head, first),
                                head,
                                seen,
                                runs,
                                scores,
                            );
                            4
                        }
                    }
                };
            }
        }
    }

    /// `R` of the queries that share key-value head `head`, row by row, from the `first` of them on.
    fn queries<'a, const R: usize>(
        &'a self,
        out: &'a mut [f32],
        head: usize,
        first: usize,
    ) -> [Query<'a>; R] {
        let dim = self.shape.head_dim;
        let group = self.shape.heads / self.shape.kv_heads;
        let mut rest = out;
        let mut taken = 0;
        std::array::from_fn(|r| {
            let row = (first + r) / group;
            let h = head * group + (first + r) % group;
            let from = row * row_width(self.shape) + h * dim;
            let at = row * self.shape.q_width() + h * dim;
            let (out, others) = std::mem::take(&mut rest)[at - taken..].split_at_mut(dim);
            (rest, taken) = (others, at + dim);
            Query {
                q: &self.qkv[from..from + dim],
                out,
                sees: self.order.sees(row, self.seen.slots.len()),
            }
        })
    }
}

/// Cuts positions into runs whose keys lie side by side.
fn find_runs(slots: &[u32], runs: &mut Vec<Run>) {
    runs.clear();
    for (at, &slot) in slots.iter().enumerate() {
        let slot = slot as usize;
        match runs.last_mut() {
            Some(run) if slot == run.slot + run.len && !slot.is_multiple_of(KEY_GROUP) => run.len += 1,
            _ => runs.push(Run { at, slot, len: 1 }),
        }
    }
}
