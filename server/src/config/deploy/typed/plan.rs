//! What a deploy configuration says to the family of the model that is loaded.

use omni_family::{ComputePlan, KvCache, StageCompute};

use super::{ArStage, Deploy, Placement, StageConfig};

impl Deploy {
    /// How every stage computes.
    #[must_use]
    pub fn compute_plan(&self) -> ComputePlan {
        let stages = self.stages.iter();
        ComputePlan {
            family: self.family,
            stages: stages.map(|(name, config)| (*name, compute(config))).collect(),
        }
    }

    /// In which numbers the replicas of a stage compute ([`StageCompute::number_formats`]).
    #[must_use]
    pub fn number_formats(&self, stage: &str) -> Vec<String> {
        let compute = self.stages.get(stage).map(compute);
        compute
            .map(|compute| compute.number_formats())
            .unwrap_or_default()
    }
}

fn compute(config: &StageConfig) -> StageCompute {
    let (stage, kv) = match config {
        StageConfig::Ar(ar) => (&ar.stage, Some(ar.kv())),
        StageConfig::Chunk(chunk) => (&chunk.stage, None),
        StageConfig::OneShot(one_shot) => (&one_shot.stage, None),
    };
    StageCompute {
        devices: stage.devices.clone(),
        dtype: stage.dtype,
        weights: stage.weights,
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
