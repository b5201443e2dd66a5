//! Four products of an unsigned with a signed byte are one instruction (AVX512-VNNI).

use std::arch::x86_64::*;

use super::super::Job;
use super::super::quant::{Bits, GROUP};
use super::super::simd::{Avx512, Simd as _, Widen as _};
use super::super::tile::{each_row, store};
use super::{AHEAD, Group, MOST};

/// Writes the numbers of `x` into `group`, which must be [`super::NONE`].
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
pub(super) fn quantise(x: &[f32; GROUP], group: &mut Group) {
    // SAFETY: both loads are inside `x`; every store is as long as its destination.
    unsafe {
        let x = [_mm512_loadu_ps(x.as_ptr()), _mm512_loadu_ps(x.as_ptr().add(16))];
        let largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(x[0]), _mm512_abs_ps(x[1])));
        // A maximum may ignore NaN; `x - x` is zero for finite numbers only.
        let odd = _mm512_add_ps(_mm512_sub_ps(x[0], x[0]), _mm512_sub_ps(x[1], x[1]));
        let odd = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(odd, _mm512_setzero_ps());
        if odd != 0 {
            // An integer cannot hold NaN: the scale carries it, so that the result is NaN, too.
            group.scale = f32::NAN;
            return;
        }
        let inverse = MOST / largest;
        if !inverse.is_finite() {
            // Zeros, or as good as that.
            return;
        }
        group.scale = largest / MOST;
        let inverse = _mm512_set1_ps(inverse);
        let whole = [
            _mm512_cvtps_epi32(_mm512_mul_ps(x[0], inverse)),
            _mm512_cvtps_epi32(_mm512_mul_ps(x[1], inverse)),
        ];
        group.sum = _mm512_reduce_add_epi32(_mm512_add_epi32(whole[0], whole[1]));
        for (half, whole) in whole.into_iter().enumerate() {
            let high = _mm512_srai_epi32::<8>(_mm512_add_epi32(whole, _mm512_set1_epi32(128)));
            let low = _mm512_sub_epi32(whole, _mm512_slli_epi32::<8>(high));
            let at = half * GROUP / 8;
            _mm_storeu_si128(
                group.halves[0].as_mut_ptr().add(at).cast(),
                _mm512_cvtepi32_epi8(high),
            );
            _mm_storeu_si128(
                group.halves[1].as_mut_ptr().add(at).cast(),
                _mm512_cvtepi32_epi8(low),
            );
        }
    }
}

/// Layout of four inputs of sixteen columns.
///
/// # Safety
/// Runs inside functions compiled for AVX512-BW, into which it is inlined.
unsafe trait Quads {
    const BITS: Bits;
    /// Offset that was added to every weight.
    const SHIFT: i32;
    /// Vectors of weights that lie in one vector.
    const EACH: usize;
    /// The `nth` of them.
    unsafe fn nth(words: __m512i, nth: usize) -> __m512i;
}

struct Eight;

struct Four;

// SAFETY: uses no instructions.
unsafe impl Quads for Eight {
    const BITS: Bits = Bits::Eight;
    const SHIFT: i32 = 128;
    const EACH: usize = 1;

    #[inline(always)]
    unsafe fn nth(words: __m512i, _: usize) -> __m512i {
        words
    }
}

// SAFETY: uses the instructions that the trait names.
unsafe impl Quads for Four {
    const BITS: Bits = Bits::Four;
    const SHIFT: i32 = 8;
    const EACH: usize = 2;

    #[inline(always)]
    unsafe fn nth(words: __m512i, nth: usize) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let words = if nth == 0 {
                words
            } else {
                _mm512_srli_epi16::<4>(words)
            };
            _mm512_and_si512(words, _mm512_set1_epi8(15))
        }
    }
}

