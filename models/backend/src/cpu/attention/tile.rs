//! Attention of a few queries of one key-value head: keys and values that they share are read once.
//!
//! Every score is two chains of multiply-adds, over the even and the odd dimensions, and every output one chain over
//! the keys. So a query's result has the same bits in every tile.
#![expect(
    unsafe_code,
    reason = "vector intrinsics; every address is inside a slice taken just before"
)]

use std::ops::Range;

use super::super::gemm::simd::Widen;
use super::super::pointwise::{exp, fma, sum};
use super::{KEY_GROUP, Number, Seen};

/// Cached positions whose keys lie side by side in one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    /// First position, counted from the first that is seen.
    pub(super) at: usize,
    /// Its cache row.
    pub(super) slot: usize,
    pub(super) len: usize,
}

/// One query with its visible positions.
pub(super) struct Query<'a> {
    /// `[head_dim]`.
    pub(super) q: &'a [f32],
    /// `[head_dim]`.
    pub(super) out: &'a mut [f32],
    /// Positions, counted from the first that any sees.
    pub(super) sees: Range<usize>,
}

/// Attends `queries` over head `head` of `seen`; `scores` is scratch.
///
/// # Safety
/// The machine must have `S`'s instructions.
#[inline(always)]
pub(super) unsafe fn attend<S: Widen, N: Number, const FUSED: bool, const R: usize>(
    queries: [Query<'_>; R],
    head: usize,
    seen: &Seen<'_, N>,
    runs: &[Run],
    scores: &mut Vec<f32>,
) {
    let begin = queries.iter().map(|query| query.sees.start).min().unwrap_or(0);
    let end = queries.iter().map(|query| query.sees.end).max().unwrap_or(0);
    let first = runs.partition_point(|run| run.at + run.len <= begin);
    let last = runs.partition_point(|run| run.at < end);
    let runs = &runs[first..last];
    let Some(origin) = runs.first().map(|run| run.at) else {
        return;
    };
    let width = runs.iter().map(|run| run.len).sum::<usize>();
    scores.clear();
    scores.resize(R * width, 0.0);
    let from = head * seen.head_dim * KEY_GROUP;
    for run in runs {
        let group = run.slot / KEY_GROUP;
        let lane = run.slot % KEY_GROUP;
        let from = group * seen.kv_width * KEY_GROUP + from;
        let keys = &seen.k[from..from + seen.head_dim * KEY_GROUP];
        // SAFETY: the caller's promise.
        let found = unsafe { score::<S, N, R>(&queries, keys) };
        for (row, found) in scores.chunks_exact_mut(width).zip(&found) {
            let at = run.at - origin;
            match row[at..at + run.len].as_mut_array::<KEY_GROUP>() {
                Some(whole) => *whole = *found,
                None => row[at..at + run.len].copy_from_slice(&found[lane..lane + run.len]),
            }
        }
    }
    let mut totals = [0.0; R];
    for ((query, row), total) in queries
        .iter()
        .zip(scores.chunks_exact_mut(width))
        .zip(&mut totals)
    {
        let from = query.sees.start - origin;
        let to = query.sees.end - origin;
        row[..from].fill(0.0);
        row[to..].fill(0.0);
        *total = weigh::<FUSED>(&mut row[from..to]);
    }
    let mut blend = Blend::<'_, N, R> {
        v: seen.v,
        stride: seen.v_stride,
        slots: &seen.slots[origin..origin + width],
        weights: std::array::from_fn(|r| &scores[r * width..(r + 1) * width]),
        scales: totals.map(|total| 1.0 / total),
        outs: queries.map(|query| query.out),
    };
    // SAFETY: the caller's promise.
    unsafe { blend.columns::<S, FUSED>(head * seen.head_dim, seen.head_dim) };
}

