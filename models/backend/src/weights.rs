//! Number formats of matrices.

use std::fmt;

use serde::Deserialize;

/// Number format of the language models' matrices (talker, code predictor, thinker) on the CPU, which are most of a
/// step's reads. Activations are f32 with all formats; vocoder, routers and lookup tables stay as stored, except with
/// [`Weights::RoundedProducts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    /// As stored: f32 or bf16 (f16 is widened).
    #[default]
    #[serde(rename = "auto")]
    Stored,
    /// 32 bits.
    F32,
    /// 16 bits with the range of 32.
    Bf16,
    /// As [`Weights::Stored`], but both factors of a product are rounded where that is faster: to bf16 with AMX and,
    /// on AMD's processors, with AVX512-BF16; to whole numbers of 14 bits (32 share a scale) with AVX2 and no AVX-512.
    /// Sums are f32. For the vocoder, which is bound by its products.
    RoundedProducts,
    /// 8 bits and a scale for 32 inputs of an output: 8.5 bits a weight.
    Int8,
    /// 4 bits and a scale for 32 inputs of an output: 4.5 bits a weight. Output heads, which choose, are
    /// [`Weights::Int8`].
    Int4,
}

impl fmt::Display for Weights {
    /// As it is written in files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stored => "auto",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::RoundedProducts => "rounded",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        })
    }
}

impl Weights {
    /// Returns true if keys and values are cached in f16; the factors are already rounded more coarsely than that.
    pub fn caches_halves(self) -> bool {
        matches!(self, Self::Int8 | Self::Int4 | Self::RoundedProducts)
    }
}
