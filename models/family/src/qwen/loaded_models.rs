//! One checkpoint on every device that a stage of this process computes on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use omni_models::{
    CODE2WAV, CheckpointSource, DType, Kernels, LoadOptions, Parts, QWEN3_OMNI, SpeechModel, TALKER, Weights,
};

use crate::DeviceFigures;
use crate::compute::{ComputePlan, Device, ProcessRole, StageCompute};

/// Compute targets of the stage `name` in a process with that role.
pub(super) fn targets(role: ProcessRole, name: &str, plan: &ComputePlan) -> Vec<ComputeTarget> {
    let Some(stage) = plan.stages.get(name) else {
        return Vec::new();
    };
    let mut targets: Vec<_> = match role {
        ProcessRole::Server { speech_only } => {
            let left_out = speech_only && QWEN3_OMNI.speech_only().stage(name).is_none();
            if stage.in_server && !left_out {
                (0..).take(stage.devices.len()).collect()
            } else {
                Vec::new()
            }
        }
        ProcessRole::Stage { stage, replica } if stage == name => vec![replica],
        ProcessRole::Stage { .. } => Vec::new(),
    }
    .into_iter()
    .map(|replica| ComputeTarget::of(stage, replica))
    .collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// Returns true if a process holds conversations.
pub(super) fn converses(role: ProcessRole) -> bool {
    match role {
        ProcessRole::Server { speech_only } => !speech_only,
        ProcessRole::Stage { stage, .. } => {
            let answers = QWEN3_OMNI.answers();
            let hears = answers.and_then(|node| QWEN3_OMNI.encoder(node.name));
            answers.into_iter().chain(hears).any(|node| node.name == stage)
        }
    }
}

/// Compute settings of the stage `stage`.
pub(super) fn planned<'p>(plan: &'p ComputePlan, stage: &str) -> anyhow::Result<&'p StageCompute> {
    let planned = plan.stages.get(stage);
    planned.with_context(|| format!("the plan lacks the stage {stage}, expected every stage of the graph"))
}

/// Compute target of a replica. Replicas with equal targets share weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ComputeTarget {
    device: Device,
    dtype: DType,
    weights: Weights,
    /// Every kernel on its own, without graphs.
    eager: bool,
}

impl fmt::Display for ComputeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.device, self.dtype)
    }
}

impl ComputeTarget {
    pub(super) fn of(stage: &StageCompute, replica: u32) -> Self {
        let device = stage.device(replica);
        let (dtype, weights) = stage.numbers(device);
        Self {
            device,
            dtype,
            weights,
            eager: stage.enforce_eager && device.is_gpu(),
        }
    }

    fn options(self, parts: Parts) -> LoadOptions {
        let graphs = !self.eager;
        LoadOptions {
            dtype: self.dtype,
            weights: self.weights,
            kernels: match self.device {
                Device::Cpu => Kernels::Auto,
                Device::Cuda(number) => Kernels::Cuda {
                    device: number as usize,
                    graphs,
                },
                #[cfg(feature = "emulator")]
                Device::Emulated if graphs => Kernels::EmulatedLate,
                #[cfg(feature = "emulator")]
                Device::Emulated => Kernels::Emulated { graphs: false },
            },
            parts,
        }
    }
}

/// Load options of the first replica of a stage.
pub(super) fn options(stage: &StageCompute) -> LoadOptions {
    ComputeTarget::of(stage, 0).options(Parts::default())
}

/// The models, at least one.
#[derive(Debug)]
pub(super) struct LoadedModels(BTreeMap<ComputeTarget, SpeechModel>);

