//! Inner loop for factors rounded to integers of 14 bits: two products per lane and instruction, summed in 32 bits
//! (AVX2).
//!
//! 32 inputs share a scale, of the weights and of the rows: 32 * 8191 * 8191 is just below 2^31. The rounding error
//! is a hundredth of that of bf16.

use std::arch::x86_64::*;

use rayon::prelude::*;

use super::super::arena::Words;
use super::super::isa::Isa;
use super::Job;
use super::quant::GROUP;
use super::simd::{Avx2, Simd as _};
use super::tile::{each_row, store, with_rows};

/// Most that a number can be.
const MOST: f32 = 8191.0;
const LANES: usize = Avx2::LANES;
/// Words of a group of a panel: a scale (f32) for each column, then `[k / 2][2 * lanes]` pairs of inputs, the first in
/// the lower half.
const GROUP_WORDS: usize = 2 * LANES * (1 + GROUP / 2);

/// Rows as whole numbers of 14 bits, and the scales of their groups.
#[derive(Default)]
pub(super) struct Rounded {
    numbers: Vec<i16>,
    scales: Vec<f32>,
}

/// The whole groups of `x`, to the nearest and of two to the even one.
pub(super) fn rounded(isa: Isa, x: &[f32]) -> Rounded {
    assert!(isa.multiplies_int16(), "pairs without the instructions for them");
    let groups = x.len() / GROUP;
    let mut rounded = Rounded {
        numbers: vec![0; groups * GROUP],
        scales: vec![0.0; groups],
    };
    let numbers = rounded.numbers.as_chunks_mut().0;
    for ((x, numbers), scale) in x.as_chunks().0.iter().zip(numbers).zip(&mut rounded.scales) {
        // SAFETY: the machine has the instructions.
        unsafe { *scale = round(x, numbers) };
    }
    rounded
}

/// Writes the numbers of a group of zeros, and gives their scale.
#[target_feature(enable = "avx2,fma")]
fn round(x: &[f32; GROUP], numbers: &mut [i16; GROUP]) -> f32 {
    // SAFETY: loads and stores are inside the arrays.
    unsafe {
        let v = [
            _mm256_loadu_ps(x.as_ptr()),
            _mm256_loadu_ps(x.as_ptr().add(8)),
            _mm256_loadu_ps(x.as_ptr().add(16)),
            _mm256_loadu_ps(x.as_ptr().add(24)),
        ];
        // Without their sign, floats sort as their bits do, with infinity and NaN last.
        let sign = _mm256_set1_ps(-0.0);
        let mut largest = _mm256_setzero_si256();
        for v in v {
            largest = _mm256_max_epu32(largest, _mm256_castps_si256(_mm256_andnot_ps(sign, v)));
        }
        let half = _mm_max_epu32(
            _mm256_castsi256_si128(largest),
            _mm256_extracti128_si256::<1>(largest),
        );
        let half = _mm_max_epu32(half, _mm_shuffle_epi32::<0b01_00_11_10>(half));
        let half = _mm_max_epu32(half, _mm_shuffle_epi32::<0b10_11_00_01>(half));
        let largest = _mm_cvtss_f32(_mm_castsi128_ps(half));
        if !largest.is_finite() {
            // An integer cannot hold NaN: the scale carries it, so that the result is NaN, too.
            return f32::NAN;
        }
        let inverse = MOST / largest;
        if !inverse.is_finite() {
            // Zeros, or as good as that.
            return 0.0;
        }
        let factor = _mm256_set1_ps(inverse);
        for half in 0..2 {
            let a = _mm256_cvtps_epi32(_mm256_mul_ps(v[2 * half], factor));
            let b = _mm256_cvtps_epi32(_mm256_mul_ps(v[2 * half + 1], factor));
            // Packing works within each half of a vector.
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(a, b));
            _mm256_storeu_si256(numbers.as_mut_ptr().add(16 * half).cast(), packed);
        }
        largest / MOST
    }
}

