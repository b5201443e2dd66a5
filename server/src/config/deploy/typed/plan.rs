//! What a deploy configuration says to the family of the model that is loaded.

use omni_engine::StageGraph;
use omni_family::{ComputePlan, KvCache, StageCompute};

use super::{ArStage, Deploy, Placement, StageConfig};

/// The model is of another family than the deploy configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the deploy configuration is for the family {configured}, the model is of the family {found}")]
pub struct FamilyError {
    configured: &'static str,
    found: &'static str,
}

impl Deploy {
    /// Checks that `graph` is that of the family that this is for.
    ///
    /// # Errors
    /// If it is another family's.
    pub fn check_family(&self, graph: &StageGraph) -> Result<(), FamilyError> {
        match self.family {
            Some(configured) if configured != graph.family => Err(FamilyError {
                configured,
                found: graph.family,
            }),
            _ => Ok(()),
        }
    }

    /// How every stage computes.
    #[must_use]
    pub fn compute_plan(&self) -> ComputePlan {
        self.stages
            .iter()
            .map(|(name, config)| (*name, compute(config)))
            .collect()
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
