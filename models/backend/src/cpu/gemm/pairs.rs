//! The inner loop for factors that are rounded to bf16: two products per lane in one instruction, their sums in f32.

use std::arch::x86_64::*;

use super::super::isa::Isa;
use super::Job;
use super::simd::{Avx512, Simd};
use super::tile::{each_row, store, with_rows};

/// `x` in bf16, to the nearest and of two to the even one.
pub(super) fn rounded(isa: Isa, x: &[f32]) -> Vec<u16> {
    assert!(isa.multiplies_pairs(), "pairs without the instructions for them");
    let mut out = vec![0; x.len()];
    // SAFETY: the machine has the instructions.
    unsafe { round(x, &mut out) };
    out
}

#[target_feature(enable = "avx512f,avx512vl,avx512bf16")]
fn round(x: &[f32], out: &mut [u16]) {
    let (whole, rest) = x.as_chunks::<16>();
    let (whole_out, rest_out) = out.as_chunks_mut::<16>();
    for (x, out) in whole.iter().zip(whole_out) {
        *out = round_vector(x);
    }
    // Rounded by the same instruction: the result must not depend on the number's place.
    let mut last = [0.0; 16];
    last[..rest.len()].copy_from_slice(rest);
    rest_out.copy_from_slice(&round_vector(&last)[..rest.len()]);
}

#[target_feature(enable = "avx512f,avx512vl,avx512bf16")]
fn round_vector(x: &[f32; 16]) -> [u16; 16] {
    // SAFETY: both arrays are as long as the vectors.
    unsafe { std::mem::transmute::<__m256bh, [u16; 16]>(_mm512_cvtneps_pbh(_mm512_loadu_ps(x.as_ptr()))) }
}

/// Rows of one block times panels `first .. first + count`.
///
/// # Safety
/// As [`super::tile::wide`]; the machine must have the instructions.
pub(super) unsafe fn wide(
    job: &Job<'_>,
    data: &[u32],
    rows: usize,
    at: (usize, usize),
    first: usize,
    count: usize,
) {
    let mut panel = first;
    let end = first + count;
    while panel < end {
        let left = end - panel;
        // Few rows: several panels at once, or the sums' chains are too few to keep the units busy.
        let panels = match rows {
            1 if left >= 4 => 4,
            1..=4 if left >= 2 => 2,
            _ => 1,
        };
        macro_rules! tile {
            ($m:literal) => {
                // SAFETY: the caller's promise.
                unsafe {
                    match panels {
                        4 => block::<$m, { if $m == 1 { 4 } else { 1 } }>(job, data, at, panel),
                        2 => block::<$m, { if $m <= 4 { 2 } else { 1 } }>(job, data, at, panel),
                        _ => block::<$m, 1>(job, data, at, panel),
                    }
                }
            };
        }
        with_rows!(rows, tile, 1 2 3 4 5 6 7 8 9 10 11 12);
        panel += panels;
    }
}

/// `M` rows times `P` panels.
///
/// # Safety
/// As [`wide`].
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,avx2,fma")]
unsafe fn block<const M: usize, const P: usize>(
    job: &Job<'_>,
    data: &[u32],
    (src, dst): (usize, usize),
    panel: usize,
) {
    const LANES: usize = Avx512::LANES;
    let x = job.x;
    let size = job.w.inputs() * LANES;
    // SAFETY: by `check` every row and tap of the block is inside `x.data`, which `rounded` is as long as, and a tap
    // is whole pairs; the panels are inside `data`, and the bias has a number for each of their columns.
    unsafe {
        let mut acc = [[[_mm512_setzero_ps(); 2]; P]; M];
        for p in 0..P {
            let bias = job.w.bias().as_ptr().add((panel + p) * 2 * LANES);
            let bias = [_mm512_loadu_ps(bias), _mm512_loadu_ps(bias.add(LANES))];
            for row in &mut acc {
                row[p] = bias;
            }
        }
        let mut w = data.as_ptr().add(panel * size);
        for tap in 0..x.taps {
            let rows = job.rounded.as_ptr().add(src + tap * x.tap_stride);
            for d in (0..x.depth).step_by(2) {
                let mut pairs = [[_mm512_setzero_si512(); 2]; P];
                for (p, pairs) in pairs.iter_mut().enumerate() {
                    let at = w.add(p * size);
                    *pairs = [
                        _mm512_loadu_si512(at.cast()),
                        _mm512_loadu_si512(at.add(LANES).cast()),
                    ];
                }
                for (m, acc) in acc.iter_mut().enumerate() {
                    let pair = rows.add(m * x.row_stride + d).cast::<i32>().read_unaligned();
                    let pair = as_pairs(_mm512_set1_epi32(pair));
                    for (acc, w) in acc.iter_mut().zip(&pairs) {
                        acc[0] = _mm512_dpbf16_ps(acc[0], pair, as_pairs(w[0]));
                        acc[1] = _mm512_dpbf16_ps(acc[1], pair, as_pairs(w[1]));
                    }
                }
                w = w.add(2 * LANES);
            }
        }
        each_row!(M, |m| {
            for (p, sums) in acc[m].iter().enumerate() {
                store::<Avx512, 2>(job, dst + m, (panel + p) * 2 * LANES, sums);
            }
        });
    }
}

/// The words of a vector as pairs of bf16.
#[inline(always)]
fn as_pairs(words: __m512i) -> __m512bh {
    // SAFETY: both are 64 bytes, all of whose values are allowed.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(words) }
}
