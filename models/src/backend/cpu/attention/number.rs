//! What keys and values are cached in.
#![expect(unsafe_code, reason = "vector intrinsics, behind a trait of one line each")]

use half::bf16;

use super::super::gemm::simd::Simd;

/// A number of the cache, and how a vector of them is read.
///
/// # Safety
/// `load` may only run where the machine has the instructions of `S`, with a pointer to [`Simd::LANES`] numbers.
pub(in crate::backend::cpu) unsafe trait Number:
    Copy + Send + 'static
{
    /// Zero, in a pattern that is not: memory that is filled with it is taken from the system now.
    const ZERO: Self;
    fn of(x: f32) -> Self;
    fn value(self) -> f32;
    unsafe fn load<S: Simd>(p: *const Self) -> S::V;
}

// SAFETY: reads as many numbers as the trait says.
unsafe impl Number for f32 {
    const ZERO: f32 = -0.0;

    #[inline(always)]
    fn of(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn value(self) -> f32 {
        self
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(p: *const f32) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { S::load(p) }
    }
}

// SAFETY: reads as many numbers as the trait says; a `bf16` is the upper half of an f32.
unsafe impl Number for bf16 {
    const ZERO: bf16 = bf16::NEG_ZERO;

    #[inline(always)]
    fn of(x: f32) -> bf16 {
        bf16::from_f32(x)
    }

    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(p: *const bf16) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { S::upper(p.cast()) }
    }
}
