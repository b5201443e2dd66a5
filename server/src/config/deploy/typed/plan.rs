//! What a deploy configuration says to the family of the model that is loaded.

use omni_family::{ComputePlan, KvCache, StageCompute};

use super::{ArStage, Deploy, Placement, StageConfig};

impl Deploy {
    /// How every stage computes.
    #[must_use]
    pub fn compute_plan(&self) -> ComputePlan {
        let plan = |config: &StageConfig| {
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
        };
        let stages = self.stages.iter();
        ComputePlan {
            family: self.family,
            stages: stages.map(|(name, config)| (*name, plan(config))).collect(),
        }
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