/// Packs rows `0 .. outputs` of `inputs` numbers each (`widen` writes one) into `count` panels.
pub(super) fn pack(
    isa: Isa,
    (inputs, outputs): (usize, usize),
    count: usize,
    widen: impl Fn(usize, &mut [f32]) + Sync,
) -> Words<u32> {
    let columns = 2 * LANES;
    let panel_words = inputs / GROUP * GROUP_WORDS;
    Words::written(count * panel_words, |data| {
        let panels = data.par_chunks_mut(panel_words.max(1)).enumerate();
        panels.for_each_init(
            || vec![0.0; inputs],
            |row, (panel, data)| {
                for n in panel * columns..outputs.min((panel + 1) * columns) {
                    widen(n, row);
                    let Rounded { numbers, scales } = rounded(isa, row);
                    let column = n % columns;
                    let groups = data.chunks_mut(GROUP_WORDS).zip(numbers.as_chunks::<GROUP>().0);
                    for ((words, numbers), scale) in groups.zip(scales) {
                        words[column] = scale.to_bits();
                        let pairs = words[columns + column..].iter_mut().step_by(columns);
                        for (word, pair) in pairs.zip(numbers.as_chunks::<2>().0) {
                            let [first, second] = pair.map(|number| u32::from(number.cast_unsigned()));
                            *word = first | second << 16;
                        }
                    }
                }
            },
        );
    })
}

/// Rows of a block: the sums of as many are kept in registers.
pub(super) const MAX_ROWS: usize = 6;

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
    for panel in first..first + count {
        macro_rules! tile {
            ($m:literal) => {
                // SAFETY: the caller's promise.
                unsafe { block::<$m>(job, data, at, panel) }
            };
        }
        with_rows!(rows, tile, 1 2 3 4 5 6);
    }
}

/// `M` rows times one panel.
///
/// # Safety
/// As [`wide`].
#[target_feature(enable = "avx2,fma")]
unsafe fn block<const M: usize>(job: &Job<'_>, data: &[u32], (src, dst): (usize, usize), panel: usize) {
    let x = job.x;
    let size = job.w.inputs() / GROUP * GROUP_WORDS;
    // SAFETY: by `check` every row and tap of the block is inside `x.data` and begins with a group, and a tap is whole
    // groups, so its groups are inside `int16`; the panels are inside `data`, and the bias has a number for each of
    // their columns.
    unsafe {
        let bias = job.w.bias().as_ptr().add(panel * 2 * LANES);
        let bias = [_mm256_loadu_ps(bias), _mm256_loadu_ps(bias.add(LANES))];
        let mut acc = [bias; M];
        let mut group = data.as_ptr().add(panel * size);
        for tap in 0..x.taps {
            for d in (0..x.depth).step_by(GROUP) {
                let at = src + tap * x.tap_stride + d;
                let rows = job.int16.numbers.as_ptr().add(at);
                let mut sums = [[_mm256_setzero_si256(); 2]; M];
                for pair in 0..GROUP / 2 {
                    let words = group.add((1 + pair) * 2 * LANES);
                    let words = [
                        _mm256_loadu_si256(words.cast()),
                        _mm256_loadu_si256(words.add(LANES).cast()),
                    ];
                    for (m, sums) in sums.iter_mut().enumerate() {
                        let two = rows
                            .add(m * x.row_stride + 2 * pair)
                            .cast::<i32>()
                            .read_unaligned();
                        let two = _mm256_set1_epi32(two);
                        sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(words[0], two));
                        sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(words[1], two));
                    }
                }
                let scales = group.cast::<f32>();
                let scales = [_mm256_loadu_ps(scales), _mm256_loadu_ps(scales.add(LANES))];
                for (m, (acc, sums)) in acc.iter_mut().zip(&sums).enumerate() {
                    let scale =
                        _mm256_set1_ps(*job.int16.scales.as_ptr().add((at + m * x.row_stride) / GROUP));
                    for c in 0..2 {
                        let scale = _mm256_mul_ps(scales[c], scale);
                        acc[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[c]), scale, acc[c]);
                    }
                }
                group = group.add(GROUP_WORDS);
            }
        }
        each_row!(M, |m| store::<Avx2, 2>(job, dst + m, panel * 2 * LANES, &acc[m]));
    }
}
