//! Settings that contradict each other or the machine.

use omni_family::{DType, Device, Weights};
use omni_yaml::Problem;

use super::Given;
use super::problem::{flag, problem};
use super::resolve::{Resolved, path};
use super::settings::{ArStage, Deploy, Of, Stage, scope};
use super::typed::{Products, StageConfig};
use crate::time::written;

/// Most positions of a KV cache: as many as block ids and positions can count.
const MAX_POSITIONS: u64 = 1 << 31;

/// The problems that no single value has.
pub(super) fn problems(deploy: &Deploy, values: &Resolved, given: &Given<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for node in Of::Stages.stages() {
        let mut check = Check {
            scope: scope(node.name),
            values,
            problems: Vec::new(),
        };
        let config = &deploy.stages[node.name];
        check.stage(config.stage(), given);
        match config {
            StageConfig::Ar(ar) => check.ar(ar),
            StageConfig::Chunk(chunk) if chunk.products == Products::Bf16 && on_gpu(&chunk.stage) => {
                let message = "found bf16, expected f32: GPUs compute in `dtype`";
                check.report(&["products", "devices"], message.to_owned());
            }
            StageConfig::Chunk(_) | StageConfig::OneShot(_) => {}
        }
        problems.extend(check.problems);
    }
    problems
}

fn on_gpu(stage: &Stage) -> bool {
    stage.devices.iter().copied().any(Device::is_gpu)
}

/// The check of one stage.
struct Check<'v> {
    scope: String,
    values: &'v Resolved,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn stage(&mut self, stage: &Stage, given: &Given<'_>) {
        let (replicas, devices) = (stage.replicas, &stage.devices);
        if devices.len() != 1 && devices.len() != replicas as usize {
            let message = format!(
                "found {} devices, expected 1 or one for each of {replicas} replicas",
                devices.len()
            );
            self.report(&["devices", "replicas"], message);
        }
        let mut seen = vec![given.device];
        for device in devices {
            if seen.contains(device) {
                continue;
            }
            seen.push(*device);
            if let Device::Cuda(number) = device
                && let Err(why) = (given.probe)(*number)
            {
                let message = format!("found {device}, which cannot be used: {why}");
                self.report(&["devices"], message);
            }
        }
        if on_gpu(stage) && stage.dtype == DType::F16 {
            let message = "found f16, expected f32 or bf16, in which GPUs compute".to_owned();
            self.report(&["dtype", "devices"], message);
        }
        let (first, longest) = (stage.restart_first_delay, stage.restart_max_delay);
        if first > longest {
            let (first, longest) = (written(first), written(longest));
            let message = format!("found {first}, expected at most restart.max_delay, which is {longest}");
            self.report(&["restart.first_delay", "restart.max_delay"], message);
        }
    }

    fn ar(&mut self, ar: &ArStage) {
        let (tokens, seqs) = (ar.max_num_batched_tokens, ar.max_num_seqs);
        // As the engine demands; with fewer tokens than decodes they take turns.
        if tokens < 2 && seqs > 1 {
            let message = format!("found {tokens}, expected at least 2 where max_num_seqs is {seqs}");
            self.report(&["max_num_batched_tokens", "max_num_seqs"], message);
        }
        let (size, blocks) = (ar.kv_block_size, ar.kv_blocks);
        if u64::from(size) * u64::from(blocks) > MAX_POSITIONS {
            let message = format!(
                "found {blocks} blocks of {size} positions, expected at most {MAX_POSITIONS} positions"
            );
            self.report(&["kv.blocks", "kv.block_size"], message);
        }
        // The kernels that read other formats than those stored are the processor's for f32.
        let (weights, dtype) = (ar.weights, ar.stage.dtype);
        if weights == Weights::Stored {
            return;
        }
        if on_gpu(&ar.stage) {
            let message = format!("found {weights}, expected auto: GPUs keep weights in `dtype`");
            self.report(&["weights", "devices"], message);
        } else if dtype != DType::F32 {
            let message = format!("found {weights} with dtype {dtype}, expected dtype f32");
            self.report(&["weights", "dtype"], message);
        }
    }

    /// Reports a problem of several settings at the first of them that was written.
    fn report(&mut self, keys: &[&str], message: String) {
        let paths = keys.iter().map(|key| path(&self.scope, key));
        let place = paths.into_iter().find_map(|path| self.values.place(&path));
        let place = place.unwrap_or_else(|| flag("defaults"));
        let problem = problem(&place, &path(&self.scope, keys[0]), message);
        self.problems.push(problem);
    }
}