/// Scores of the queries with the keys `[head_dim, 16]` of one group.
///
/// # Safety
/// The machine must have `S`'s instructions.
#[inline(always)]
unsafe fn score<S: Widen, N: Number, const R: usize>(
    queries: &[Query<'_>; R],
    keys: &[N],
) -> [[f32; KEY_GROUP]; R] {
    let dim = keys.len() / KEY_GROUP;
    assert!(
        queries.iter().all(|query| query.q.len() == dim),
        "queries are as wide as keys"
    );
    let mut scores = [[0.0; KEY_GROUP]; R];
    // SAFETY: `KEY_GROUP` is a multiple of the lanes, so lanes from `lane` on are inside row `d` of the keys and inside
    // a row of the scores; `d` is below the queries' width.
    unsafe {
        let scale = S::splat(1.0 / (dim as f32).sqrt());
        let zero = S::splat(0.0);
        let one = S::splat(1.0);
        for lane in (0..KEY_GROUP).step_by(S::LANES) {
            let mut even = [zero; R];
            let mut odd = [zero; R];
            let keys = keys.as_ptr().add(lane);
            let mut d = 0;
            while d + 1 < dim {
                let a = N::load::<S>(keys.add(d * KEY_GROUP));
                let b = N::load::<S>(keys.add((d + 1) * KEY_GROUP));
                for r in 0..R {
                    let q = queries[r].q.as_ptr().add(d);
                    even[r] = S::fma(S::splat(*q), a, even[r]);
                    odd[r] = S::fma(S::splat(*q.add(1)), b, odd[r]);
                }
                d += 2;
            }
            for r in 0..R {
                if d < dim {
                    even[r] = S::fma(
                        S::splat(*queries[r].q.as_ptr().add(d)),
                        N::load::<S>(keys.add(d * KEY_GROUP)),
                        even[r],
                    );
                }
                let score = S::fma(S::fma(one, even[r], odd[r]), scale, zero);
                S::store(scores[r].as_mut_ptr().add(lane), score);
            }
        }
    }
    scores
}

/// Scores to unnormalised weights; returns their sum.
#[inline(always)]
fn weigh<const FUSED: bool>(scores: &mut [f32]) -> f32 {
    let mut max = f32::NEG_INFINITY;
    for &s in scores.iter() {
        max = if s > max { s } else { max };
    }
    for s in scores.iter_mut() {
        *s = exp::<FUSED>(*s - max);
    }
    sum::<FUSED>(scores, |acc, s| acc + s)
}

/// The weighted means of the values of some positions.
struct Blend<'a, N, const R: usize> {
    v: &'a [N],
    stride: usize,
    slots: &'a [u32],
    weights: [&'a [f32]; R],
    scales: [f32; R],
    outs: [&'a mut [f32]; R],
}

impl<N: Number, const R: usize> Blend<'_, N, R> {
    /// All `dim` columns; the first is column `at` of the values.
    ///
    /// # Safety
    /// The machine must have `S`'s instructions.
    #[inline(always)]
    unsafe fn columns<S: Widen, const FUSED: bool>(&mut self, at: usize, dim: usize) {
        let mut column = 0;
        while column < dim {
            let from = at + column;
            let left = dim - column;
            // SAFETY: the caller's promise.
            column += unsafe {
                match left / S::LANES {
                    0 => self.one::<FUSED>(from, column),
                    1 => self.vectors::<S, 1>(from, column),
                    // As many sums as there are registers for.
                    2 | 3 => self.vectors::<S, 2>(from, column),
                    _ if S::LANES < 16 => self.vectors::<S, 2>(from, column),
                    _ => self.vectors::<S, 4>(from, column),
                }
            };
        }
    }

    /// `C` vectors of columns from `column` on; returns how many columns that is.
    ///
    /// # Safety
    /// The machine must have `S`'s instructions.
    #[expect(clippy::needless_range_loop, reason = "the same row of several arrays")]
    #[inline(always)]
    unsafe fn vectors<S: Widen, const C: usize>(&mut self, from: usize, column: usize) -> usize {
        let width = C * S::LANES;
        assert!(
            self.weights.iter().all(|w| w.len() == self.slots.len()),
            "a weight per position"
        );
        // SAFETY: `C` vectors are inside the slices of `width` numbers; `i` is below the number of weights.
        unsafe {
            let zero = S::splat(0.0);
            let mut sums = [[zero; C]; R];
            for (i, &slot) in self.slots.iter().enumerate() {
                let from = slot as usize * self.stride + from;
                let v = self.v[from..from + width].as_ptr();
                let mut values = [zero; C];
                for c in 0..C {
                    values[c] = N::load::<S>(v.add(c * S::LANES));
                }
                for r in 0..R {
                    let weight = S::splat(*self.weights[r].as_ptr().add(i));
                    for c in 0..C {
                        sums[r][c] = S::fma(weight, values[c], sums[r][c]);
                    }
                }
            }
            for r in 0..R {
                let out = self.outs[r][column..column + width].as_mut_ptr();
                for c in 0..C {
                    let mean = S::fma(sums[r][c], S::splat(self.scales[r]), zero);
                    S::store(out.add(c * S::LANES), mean);
                }
            }
        }
        width
    }

    /// A single column.
    #[inline(always)]
    fn one<const FUSED: bool>(&mut self, from: usize, column: usize) -> usize {
        for r in 0..R {
            let mut sum = 0.0;
            for (&slot, weight) in self.slots.iter().zip(self.weights[r]) {
                sum = fma::<FUSED>(*weight, self.v[slot as usize * self.stride + from].value(), sum);
            }
            self.outs[r][column] = sum * self.scales[r];
        }
        1
    }
}