impl LoadedModels {
    /// Loads the part that `role` needs.
    ///
    /// # Errors
    /// All problems of the checkpoint, or of the device.
    pub(super) fn load(
        checkpoint: &CheckpointSource,
        name: &str,
        plan: &ComputePlan,
        role: ProcessRole,
    ) -> anyhow::Result<Self> {
        let nothing = Parts {
            talker: false,
            code2wav: false,
            converse: converses(role),
        };
        let mut wanted: BTreeMap<ComputeTarget, Parts> = BTreeMap::new();
        let speech = QWEN3_OMNI.speech_only();
        for stage in &*QWEN3_OMNI.stages {
            // The others are read with the part that converses, from a model that is there.
            let speaks = speech.stage(stage.name).is_some();
            if !speaks && !converses(role) {
                continue;
            }
            for target in targets(role, stage.name, plan) {
                let parts = wanted.entry(target).or_insert(nothing);
                parts.talker |= stage.name == TALKER;
                parts.code2wav |= stage.name == CODE2WAV;
            }
        }
        if wanted.is_empty() {
            // Properties are needed here even of stages that are computed elsewhere.
            let target = ComputeTarget {
                device: Device::Cpu,
                dtype: DType::F32,
                weights: Weights::Stored,
                eager: false,
            };
            wanted.insert(target, nothing);
        }
        let options: Vec<_> = wanted
            .iter()
            .map(|(target, parts)| target.options(*parts))
            .collect();
        let targets = || {
            wanted
                .keys()
                .map(ComputeTarget::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let models = SpeechModel::load_each(checkpoint.clone(), &options)
            .with_context(|| format!("cannot load the model {name} for {}", targets()))?;
        let models: BTreeMap<ComputeTarget, SpeechModel> = wanted.into_keys().zip(models).collect();
        if let (ProcessRole::Server { .. }, Some(unused)) =
            (role, models.values().next().and_then(SpeechModel::unused))
        {
            tracing::warn!("unused tensors in the checkpoint: {unused}");
        }
        for (target, model) in models.iter().filter(|(target, _)| target.device.is_gpu()) {
            warn_of_fallbacks(model, target.device);
        }
        Ok(Self(models))
    }

    /// Any of the models, for properties that all of them share.
    ///
    /// # Panics
    /// Never: there is one.
    pub(super) fn any(&self) -> &SpeechModel {
        self.0.values().next().expect("at least one model is loaded")
    }

    /// The model of that target, if there is one.
    pub(super) fn at(&self, target: ComputeTarget) -> Option<&SpeechModel> {
        self.0.get(&target)
    }

    /// Work given to GPUs so far, device by device.
    pub(super) fn figures(&self) -> Vec<DeviceFigures> {
        let mut figures: BTreeMap<Device, DeviceFigures> = BTreeMap::new();
        for (target, model) in &self.0 {
            let Some(own) = model.gpu_figures() else { continue };
            let device = target.device;
            let sum = figures
                .entry(device)
                .or_insert_with(|| DeviceFigures::new(device));
            sum.launches += own.launches;
            sum.graphs += own.graphs;
            sum.replays += own.replays;
            sum.graph_launches += own.recorded_launches + own.replayed_launches;
            sum.fallbacks += own.fallbacks;
        }
        figures.into_values().collect()
    }
}

/// Logs one warning per model; the metrics count the rest.
fn warn_of_fallbacks(model: &SpeechModel, device: Device) {
    let told = AtomicBool::new(false);
    model.tell_gpu_fallbacks(Box::new(move |why| {
        if told.swap(true, Ordering::Relaxed) {
            tracing::debug!(%device, why, "CUDA graph fallback");
        } else {
            tracing::warn!(
                %device,
                why,
                "CUDA graph fallback: kernels launched one by one (same result, slower); further ones are only counted \
                 (vllm:omni_gpu_graph_fallbacks_total)"
            );
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_computes_in_f32_and_halves_are_how_its_weights_are_kept() {
        for (dtype, weights, kept) in [
            (DType::Bf16, Weights::Stored, Weights::Bf16),
            (DType::F16, Weights::Stored, Weights::Stored),
            (DType::F32, Weights::Int8, Weights::Int8),
            (DType::F32, Weights::Stored, Weights::Stored),
        ] {
            let options = options(&StageCompute {
                devices: vec![Device::Cpu],
                dtype,
                weights,
                enforce_eager: false,
                in_server: true,
                kv: None,
            });
            assert_eq!((options.dtype, options.kernels), (DType::F32, Kernels::Auto));
            assert_eq!(options.weights, kept, "{dtype} {weights:?}");
        }
    }
}
