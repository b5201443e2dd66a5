//! The part of a deploy configuration that the family of the loaded model needs.

use omni_family::{ComputePlan, KvCache, StageCompute, Weights};
use omni_models::FAMILIES;

use super::{ArStage, Deploy, Placement, Products, StageConfig};

impl Deploy {
    /// Compute settings of every stage.
    pub fn compute_plan(&self) -> ComputePlan {
        let stages = self.stages.iter();
        let family = |name: &&&str| self.family.as_deref() == Some(**name);
        ComputePlan {
            family: FAMILIES.iter().find(family).copied(),
            stages: stages.map(|(name, config)| (*name, compute(config))).collect(),
        }
    }

    /// Number formats in which the replicas of a stage compute ([`StageCompute::number_formats`]).
    pub fn number_formats(&self, stage: &str) -> Vec<String> {
        let compute = self.stages.get(stage).map(compute);
        compute
            .map(|compute| compute.number_formats())
            .unwrap_or_default()
    }
}

fn compute(config: &StageConfig) -> StageCompute {
    let (weights, kv) = match config {
        StageConfig::Ar(ar) => (ar.weights, Some(ar.kv())),
        StageConfig::Chunk(chunk) if chunk.products == Products::F32 => (Weights::Stored, None),
        StageConfig::Chunk(_) => (Weights::RoundedProducts, None),
        StageConfig::OneShot(_) => (Weights::Stored, None),
    };
    let stage = config.stage();
    StageCompute {
        devices: stage.devices.clone(),
        dtype: stage.dtype,
        weights,
        enforce_eager: stage.enforce_eager,
        in_server: stage.placement == Placement::Thread,
        kv,
    }
}

impl ArStage {
    fn kv(&self) -> KvCache {
        KvCache {
            block_size: self.kv_block_size,
            blocks: self.kv_blocks,
            memory: self.kv_memory,
        }
    }
}
