//! Vectors of f32, and how a panel row becomes two of them.
//!
//! One file for each instruction set; the layout of a matrix depends on the lanes of its vectors alone.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use super::quant::{Bits, GROUP};
#[cfg(target_arch = "x86_64")]
pub(in crate::cpu) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(in crate::cpu) use avx512::Avx512;
pub(in crate::cpu) use portable::Portable;

/// A vector of f32.
///
/// # Safety
/// All functions may only run where the machine has the type's instructions, and inside functions compiled for them
/// (they are inlined there). Pointers must be valid for [`Simd::LANES`] elements.
pub(in crate::cpu) unsafe trait Simd: Copy {
    const LANES: usize;
    /// Rows of a block: as many as the registers hold.
    const MAX_ROWS: usize;
    /// As above where a group's sums need twice the registers.
    const MAX_QUANTISED_ROWS: usize;
    type V: Copy;
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    /// Stores the first `n` elements, at most all.
    unsafe fn store_first(p: *mut f32, v: Self::V, n: usize);
    /// `a * b + c`.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Clamps `v` to two bounds; NaN becomes the lower one.
    unsafe fn clamp(v: Self::V, least: Self::V, most: Self::V) -> Self::V;
}

/// Numbers of fewer bits as vectors of f32.
///
/// # Safety
/// As [`Simd`].
pub(in crate::cpu) unsafe trait Widen: Simd {
    /// The lower and the upper halves of the words, each as the upper half of an f32.
    unsafe fn halves(p: *const u32) -> [Self::V; 2];
    /// [`Simd::LANES`] numbers in f16.
    unsafe fn half_precision(p: *const u16) -> Self::V;
    /// [`Simd::LANES`] signed bytes.
    unsafe fn bytes(p: *const i8) -> Self::V;
}

/// Numbers of four bits as vectors of f32.
///
/// # Safety
/// As [`Simd`].
pub(in crate::cpu) unsafe trait Nibbles: Widen {
    type Words: Copy;
    unsafe fn words(p: *const u32) -> Self::Words;
    /// Bits `4 * j .. 4 * j + 4` of each word as a number of -8 to 7; `j` should be a constant.
    unsafe fn nibbles(words: Self::Words, j: i32) -> Self::V;
}

/// Storage of a panel's numbers.
///
/// # Safety
/// As [`Simd`]; `p` must point to a panel of more than `k` rows.
pub(in crate::cpu) unsafe trait Storage {
    type Element: Copy;
    /// Elements of a panel row, in vectors.
    const VECTORS: usize;
    unsafe fn row<S: Widen>(p: *const Self::Element, k: usize) -> [S::V; 2];
}

#[derive(Clone, Copy)]
pub(in crate::cpu) struct F32;

#[derive(Clone, Copy)]
pub(in crate::cpu) struct Bf16;

// SAFETY: reads `2 * LANES` numbers from row `k`, as the trait promises.
unsafe impl Storage for F32 {
    type Element = f32;
    const VECTORS: usize = 2;

    #[inline(always)]
    unsafe fn row<S: Widen>(p: *const f32, k: usize) -> [S::V; 2] {
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
    unsafe fn row<S: Widen>(p: *const u32, k: usize) -> [S::V; 2] {
        // SAFETY: the caller's promise.
        unsafe { S::halves(p.add(k * S::LANES)) }
    }
}

/// Product with a group of quantised weights.
///
/// # Safety
/// As [`Simd`].
pub(in crate::cpu) unsafe trait Quantised {
    const BITS: Bits;
    /// Adds the products of a group's whole numbers, those of panel `p` beginning `p * size` words after `w`, with the
    /// group's inputs, those of row `m` beginning `m * stride` after `x`, to `sums`.
    unsafe fn group<S: Nibbles, const M: usize, const P: usize>(
        w: *const u32,
        size: usize,
        x: *const f32,
        stride: usize,
        sums: &mut [[[S::V; 2]; P]; M],
    );
}

#[derive(Clone, Copy)]
pub(in crate::cpu) struct Int8;

#[derive(Clone, Copy)]
pub(in crate::cpu) struct Int4;

// SAFETY: reads the words of one group, as the trait promises.
unsafe impl Quantised for Int8 {
    const BITS: Bits = Bits::Eight;

    #[inline(always)]
    unsafe fn group<S: Nibbles, const M: usize, const P: usize>(
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
    unsafe fn group<S: Nibbles, const M: usize, const P: usize>(
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
