//! The deploy configuration as the server uses it.

mod elsewhere;
mod plan;

use std::time::Duration;

use omni_engine::{RepetitionLimit, StageGraph, StageKind, StageNode};
use omni_family::Device;
use omni_pipeline::settings::of_replica;
pub use omni_pipeline::settings::{Handover, Restart, Routing};
use serde::Deserialize;

use super::resolve::Resolved;
use super::settings::{ArStage, ChunkStage, Deploy, Of, OneShotStage, Stage, scope};

/// After this much time of health, a failure counts as the first.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// Settings of one stage, by its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum StageConfig {
    /// Autoregressive.
    Ar(ArStage),
    /// A decoder of streams.
    Chunk(ChunkStage),
    /// Whole requests.
    OneShot(OneShotStage),
}

impl StageConfig {
    pub(super) fn stage(&self) -> &Stage {
        match self {
            Self::Ar(ar) => &ar.stage,
            Self::Chunk(chunk) => &chunk.stage,
            Self::OneShot(one_shot) => &one_shot.stage,
        }
    }
}

/// The form of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// A thread of the server.
    Thread,
    /// A process of its own.
    Process,
    /// A process that joins. Not to be had in a file: a program decides it for all stages.
    #[serde(skip)]
    Elsewhere,
}

/// Answers that share the KV blocks of common beginnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrefixSharing {
    /// Those of one conversation.
    Session,
    /// Those of all conversations.
    All,
}

/// Number format of the factors of a vocoder's products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Products {
    /// 32-bit.
    F32,
    /// 16-bit where that is faster.
    Bf16,
    /// 16-bit on processors, and nothing to a GPU.
    Fewest,
}

/// Names of stages come from graphs, each of which has a place here; asking for another, or for one of another kind, is
/// a mistake in the caller.
impl Deploy {
    pub(super) fn new(values: &Resolved) -> Self {
        let config = |stage: &StageNode| {
            let scope = scope(stage.name);
            let config = match stage.kind {
                StageKind::Autoregressive => StageConfig::Ar(values.read(&scope)),
                StageKind::Chunk => StageConfig::Chunk(values.read(&scope)),
                StageKind::OneShot => StageConfig::OneShot(values.read(&scope)),
            };
            (stage.name, config)
        };
        Self {
            stages: Of::Stages.stages().into_iter().map(config).collect(),
            ..values.read("")
        }
    }

    /// Settings that the stage of that name has in common with every other.
    ///
    /// # Panics
    /// If no family has such a stage.
    pub fn stage(&self, name: &str) -> &Stage {
        self.config(name).stage()
    }

    /// Settings of an autoregressive stage.
    ///
    /// # Panics
    /// If no family has such a stage.
    pub fn ar(&self, name: &str) -> &ArStage {
        match self.config(name) {
            StageConfig::Ar(ar) => ar,
            other => unreachable!("stage {name} is {other:?}"),
        }
    }

    /// Settings of a chunk stage.
    ///
    /// # Panics
    /// If no family has such a stage.
    pub fn chunk(&self, name: &str) -> &ChunkStage {
        match self.config(name) {
            StageConfig::Chunk(chunk) => chunk,
            other => unreachable!("stage {name} is {other:?}"),
        }
    }

    /// Settings of a one-shot stage.
    ///
    /// # Panics
    /// If no family has such a stage.
    pub fn one_shot(&self, name: &str) -> &OneShotStage {
        match self.config(name) {
            StageConfig::OneShot(one_shot) => one_shot,
            other => unreachable!("stage {name} is {other:?}"),
        }
    }

    /// Settings of a stage, if it is autoregressive.
    pub fn ar_of(&self, node: &StageNode) -> Option<&ArStage> {
        (node.kind == StageKind::Autoregressive).then(|| self.ar(node.name))
    }

    /// Starting a sequence again elsewhere.
    pub fn handover(&self) -> Handover {
        Handover {
            attempts: self.handover_attempts,
            wait: self.handover_wait,
        }
    }

    /// The same for a graph with other stages, too: those that have no settings of their own get the defaults of their
    /// kind, for so many utterances at once.
    ///
    /// # Panics
    /// If no family has a stage of that kind.
    pub fn for_graph(&self, graph: &StageGraph, max_active: usize) -> Self {
        let mut deploy = self.clone();
        let unknown = graph
            .stages
            .iter()
            .filter(|node| !self.stages.contains_key(node.name));
        for node in unknown {
            let defaults = super::resolve(None, &[], max_active)
                .expect("the defaults are allowed")
                .deploy;
            let like = Of::Kind(node.kind).stages().into_iter().next();
            let like = like.unwrap_or_else(|| unreachable!("no family has a stage that is {:?}", node.kind));
            let config = defaults.config(like.name).clone();
            deploy.stages.insert(node.name, config);
        }
        deploy
    }

    fn config(&self, name: &str) -> &StageConfig {
        let known = self.stages.get(name);
        known.unwrap_or_else(|| unreachable!("no family has a stage {name}"))
    }
}

impl Stage {
    /// Device of a replica.
    pub fn device(&self, replica: u32) -> Device {
        of_replica(&self.devices, replica).copied().unwrap_or_default()
    }

    /// Schedule by which a replica that died is rebuilt.
    pub fn restart(&self) -> Restart {
        Restart {
            first_delay: self.restart_first_delay,
            max_delay: self.restart_max_delay,
            healthy_after: HEALTHY_AFTER,
        }
    }

    /// Longest time in which the stage that feeds it may deliver nothing; `None` if none does.
    pub fn upstream_stall(&self) -> Option<Duration> {
        self.upstream.as_ref().map(|upstream| upstream.upstream_stall)
    }
}

impl ArStage {
    /// Returns true if sequences share the KV blocks of common beginnings.
    pub fn prefix_caching(&self) -> bool {
        self.prefixes
            .as_ref()
            .is_some_and(|prefixes| prefixes.prefix_caching)
    }

    /// Returns true if conversations share the KV blocks of common prefixes with one another.
    pub fn shares_with_all(&self) -> bool {
        let answers = self.answers.as_ref();
        answers.is_some_and(|answers| answers.prefix_sharing == PrefixSharing::All)
    }

    /// Limit at which a sequence that repeats itself is ended, never if it is no valid one; `None` where the checkpoint
    /// decides.
    pub fn repetition(&self) -> Option<RepetitionLimit> {
        let answers = self.answers.as_ref()?;
        Some(RepetitionLimit {
            min_pattern: 1,
            max_pattern: answers.repetition_max_pattern,
            count: answers.repetition_count?,
        })
    }
}
