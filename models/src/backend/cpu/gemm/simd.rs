//! Vectors of f32, and how a panel row becomes two of them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::quant::{Bits, GROUP};

/// A vector of f32.
///
/// # Safety
/// All functions may only run where the machine has the type's instructions, and inside functions compiled for them
/// (they are inlined there). Pointers must be valid for [`Simd::LANES`] elements.
pub(in crate::backend::cpu) unsafe trait Simd: Copy {
    const LANES: usize;
    /// Rows of a block: as many as the registers hold.
    const MAX_ROWS: usize;
    /// The same where a group's sums need as many registers again.
    const MAX_QUANTISED_ROWS: usize;
    type V: Copy;
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    /// Stores the first `n` elements, at most all.
    unsafe fn store_first(p: *mut f32, v: Self::V, n: usize);
    /// `a * b + c`.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The lower and the upper halves of the words, each as the upper half of an f32.
    unsafe fn halves(p: *const u32) -> [Self::V; 2];
    /// [`Simd::LANES`] numbers, of which only the upper halves are stored.
    unsafe fn upper(p: *const u16) -> Self::V;
    /// [`Simd::LANES`] bytes, widened.
    unsafe fn bytes(p: *const i8) -> Self::V;
    type Words: Copy;
    unsafe fn words(p: *const u32) -> Self::Words;
    /// Bits `4 * j .. 4 * j + 4` of each word as a number of -8 to 7, widened; `j` should be a constant.
    unsafe fn nibbles(words: Self::Words, j: i32) -> Self::V;
}

/// How a panel's numbers are stored.
///
/// # Safety
/// As [`Simd`]; `p` must point to a panel of more than `k` rows.
pub(in crate::backend::cpu) unsafe trait Storage {
    type Element: Copy;
    /// Elements of a panel row, in vectors.
    const VECTORS: usize;
    unsafe fn row<S: Simd>(p: *const Self::Element, k: usize) -> [S::V; 2];
}

#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct F32;

#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct Bf16;

// SAFETY: reads `2 * LANES` numbers from row `k`, as the trait promises.
unsafe impl Storage for F32 {
    type Element = f32;
    const VECTORS: usize = 2;

    #[inline(always)]
    unsafe fn row<S: Simd>(p: *const f32, k: usize) -> [S::V; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let p = p.add(k * 2 * S::LANES);
            [S::load(p), S::load(p.add(S::LANES))]
        }
    }
}

// SAFETY: reads `LANES` words from row `k`, as the trait promises.
unsafe impl Storage for Bf16 {
    type Element = u32;
    const VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn row<S: Simd>(p: *const u32, k: usize) -> [S::V; 2] {
        // SAFETY: the caller's promise.
        unsafe { S::halves(p.add(k * S::LANES)) }
    }
}

/// How a group of quantised weights is multiplied.
///
/// # Safety
/// As [`Simd`].
pub(in crate::backend::cpu) unsafe trait Quantised {
    const BITS: Bits;
    /// Adds the products of a group's whole numbers, those of panel `p` beginning `p * size` words after `w`, with the group's
    /// inputs, those of row `m` beginning `m * stride` after `x`, to `sums`.
    unsafe fn group<S: Simd, const M: usize, const P: usize>(
        w: *const u32,
        size: usize,
        x: *const f32,
        stride: usize,
        sums: &mut [[[S::V; 2]; P]; M],
    );
}

#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct Int8;

#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct Int4;

// SAFETY: reads the words of one group, as the trait promises.
unsafe impl Quantised for Int8 {
    const BITS: Bits = Bits::Eight;

