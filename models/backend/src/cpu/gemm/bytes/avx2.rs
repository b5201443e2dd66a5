//! Products of bytes and of 16 bits, summed up in pairs (AVX2).
//!
//! A lane of 16 bits sums up 16 products of four bits and a signed byte, at most 15 * 128 * 16 = 30,720 in size; two
//! lanes hold a column's group of 32. Products of eight bits do not fit: these weights are widened to 16 bits and
//! multiplied with the activations' 16 bits.

use std::arch::x86_64::*;

use super::super::Job;
use super::super::quant::{Bits, GROUP};
use super::super::simd::{Avx2, Simd as _, Widen as _};
use super::super::tile::{each_row, store};
use super::{AHEAD, Group, MOST};

/// Rows of a block: the sums of as many are kept in registers.
pub(super) const MAX_ROWS: usize = 2;

/// Writes the numbers of `x` into `group`, which must be [`super::NONE`].
#[target_feature(enable = "avx2,fma")]
pub(super) fn quantise(bits: Bits, x: &[f32; GROUP], group: &mut Group) {
    // Without their sign, floats sort as their bits do, with infinity and NaN last.
    let largest = x.iter().fold(0, |most, x| most.max(x.abs().to_bits()));
    let largest = f32::from_bits(largest);
    if !largest.is_finite() {
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
    let mut whole = [0; GROUP];
    let inverse = _mm256_set1_ps(inverse);
    for (x, whole) in x.as_chunks::<8>().0.iter().zip(whole.as_chunks_mut::<8>().0) {
        // SAFETY: both are as long as the vectors.
        unsafe {
            let scaled = _mm256_mul_ps(_mm256_loadu_ps(x.as_ptr()), inverse);
            _mm256_storeu_si256(whole.as_mut_ptr().cast(), _mm256_cvtps_epi32(scaled));
        }
    }
    group.sum = whole.iter().sum();
    let [first, second] = &mut group.halves;
    for ((quad, first), second) in whole.as_chunks::<4>().0.iter().zip(first).zip(second) {
        match bits {
            Bits::Eight => {
                let pair = |a: i32, b: i32| a & 0xFFFF | b << 16;
                *first = pair(quad[0], quad[2]);
                *second = pair(quad[1], quad[3]);
            }
            Bits::Four => {
                let high = quad.map(|whole| (whole + 128) >> 8);
                let low: [i32; 4] = std::array::from_fn(|i| quad[i] - (high[i] << 8));
                let bytes = |quad: [i32; 4]| i32::from_le_bytes(quad.map(|byte| byte as u8));
                *first = bytes(high);
                *second = bytes(low);
            }
        }
    }
}

/// Product with a group of two vectors' columns.
///
/// # Safety
/// Runs inside functions compiled for AVX2, into which it is inlined. `weights` must point to the group's weights.
unsafe trait Product {
    const BITS: Bits;
    /// Offset that was added to every weight.
    const SHIFT: i32;
    /// Integer sums of each row, plus the offset term. Closures must contain no intrinsics: they would be compiled
    /// without AVX2 and not be inlined.
    unsafe fn sums<const M: usize>(weights: *const u32, rows: &[&Group; M]) -> [[__m256i; 2]; M];
}

struct Eight;

struct Four;

const LANES: usize = Avx2::LANES;

/// The two vectors at `at`, and a request for those that are a while ahead.
///
/// # Safety
/// Runs inside functions compiled for AVX2; both vectors must be there.
#[inline(always)]
unsafe fn words(at: *const u32) -> [__m256i; 2] {
    // SAFETY: by the caller's promise; prefetching is valid for any address.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD).cast());
        [
            _mm256_loadu_si256(at.cast()),
            _mm256_loadu_si256(at.add(LANES).cast()),
        ]
    }
}

// SAFETY: uses the instructions that the trait names, and reads one group.
unsafe impl Product for Eight {
    const BITS: Bits = Bits::Eight;
    const SHIFT: i32 = 128;

    #[inline(always)]
    unsafe fn sums<const M: usize>(weights: *const u32, rows: &[&Group; M]) -> [[__m256i; 2]; M] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [[_mm256_setzero_si256(); 2]; M];
            for quad in 0..GROUP / 4 {
                let words = words(weights.add(quad * 2 * LANES));
                let bytes = _mm256_set1_epi16(255);
                let even = [
                    _mm256_and_si256(words[0], bytes),
                    _mm256_and_si256(words[1], bytes),
                ];
                let odd = [_mm256_srli_epi16::<8>(words[0]), _mm256_srli_epi16::<8>(words[1])];
                for m in 0..M {
                    let a = _mm256_set1_epi32(rows[m].halves[0][quad]);
                    let b = _mm256_set1_epi32(rows[m].halves[1][quad]);
                    for c in 0..2 {
                        let two =
                            _mm256_add_epi32(_mm256_madd_epi16(even[c], a), _mm256_madd_epi16(odd[c], b));
                        sums[m][c] = _mm256_add_epi32(sums[m][c], two);
                    }
                }
            }
            sums
        }
    }
}

