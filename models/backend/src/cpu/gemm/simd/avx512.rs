//! Vectors of 16 numbers: AVX-512.

use std::arch::x86_64::*;

use super::{Nibbles, Simd, Widen};

#[derive(Clone, Copy)]
pub(in crate::cpu) struct Avx512;

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
    unsafe fn clamp(v: __m512, least: __m512, most: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_min_ps(_mm512_max_ps(v, least), most) }
    }
}

// SAFETY: every function touches `LANES` elements at most.
unsafe impl Widen for Avx512 {
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
    unsafe fn half_precision(p: *const u16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }

    #[inline(always)]
    unsafe fn bytes(p: *const i8) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()))) }
    }
}

// SAFETY: every function touches `LANES` elements at most.
unsafe impl Nibbles for Avx512 {
    type Words = __m512i;

    #[inline(always)]
    unsafe fn words(p: *const u32) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }

    #[inline(always)]
    unsafe fn nibbles(words: __m512i, j: i32) -> __m512 {
        // SAFETY: by the caller's promise. The table has 16 numbers: the permutation reads only the lowest four bits
        // of each word.
        unsafe {
            let table = _mm512_setr_ps(
                0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0,
            );
            _mm512_permutexvar_ps(_mm512_srlv_epi32(words, _mm512_set1_epi32(4 * j)), table)
        }
    }
}
