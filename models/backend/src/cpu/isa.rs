//! Vector instructions of the machine, and the dispatch to functions compiled for them.

/// Instruction sets with kernels of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isa {
    /// 16 lanes, fused multiply-add.
    Avx512,
    /// 8 lanes, fused multiply-add.
    Avx2,
    /// Portable code for the compile target's baseline.
    Portable,
}

impl Isa {
    /// The best that this machine has.
    pub(super) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
            {
                return Self::Avx512;
            }
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
            {
                return Self::Avx2;
            }
        }
        Self::Portable
    }

    /// Returns true if there are tiles of bf16 numbers.
    pub(super) fn has_amx(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self == Self::Avx512 && super::gemm::amx::usable();
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// Returns true if products of pairs of bf16 are one instruction.
    pub(super) fn multiplies_pairs(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self == Self::Avx512 && is_x86_feature_detected!("avx512bf16");
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// Returns true if that instruction is faster than the products of f32. On Intel's processors it has a quarter of
    /// their rate (Granite Rapids: 1.7 against 6.9 G/s), on AMD's the same.
    pub(super) fn multiplies_pairs_fast(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.multiplies_pairs() && !is_intel();
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// Returns true if quantised weights are multiplied as whole numbers, which is faster than widening them to f32.
    pub(super) fn multiplies_bytes(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Self::Avx512 => is_x86_feature_detected!("avx512vnni"),
            Self::Avx2 => true,
            Self::Portable => false,
        };
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// Returns true if two products of 16 bits are one instruction, and no better one exists for values beyond a
    /// byte.
    pub(super) fn multiplies_int16(self) -> bool {
        self == Self::Avx2
    }

    /// All that this machine has, best first.
    #[cfg(test)]
    pub(super) fn available() -> Vec<Self> {
        let best = Self::best();
        [Self::Avx512, Self::Avx2, Self::Portable]
            .into_iter()
            .skip_while(|isa| *isa != best)
            .collect()
    }
}

#[cfg(target_arch = "x86_64")]
fn is_intel() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    let words = [vendor.ebx, vendor.edx, vendor.ecx];
    words.map(u32::to_le_bytes).as_flattened() == b"GenuineIntel"
}

/// `true` if every processor of the target has multiply-add, so that no detection is needed.
pub(super) const PORTABLE_FMA: bool = cfg!(target_arch = "aarch64");

/// Compiles `body::<FUSED>` (which must be `#[inline(always)]`) once per instruction set.
macro_rules! for_each_isa {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = $body:ident;)*) => {$(
        $(#[$meta])*
        $vis fn $name(isa: $crate::cpu::isa::Isa, $($arg: $ty),*) {
            use $crate::cpu::isa::{Isa, PORTABLE_FMA};
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
            fn avx512($($arg: $ty),*) {
                $body::<true>($($arg),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) {
                $body::<true>($($arg),*);
            }
            match isa {
                // SAFETY: `Isa::best` gives this value only where these instructions were detected.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => unsafe { avx2($($arg),*) },
                _ => $body::<PORTABLE_FMA>($($arg),*),
            }
        }
    )*};
}