// SAFETY: uses the instructions that the trait names, and reads one group.
unsafe impl Product for Four {
    const BITS: Bits = Bits::Four;
    const SHIFT: i32 = 8;

    #[inline(always)]
    unsafe fn sums<const M: usize>(weights: *const u32, rows: &[&Group; M]) -> [[__m256i; 2]; M] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut high = [[_mm256_setzero_si256(); 2]; M];
            let mut low = [[_mm256_setzero_si256(); 2]; M];
            for eight in 0..GROUP / 8 {
                let words = words(weights.add(eight * 2 * LANES));
                let fifteen = _mm256_set1_epi8(15);
                let upper = [_mm256_srli_epi16::<4>(words[0]), _mm256_srli_epi16::<4>(words[1])];
                let quads = [
                    [
                        _mm256_and_si256(words[0], fifteen),
                        _mm256_and_si256(words[1], fifteen),
                    ],
                    [
                        _mm256_and_si256(upper[0], fifteen),
                        _mm256_and_si256(upper[1], fifteen),
                    ],
                ];
                for (nth, quad) in quads.iter().enumerate() {
                    for m in 0..M {
                        let a = _mm256_set1_epi32(rows[m].halves[0][2 * eight + nth]);
                        let b = _mm256_set1_epi32(rows[m].halves[1][2 * eight + nth]);
                        for c in 0..2 {
                            high[m][c] = _mm256_add_epi16(high[m][c], _mm256_maddubs_epi16(quad[c], a));
                            low[m][c] = _mm256_add_epi16(low[m][c], _mm256_maddubs_epi16(quad[c], b));
                        }
                    }
                }
            }
            let ones = _mm256_set1_epi16(1);
            let mut sums = [[_mm256_setzero_si256(); 2]; M];
            for m in 0..M {
                for c in 0..2 {
                    let high = _mm256_slli_epi32::<8>(_mm256_madd_epi16(high[m][c], ones));
                    sums[m][c] = _mm256_add_epi32(high, _mm256_madd_epi16(low[m][c], ones));
                }
            }
            sums
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
            (Bits::Four, 1) => block::<Four, 1>(job, data, at, panel),
            (Bits::Four, 2) => block::<Four, 2>(job, data, at, panel),
            _ => unreachable!("a block of bytes has at most {MAX_ROWS} rows"),
        }
    }
}

/// `M` rows times one panel: one panel is one stream of memory, which is read faster than several.
///
/// # Safety
/// As [`super::wide`].
#[target_feature(enable = "avx2,fma")]
unsafe fn block<P: Product, const M: usize>(
    job: &Job<'_>,
    data: &[u32],
    (src, dst): (usize, usize),
    panel: usize,
) {
    let x = job.x;
    let group_words = P::BITS.group_words(LANES);
    let size = job.w.inputs() / GROUP * group_words;
    // SAFETY: by `check` every row and tap of the block is inside `x.data` and begins with a group, and a tap is whole
    // groups, so its groups are inside `bytes`; the panels are inside `data`, and the bias has a number for each of
    // their columns.
    unsafe {
        let bias = job.w.bias().as_ptr().add(panel * 2 * LANES);
        let bias = [_mm256_loadu_ps(bias), _mm256_loadu_ps(bias.add(LANES))];
        let mut acc = [bias; M];
        let mut group = data.as_ptr().add(panel * size);
        for tap in 0..x.taps {
            let rows = job.bytes.as_ptr().add((src + tap * x.tap_stride) / GROUP);
            for d in 0..x.depth / GROUP {
                let mut each = [&*rows.add(d); M];
                for (m, row) in each.iter_mut().enumerate() {
                    *row = &*rows.add(m * x.row_stride / GROUP + d);
                }
                let sums = P::sums(group.add(LANES), &each);
                let scales = Avx2::halves(group);
                for m in 0..M {
                    let scale = _mm256_set1_ps(each[m].scale);
                    let shifted = each[m].sum * P::SHIFT;
                    for c in 0..2 {
                        let sum = _mm256_sub_epi32(sums[m][c], _mm256_set1_epi32(shifted));
                        let scale = _mm256_mul_ps(scales[c], scale);
                        acc[m][c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, acc[m][c]);
                    }
                }
                group = group.add(group_words);
            }
        }
        each_row!(M, |m| store::<Avx2, 2>(job, dst + m, panel * 2 * LANES, &acc[m]));
    }
}