    #[inline(always)]
    unsafe fn group<S: Simd, const M: usize, const P: usize>(
        w: *const u32,
        size: usize,
        x: *const f32,
        stride: usize,
        sums: &mut [[[S::V; 2]; P]; M],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            for k in 0..GROUP {
                let mut weights = [[S::splat(0.0); 2]; P];
                for (p, weights) in weights.iter_mut().enumerate() {
                    let at = w.add(p * size).cast::<i8>().add(k * 2 * S::LANES);
                    *weights = [S::bytes(at), S::bytes(at.add(S::LANES))];
                }
                for (m, sums) in sums.iter_mut().enumerate() {
                    let v = S::splat(*x.add(m * stride + k));
                    for (sums, w) in sums.iter_mut().zip(&weights) {
                        sums[0] = S::fma(v, w[0], sums[0]);
                        sums[1] = S::fma(v, w[1], sums[1]);
                    }
                }
            }
        }
    }
}

// SAFETY: reads the words of one group, as the trait promises.
unsafe impl Quantised for Int4 {
    const BITS: Bits = Bits::Four;

    #[inline(always)]
    unsafe fn group<S: Simd, const M: usize, const P: usize>(
        w: *const u32,
        size: usize,
        x: *const f32,
        stride: usize,
        sums: &mut [[[S::V; 2]; P]; M],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            for eight in 0..GROUP / 8 {
                let mut words = [[S::words(w); 2]; P];
                for (p, words) in words.iter_mut().enumerate() {
                    let at = w.add(p * size + eight * 2 * S::LANES);
                    *words = [S::words(at), S::words(at.add(S::LANES))];
                }
                let x = x.add(eight * 8);
                macro_rules! inputs {
                    ($($j:literal)*) => {$({
                        let mut weights = [[S::splat(0.0); 2]; P];
                        for (weights, words) in weights.iter_mut().zip(&words) {
                            *weights = [S::nibbles(words[0], $j), S::nibbles(words[1], $j)];
                        }
                        for (m, sums) in sums.iter_mut().enumerate() {
                            let v = S::splat(*x.add(m * stride + $j));
                            for (sums, w) in sums.iter_mut().zip(&weights) {
                                sums[0] = S::fma(v, w[0], sums[0]);
                                sums[1] = S::fma(v, w[1], sums[1]);
                            }
                        }
                    })*};
                }
                inputs!(0 1 2 3 4 5 6 7);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct Avx512;

#[cfg(target_arch = "x86_64")]
// SAFETY: every function touches `LANES` elements at most.
unsafe impl Simd for Avx512 {
    const LANES: usize = 16;
    const MAX_ROWS: usize = 12;
    const MAX_QUANTISED_ROWS: usize = 4;
    type V = __m512;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(p) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m512) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(p, v) }
    }

    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: __m512, n: usize) {
        let mask = if n >= 16 { u16::MAX } else { (1 << n) - 1 };
        // SAFETY: the caller's promise for the elements of the mask; the others are not touched.
        unsafe { _mm512_mask_storeu_ps(p, mask, v) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn halves(p: *const u32) -> [__m512; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm512_loadu_si512(p.cast());
            let lower = _mm512_slli_epi32::<16>(words);
            let upper = _mm512_and_si512(words, _mm512_set1_epi32(0xFFFF_0000_u32.cast_signed()));
            [_mm512_castsi512_ps(lower), _mm512_castsi512_ps(upper)]
        }
    }

    #[inline(always)]
    unsafe fn upper(p: *const u16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
        }
    }

    #[inline(always)]
    unsafe fn bytes(p: *const i8) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()))) }
    }

    type Words = __m512i;

    #[inline(always)]
    unsafe fn words(p: *const u32) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }

    #[inline(always)]
    unsafe fn nibbles(words: __m512i, j: i32) -> __m512 {
        // A table of 16 numbers: the permutation looks at the lowest four bits of each word only.
        // SAFETY: the caller's promise.
        unsafe {
            let table = _mm512_setr_ps(
                0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0,
            );
            _mm512_permutexvar_ps(_mm512_srlv_epi32(words, _mm512_set1_epi32(4 * j)), table)
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct Avx2;

#[cfg(target_arch = "x86_64")]
// SAFETY: every function touches `LANES` elements at most.
unsafe impl Simd for Avx2 {
    const LANES: usize = 8;
    const MAX_ROWS: usize = 6;
    const MAX_QUANTISED_ROWS: usize = 2;
    type V = __m256;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_ps(p) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m256) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_ps(p, v) }
    }

    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: __m256, n: usize) {
        // A window of eight into eight ones and eight zeros.
        const MASK: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: the window is inside `MASK`; the caller's promise for the elements of the mask.
        unsafe {
            let mask = _mm256_loadu_si256(MASK.as_ptr().add(8 - n.min(8)).cast());
            _mm256_maskstore_ps(p, mask, v);
        }
    }

    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn halves(p: *const u32) -> [__m256; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm256_loadu_si256(p.cast());
            let lower = _mm256_slli_epi32::<16>(words);
            let upper = _mm256_and_si256(words, _mm256_set1_epi32(0xFFFF_0000_u32.cast_signed()));
            [_mm256_castsi256_ps(lower), _mm256_castsi256_ps(upper)]
        }
    }

    #[inline(always)]
    unsafe fn upper(p: *const u16) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
        }
    }

    #[inline(always)]
    unsafe fn bytes(p: *const i8) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()))) }
    }

    type Words = __m256i;

    #[inline(always)]
    unsafe fn words(p: *const u32) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_si256(p.cast()) }
    }

    #[inline(always)]
    unsafe fn nibbles(words: __m256i, j: i32) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let upper = _mm256_sllv_epi32(words, _mm256_set1_epi32(28 - 4 * j));
            _mm256_cvtepi32_ps(_mm256_srai_epi32::<28>(upper))
        }
    }
}

