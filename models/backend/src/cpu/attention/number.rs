//! Number formats of cached keys and values.
#![expect(unsafe_code, reason = "vector intrinsics, behind a trait of one line each")]

use half::f16;

use super::super::gemm::simd::Widen;

/// A number of the cache, and how a vector of them is read.
///
/// # Safety
/// `load` may only run where the machine has the instructions of `S`, with a pointer to `S::LANES` numbers.
pub(in crate::cpu) unsafe trait Number: Copy + Send + 'static {
    /// Zero, in a pattern that is not: memory that is filled with it is taken from the system now.
    const ZERO: Self;
    fn of(x: f32) -> Self;
    fn value(self) -> f32;
    unsafe fn load<S: Widen>(p: *const Self) -> S::V;
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
    unsafe fn load<S: Widen>(p: *const f32) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { S::load(p) }
    }
}

// SAFETY: reads as many numbers as the trait says.
unsafe impl Number for f16 {
    const ZERO: f16 = f16::NEG_ZERO;

    #[inline(always)]
    fn of(x: f32) -> f16 {
        // Clamped, because an infinite key would turn every score into NaN. NaN stays NaN.
        f16::from_f32(x.clamp(f16::MIN.to_f32(), f16::MAX.to_f32()))
    }

    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    unsafe fn load<S: Widen>(p: *const f16) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { S::half_precision(p.cast()) }
    }
}
