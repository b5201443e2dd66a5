//! Vectors of eight numbers: AVX2 with FMA and F16C.

use std::arch::x86_64::*;

use super::{Nibbles, Simd, Widen};

#[derive(Clone, Copy)]
pub(in crate::cpu) struct Avx2;

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
    unsafe fn clamp(v: __m256, least: __m256, most: __m256) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_min_ps(_mm256_max_ps(v, least), most) }
    }
}

// SAFETY: every function touches `LANES` elements at most.
unsafe impl Widen for Avx2 {
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
    unsafe fn half_precision(p: *const u16) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }

    #[inline(always)]
    unsafe fn bytes(p: *const i8) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()))) }
    }
}

// SAFETY: every function touches `LANES` elements at most.
unsafe impl Nibbles for Avx2 {
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