#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct Portable;

// SAFETY: every function touches `LANES` elements at most.
unsafe impl Simd for Portable {
    const LANES: usize = 8;
    const MAX_ROWS: usize = 4;
    const MAX_QUANTISED_ROWS: usize = 1;
    type V = [f32; 8];

    #[inline(always)]
    unsafe fn splat(x: f32) -> [f32; 8] {
        [x; 8]
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> [f32; 8] {
        // SAFETY: the caller's promise; an array of f32 may be read at any f32's address.
        unsafe { p.cast::<[f32; 8]>().read() }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: [f32; 8]) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[f32; 8]>().write(v) }
    }

    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: [f32; 8], n: usize) {
        for (i, x) in v.iter().enumerate().take(n) {
            // SAFETY: the caller's promise.
            unsafe { p.add(i).write(*x) };
        }
    }

    #[inline(always)]
    unsafe fn fma(a: [f32; 8], b: [f32; 8], mut c: [f32; 8]) -> [f32; 8] {
        for i in 0..8 {
            c[i] = if crate::backend::cpu::isa::PORTABLE_FMA {
                a[i].mul_add(b[i], c[i])
            } else {
                a[i] * b[i] + c[i]
            };
        }
        c
    }

    #[inline(always)]
    unsafe fn halves(p: *const u32) -> [[f32; 8]; 2] {
        // SAFETY: the caller's promise.
        let words = unsafe { p.cast::<[u32; 8]>().read() };
        [
            words.map(|w| f32::from_bits(w << 16)),
            words.map(|w| f32::from_bits(w & 0xFFFF_0000)),
        ]
    }

    #[inline(always)]
    unsafe fn upper(p: *const u16) -> [f32; 8] {
        // SAFETY: the caller's promise; an array of u16 may be read at any u16's address.
        unsafe { p.cast::<[u16; 8]>().read() }.map(|half| f32::from_bits(u32::from(half) << 16))
    }

    #[inline(always)]
    unsafe fn bytes(p: *const i8) -> [f32; 8] {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[i8; 8]>().read() }.map(f32::from)
    }

    type Words = [u32; 8];

    #[inline(always)]
    unsafe fn words(p: *const u32) -> [u32; 8] {
        // SAFETY: the caller's promise; an array of u32 may be read at any u32's address.
        unsafe { p.cast::<[u32; 8]>().read() }
    }

    #[inline(always)]
    unsafe fn nibbles(words: [u32; 8], j: i32) -> [f32; 8] {
        words.map(|w| ((w << (28 - 4 * j)).cast_signed() >> 28) as f32)
    }
}
