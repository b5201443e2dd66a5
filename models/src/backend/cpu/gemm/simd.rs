//! Vectors of f32, and how a panel row becomes two of them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A vector of f32.
///
/// # Safety
/// All functions may only run where the machine has the type's instructions, and inside functions compiled for them
/// (they are inlined there). Pointers must be valid for [`Simd::LANES`] elements.
pub(in crate::backend::cpu) unsafe trait Simd: Copy {
    const LANES: usize;
    /// Rows of a block: as many as the registers hold.
    const MAX_ROWS: usize;
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

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct Avx512;

#[cfg(target_arch = "x86_64")]
// SAFETY: every function touches `LANES` elements at most.
unsafe impl Simd for Avx512 {
    const LANES: usize = 16;
    const MAX_ROWS: usize = 12;
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
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct Avx2;

#[cfg(target_arch = "x86_64")]
// SAFETY: every function touches `LANES` elements at most.
unsafe impl Simd for Avx2 {
    const LANES: usize = 8;
    const MAX_ROWS: usize = 6;
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
}

#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct Portable;

// SAFETY: every function touches `LANES` elements at most.
unsafe impl Simd for Portable {
    const LANES: usize = 8;
    const MAX_ROWS: usize = 4;
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
}
