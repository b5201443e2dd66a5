//! Load options of a model: number format, implementation and parts.

use std::fmt;

use omni_backend::Weights;
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

impl LoadOptions {
    /// Number format of the language models' keys and values.
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
/// The reason it cannot be used.
pub fn probe_gpu(device: usize) -> Result<String, String> {
    #[cfg(feature = "cuda")]
    return omni_gpu::Cuda::probe(device).map_err(|error| error.to_string());
    #[cfg(not(feature = "cuda"))]
    Err(format!(
        "this build has no CUDA kernels for device {device}, `make cuda` builds them"
    ))
}
