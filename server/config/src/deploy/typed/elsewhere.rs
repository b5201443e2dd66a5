//! Stages whose replicas are all in other processes.

use super::{Deploy, Placement, StageConfig};

impl Deploy {
    /// Replicas of all stages are elsewhere, and join when they are there.
    pub fn place_elsewhere(&mut self) {
        for config in self.stages.values_mut() {
            let stage = match config {
                StageConfig::Ar(ar) => &mut ar.stage,
                StageConfig::Chunk(chunk) => &mut chunk.stage,
                StageConfig::OneShot(one_shot) => &mut one_shot.stage,
            };
            stage.placement = Placement::Elsewhere;
            stage.replicas = 0;
        }
    }
}
