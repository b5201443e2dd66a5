//! The stages that have a setting, by the graphs of the families.

use omni_engine::{StageGraph, StageKind, StageNode};
use omni_models::GRAPHS;

/// The owner of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::deploy) enum Of {
    /// The whole pipeline.
    Pipeline,
    /// Every stage.
    Stages,
    /// Stages that this engine runs.
    Kind(StageKind),
    /// Stages whose sequences share prefixes.
    Prefixes,
    /// The stage that answers conversations.
    Answers,
    /// Stages that take the items of another stage one by one.
    Upstream,
}

impl Of {
    /// Returns true if `stage` of `graph` has these settings.
    fn has(self, graph: &StageGraph, stage: &StageNode) -> bool {
        match self {
            Self::Pipeline => false,
            Self::Stages => true,
            Self::Kind(kind) => stage.kind == kind,
            Self::Prefixes => stage.shares_prefixes,
            Self::Answers => graph.answers() == Some(stage),
            Self::Upstream => graph.upstream(stage.name).is_some(),
        }
    }

    /// The stages that have these settings, in any family.
    pub(in crate::deploy) fn stages(self) -> Vec<&'static StageNode> {
        let mut found: Vec<&StageNode> = Vec::new();
        for graph in GRAPHS {
            for stage in graph.stages.iter().filter(|stage| self.has(graph, stage)) {
                // Families whose stages have one name have its settings in common.
                if found.iter().all(|known| known.name != stage.name) {
                    found.push(stage);
                }
            }
        }
        found
    }

    pub(super) fn paths(self) -> Vec<String> {
        match self {
            Self::Pipeline => vec![String::new()],
            of => of.stages().iter().map(|stage| scope(stage.name)).collect(),
        }
    }
}

/// Path of a stage's settings.
pub(in crate::deploy) fn scope(stage: &str) -> String {
    format!("stages.{stage}")
}
