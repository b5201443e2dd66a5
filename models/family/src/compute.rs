//! Devices and number formats of the stages of a model.

use std::collections::BTreeMap;
use std::fmt;

use omni_models::{DType, Weights};
use omni_pipeline::settings::of_replica;

/// Device that computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// The NVIDIA device of this number.
    Cuda(u32),
    /// A GPU's kernels on the processor, for tests.
    #[cfg(feature = "emulator")]
    Emulated,
}

impl fmt::Display for Device {
    /// Form in flags and files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            #[cfg(feature = "emulator")]
            Self::Emulated => f.write_str("emulated"),
        }
    }
}

impl Device {
    /// Reads `cpu`, `cuda` (the first) or `cuda:N`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(0)),
            #[cfg(feature = "emulator")]
            "emulated" => Some(Self::Emulated),
            text => {
                let digits = text.strip_prefix("cuda:")?;
                let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
                plain.then(|| digits.parse().ok().map(Self::Cuda))?
            }
        }
    }

    /// Returns true for a device apart from the processor: batches are nearly free there, and each step has a fixed
    /// cost.
    pub fn is_gpu(self) -> bool {
        self != Self::Cpu
    }
}

/// The KV cache of a replica of an autoregressive stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvCache {
    /// Positions of a block.
    pub block_size: u32,
    /// Number of blocks, unless `memory` decides it.
    pub blocks: u32,
    /// Bytes for the blocks.
    pub memory: Option<u64>,
}

/// Compute settings of the replicas of one stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageCompute {
    /// Devices: one for all replicas, or one for each.
    pub devices: Vec<Device>,
    /// Number format of the computation.
    pub dtype: DType,
    /// Number format of the matrices on the processor.
    pub weights: Weights,
    /// On a GPU: launches every kernel on its own, without graphs.
    pub enforce_eager: bool,
    /// `true` if threads of the server compute the stage, false if processes of its own do.
    pub in_server: bool,
    /// Cache of an autoregressive stage.
    pub kv: Option<KvCache>,
}

impl StageCompute {
    /// Device of a replica.
    pub fn device(&self, replica: u32) -> Device {
        of_replica(&self.devices, replica).copied().unwrap_or_default()
    }

    /// The number formats of computation and weights on that device.
    pub(crate) fn numbers(&self, device: Device) -> (DType, Weights) {
        match (device.is_gpu(), self.dtype, self.weights) {
            // A GPU keeps weights in `dtype`.
            (true, dtype, _) => (dtype, Weights::Stored),
            // The processor's kernels compute in f32; 16-bit weights only reduce memory traffic.
            (false, DType::Bf16, Weights::Stored) => (DType::F32, Weights::Bf16),
            (false, _, weights) => (DType::F32, weights),
        }
    }

    /// Number formats of the replicas, as text: one for all, or one for each. Replicas of one checkpoint with equal
    /// texts give the same outputs, except for the rounding of another processor or device.
    pub fn number_formats(&self) -> Vec<String> {
        let format = |device: &Device| {
            let (dtype, weights) = self.numbers(*device);
            if device.is_gpu() {
                format!("{dtype} on a GPU")
            } else {
                format!("{dtype} with weights {weights} on a processor")
            }
        };
        self.devices.iter().map(format).collect()
    }
}

/// Compute settings of every stage of a graph.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ComputePlan {
    /// The family that the plan is for; none if it is for any.
    pub family: Option<&'static str>,
    /// By name.
    pub stages: BTreeMap<&'static str, StageCompute>,
}

impl ComputePlan {
    /// Refuses a model of another family than the plan is for.
    pub(crate) fn check_family(&self, found: &'static str) -> Result<(), FamilyError> {
        match self.family {
            Some(planned) if planned != found => Err(FamilyError { planned, found }),
            _ => Ok(()),
        }
    }
}

/// The model is of another family than the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the deploy configuration is for the family {planned}, the model is of the family {found}")]
pub struct FamilyError {
    planned: &'static str,
    found: &'static str,
}

/// Part of a model that a process computes.
#[derive(Debug, Clone, Copy)]
pub enum ProcessRole {
    /// The stages whose replicas are threads of the server.
    Server {
        /// `true` without the part that converses.
        speech_only: bool,
    },
    /// One replica of one stage.
    Stage {
        /// The stage's name.
        stage: &'static str,
        /// The replica's number.
        replica: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_replicas_have_one_format_if_they_compute_in_the_same_numbers() {
        let formats = |dtype, weights| {
            let compute = StageCompute {
                devices: vec![Device::Cpu, Device::Cuda(0), Device::Cuda(1)],
                dtype,
                weights,
                enforce_eager: false,
                in_server: true,
                kv: None,
            };
            let formats = compute.number_formats();
            assert_eq!(formats[1], formats[2], "of two devices of one kind");
            (formats[0].clone(), formats[1].clone())
        };
        let (stored, _) = formats(DType::F32, Weights::Stored);
        let (int4, gpu) = formats(DType::F32, Weights::Int4);
        let (halves, half_gpu) = formats(DType::Bf16, Weights::Stored);
        assert_eq!(
            halves,
            formats(DType::F32, Weights::Bf16).0,
            "what is computed counts"
        );
        let all = [&stored, &int4, &halves, &gpu, &half_gpu];
        let different: std::collections::BTreeSet<_> = all.into_iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
    }

    #[test]
    fn what_is_printed_reads_as_the_same_device() {
        for text in ["cpu", "cuda:0", "cuda:15"] {
            assert_eq!(Device::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Device::parse("cuda"), Some(Device::Cuda(0)));
        for text in [
            "",
            "gpu",
            "cuda:",
            "cuda:-1",
            "cuda:+1",
            "cuda:99999",
            "CUDA:0",
            "cuda:0 ",
        ] {
            assert_eq!(Device::parse(text), None, "{text:?}");
        }
    }
}
