//! Load options of a model: number format, implementation and parts.

use std::fmt;

use serde::Deserialize;

/// Number format that weights are kept and computed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits with the range of 32.
    Bf16,
    /// 16 bits, IEEE.
    F16,
}

impl fmt::Display for DType {
    /// As it is written in files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        })
    }
}

impl DType {
    /// Bytes of a number.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }
}

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
    pub(crate) fn caches_halves(self) -> bool {
        matches!(self, Self::Int8 | Self::Int4 | Self::RoundedProducts)
    }
}

impl LoadOptions {
    /// Number format of the language models' keys and values.
    #[must_use]
    pub fn cached(self) -> DType {
        match (self.kernels, self.dtype) {
            (Kernels::Auto, DType::F32) if self.weights.caches_halves() => DType::F16,
            (_, dtype) => dtype,
        }
    }
}

/// Implementation of the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kernels {
    /// The fastest there is for the number format: own kernels for f32, else candle.
    #[default]
    Auto,
    /// Candle's layers on the processor, as the reference for the others.
    Candle,
    /// An NVIDIA device: f32 or bf16. Loading fails without feature `cuda`.
    Cuda {
        /// The device's number, from 0.
        device: usize,
        /// `true` if equal steps are recorded as graphs.
        graphs: bool,
    },
    /// A GPU's kernels on the processor, for tests: f32 or bf16. `graphs`: steps that are alike become graphs.
    #[cfg(feature = "emulator")]
    Emulated {
        /// `true` if equal steps are recorded as graphs.
        graphs: bool,
    },
    /// Emulator with graphs that runs queued work only when a caller waits for it: as late as a device may.
    #[cfg(feature = "emulator")]
    EmulatedLate,
}

/// Load options of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadOptions {
    /// Number format of the computation.
    pub dtype: DType,
    /// Storage of the language models' matrices in the processor's kernels.
    pub weights: Weights,
    /// Implementation of the operations.
    pub kernels: Kernels,
    /// Parts to be read.
    pub parts: Parts,
}

/// Networks to load. Those that speak are checked in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// The talker with its code predictor.
    pub talker: bool,
    /// The vocoder.
    pub code2wav: bool,
    /// Thinker and audio encoder, loaded on demand: requires their files.
    pub converse: bool,
}

impl Default for Parts {
    /// All that speaks.
    fn default() -> Self {
        Self {
            talker: true,
            code2wav: true,
            converse: false,
        }
    }
}

/// Name of NVIDIA device `device`, if models can run on it; allocates none of its memory.
///
/// # Errors
///
/// The reason it cannot be used.
pub fn probe_gpu(device: usize) -> Result<String, String> {
    #[cfg(feature = "cuda")]
    return omni_gpu::Cuda::probe(device).map_err(|error| error.to_string());
    #[cfg(not(feature = "cuda"))]
    Err(format!(
        "this build has no CUDA kernels for device {device}, `make cuda` builds them"
    ))
}
