//! Vectors of eight numbers in portable code: two NEON registers on aarch64.

use super::{Nibbles, Simd, Widen};

#[derive(Clone, Copy)]
pub(in crate::cpu) struct Portable;

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
            c[i] = if crate::cpu::isa::PORTABLE_FMA {
                a[i].mul_add(b[i], c[i])
            } else {
                a[i] * b[i] + c[i]
            };
        }
        c
    }

    #[inline(always)]
    unsafe fn clamp(mut v: [f32; 8], least: [f32; 8], most: [f32; 8]) -> [f32; 8] {
        for i in 0..8 {
            // Comparisons with NaN are false, so NaN becomes `least`.
            let x = if v[i] > least[i] { v[i] } else { least[i] };
            v[i] = if x < most[i] { x } else { most[i] };
        }
        v
    }
}

// SAFETY: every function touches `LANES` elements at most.
unsafe impl Widen for Portable {
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
    unsafe fn half_precision(p: *const u16) -> [f32; 8] {
        // SAFETY: the caller's promise; an array of u16 may be read at any u16's address.
        unsafe { p.cast::<[u16; 8]>().read() }.map(|half| half::f16::from_bits(half).to_f32())
    }

    #[inline(always)]
    unsafe fn bytes(p: *const i8) -> [f32; 8] {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[i8; 8]>().read() }.map(f32::from)
    }
}

// SAFETY: every function touches `LANES` elements at most.
unsafe impl Nibbles for Portable {
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