/// Rows of one block times one panel.
///
/// # Safety
/// As [`super::wide`].
pub(super) unsafe fn panel(
    job: &Job<'_>,
    (bits, data): (Bits, &[u32]),
    rows: usize,
    at: (usize, usize),
    panel: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match (bits, rows) {
            (Bits::Eight, 1) => block::<Eight, 1>(job, data, at, panel),
            (Bits::Eight, 2) => block::<Eight, 2>(job, data, at, panel),
            (Bits::Eight, 3) => block::<Eight, 3>(job, data, at, panel),
            (Bits::Eight, 4) => block::<Eight, 4>(job, data, at, panel),
            (Bits::Four, 1) => block::<Four, 1>(job, data, at, panel),
            (Bits::Four, 2) => block::<Four, 2>(job, data, at, panel),
            (Bits::Four, 3) => block::<Four, 3>(job, data, at, panel),
            (Bits::Four, 4) => block::<Four, 4>(job, data, at, panel),
            _ => unreachable!("a block of bytes has at most {MAX_ROWS} rows"),
        }
    }
}

/// Rows of a block: the sums of as many are kept in registers.
pub(super) const MAX_ROWS: usize = 4;

/// `M` rows times one panel: one panel is one stream of memory, which is read faster than several.
///
/// # Safety
/// As [`super::wide`].
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,avx2,fma")]
unsafe fn block<Q: Quads, const M: usize>(
    job: &Job<'_>,
    data: &[u32],
    (src, dst): (usize, usize),
    panel: usize,
) {
    const LANES: usize = Avx512::LANES;
    let x = job.x;
    let group_words = Q::BITS.group_words(LANES);
    let size = job.w.inputs() / GROUP * group_words;
    // SAFETY: by `check` every row and tap of the block is inside `x.data` and begins with a group, and a tap is
    // whole groups, so its groups are inside `bytes`; the panels are inside `data`, and the bias has a number for
    // each of their columns. Prefetching is valid for any address.
    unsafe {
        let bias = job.w.bias().as_ptr().add(panel * 2 * LANES);
        let bias = [_mm512_loadu_ps(bias), _mm512_loadu_ps(bias.add(LANES))];
        let mut acc = [bias; M];
        let mut group = data.as_ptr().add(panel * size);
        for tap in 0..x.taps {
            let rows = job.bytes.as_ptr().add((src + tap * x.tap_stride) / GROUP);
            for d in 0..x.depth / GROUP {
                let row = |m: usize| &*rows.add(m * x.row_stride / GROUP + d);
                let mut high = [[_mm512_setzero_si512(); 2]; M];
                let mut low = [[_mm512_setzero_si512(); 2]; M];
                for (m, low) in low.iter_mut().enumerate() {
                    *low = [_mm512_set1_epi32(-Q::SHIFT * row(m).sum); 2];
                }
                for q in 0..GROUP / 4 / Q::EACH {
                    let at = group.add(LANES + q * 2 * LANES);
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD).cast());
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD + LANES).cast());
                    let words = [
                        _mm512_loadu_si512(at.cast()),
                        _mm512_loadu_si512(at.add(LANES).cast()),
                    ];
                    for nth in 0..Q::EACH {
                        let weights = [Q::nth(words[0], nth), Q::nth(words[1], nth)];
                        for m in 0..M {
                            let quad = Q::EACH * q + nth;
                            let a = _mm512_set1_epi32(row(m).halves[0][quad]);
                            let b = _mm512_set1_epi32(row(m).halves[1][quad]);
                            for c in 0..2 {
                                high[m][c] = _mm512_dpbusd_epi32(high[m][c], weights[c], a);
                                low[m][c] = _mm512_dpbusd_epi32(low[m][c], weights[c], b);
                            }
                        }
                    }
                }
                let scales = Avx512::halves(group);
                for m in 0..M {
                    let scale = _mm512_set1_ps(row(m).scale);
                    for c in 0..2 {
                        let sum = _mm512_add_epi32(_mm512_slli_epi32::<8>(high[m][c]), low[m][c]);
                        let scale = _mm512_mul_ps(scales[c], scale);
                        acc[m][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, acc[m][c]);
                    }
                }
                group = group.add(group_words);
            }
        }
        each_row!(M, |m| store::<Avx512, 2>(
            job,
            dst + m,
            panel * 2 * LANES,
            &acc[m]
        ));
    }
}
