//! The deploy configuration as the server uses it: nothing left open.

mod elsewhere;
mod plan;
mod voices;

use std::collections::BTreeMap;
use std::time::Duration;

use omni_engine::{RepetitionLimit, StageGraph, StageKind, StageNode};
use omni_family::{DType, Device, Weights};
use omni_pipeline::settings::of_replica;
pub use omni_pipeline::settings::{Handover, Restart, Routing};

use super::resolve::Resolved;
use super::schema::{Of, scope};
use super::value::Setup;
pub use voices::KeptVoiceLimits;

/// How the stages are to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Deploy {
    /// The family that it is for, if it says so.
    pub family: Option<&'static str>,
    /// Other names of the model.
    pub model_aliases: Vec<String>,
    /// How long loading a model may make no progress.
    pub load_timeout: Duration,
    /// What happens to the work of a replica that dies.
    pub handover: Handover,
    /// Voices that callers keep.
    pub voices: KeptVoiceLimits,
    /// The stages of all families, by name.
    stages: BTreeMap<&'static str, StageConfig>,
}

/// How one stage is to be run.
#[derive(Debug, Clone, PartialEq)]
pub enum StageConfig {
    /// Autoregressive.
    Ar(ArStage),
    /// A decoder of streams.
    Chunk(ChunkStage),
    /// Whole requests.
    OneShot(OneShotStage),
}

/// Names of stages come from graphs, each of which has a place here; asking for another, or for one of another kind, is a mistake in
/// the caller.
impl Deploy {
    /// What the stage of that name has in common with every other.
    ///
    /// # Panics
    /// If no family has such a stage.
    #[must_use]
    pub fn stage(&self, name: &str) -> &Stage {
        match self.config(name) {
            StageConfig::Ar(ar) => &ar.stage,
            StageConfig::Chunk(chunk) => &chunk.stage,
            StageConfig::OneShot(one_shot) => &one_shot.stage,
        }
    }

    /// How an autoregressive stage is to be run.
    ///
    /// # Panics
    /// If no family has such a stage.
    #[must_use]
    pub fn ar(&self, name: &str) -> &ArStage {
        match self.config(name) {
            StageConfig::Ar(ar) => ar,
            other => unreachable!("stage {name} is {other:?}"),
        }
    }

    /// How a chunk stage is to be run.
    ///
    /// # Panics
    /// If no family has such a stage.
    #[must_use]
    pub fn chunk(&self, name: &str) -> &ChunkStage {
        match self.config(name) {
            StageConfig::Chunk(chunk) => chunk,
            other => unreachable!("stage {name} is {other:?}"),
        }
    }

    /// How a one-shot stage is to be run.
    ///
    /// # Panics
    /// If no family has such a stage.
    #[must_use]
    pub fn one_shot(&self, name: &str) -> &OneShotStage {
        match self.config(name) {
            StageConfig::OneShot(one_shot) => one_shot,
            other => unreachable!("stage {name} is {other:?}"),
        }
    }

    /// How a stage is to be run, if it is autoregressive.
    #[must_use]
    pub fn ar_of(&self, node: &StageNode) -> Option<&ArStage> {
        (node.kind == StageKind::Autoregressive).then(|| self.ar(node.name))
    }

    /// The same for a graph with other stages, too: those that have no settings of their own get the defaults of their kind, for so many
    /// utterances at once.
    ///
    /// # Panics
    /// If no family has a stage of that kind.
    #[must_use]
    pub fn for_graph(&self, graph: &StageGraph, max_active: usize) -> Self {
        let mut deploy = self.clone();
        for node in graph
            .stages
            .iter()
            .filter(|node| !self.stages.contains_key(node.name))
        {
            let defaults = super::resolve(None, &[], max_active)
                .expect("the defaults are allowed")
                .deploy;
            let like = Of::Kind(node.kind).stages().into_iter().next();
            let like = like.unwrap_or_else(|| unreachable!("no family has a stage that is {:?}", node.kind));
            deploy
                .stages
                .insert(node.name, defaults.config(like.name).clone());
        }
        deploy
    }

    fn config(&self, name: &str) -> &StageConfig {
        let known = self.stages.get(name);
        known.unwrap_or_else(|| unreachable!("no family has a stage {name}"))
    }
}

/// What every stage has.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Copies to begin with.
    pub replicas: u32,
    /// Where they run: one for all, or one for each.
    pub devices: Vec<Device>,
    /// Number format of the computation.
    pub dtype: DType,
    /// Number format that the processor keeps matrices in.
    pub weights: Weights,
    /// On a GPU: every kernel launched on its own, without graphs.
    pub enforce_eager: bool,
    /// How an utterance gets its replica.
    pub routing: Routing,
    /// When a replica that died is built anew.
    pub restart: Restart,
    /// What a replica is.
    pub placement: Placement,
    /// How long one step may take.
    pub step_timeout: Duration,
    /// Threads that may be left behind in a step that does not return.
    pub max_stuck: u32,
    /// How long the stage that feeds it may deliver nothing; `None` if none does.
    pub upstream_stall: Option<Duration>,
}

impl Stage {
    /// What a replica computes on.
    #[must_use]
    pub fn device(&self, replica: u32) -> Device {
        of_replica(&self.devices, replica).copied().unwrap_or_default()
    }
}

/// What a replica is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// A thread of the server.
    Thread,
    /// A process of its own.
    Process,
    /// What joins from elsewhere. Not to be had in a file: a program decides it for all stages.
    Elsewhere,
}

/// An autoregressive stage.
#[derive(Debug, Clone, PartialEq)]
pub struct ArStage {
    /// What every stage has.
    pub stage: Stage,
    /// Sequences that may hold KV blocks at once.
    pub max_num_seqs: u32,
    /// Positions computed per step.
    pub max_num_batched_tokens: u32,
    /// Prompt positions computed per step.
    pub max_prefill_tokens: u32,
    /// Sequences that may wait.
    pub max_waiting: u32,
    /// Prompt positions that decodes leave room for.
    pub min_prefill_tokens: u32,
    /// Longest sequence; `None` where the checkpoint decides.
    pub max_model_len: Option<u32>,
    /// Positions of sequences that may wait.
    pub max_waiting_tokens: u32,
    /// Whether sequences share the KV blocks of common beginnings.
    pub prefix_caching: bool,
    /// Positions of a KV block.
    pub kv_block_size: u32,
    /// KV blocks of one replica, unless `kv_memory` says how many.
    pub kv_blocks: u32,
    /// Bytes for the KV blocks of one replica.
    pub kv_memory: Option<u64>,
    /// Used where a caller sets nothing; `None` where the checkpoint decides.
    pub sampling: SamplingDefaults,
    /// Items of one sequence that may wait on the edge to the next stage.
    pub output_capacity: u32,
    /// Whether conversations share the KV blocks of common prefixes with one another.
    pub shares_with_all: bool,
    /// When a sequence is ended because it repeats itself, never if this is no valid limit; `None` where the checkpoint decides.
    pub repetition: Option<RepetitionLimit>,
}

/// How outputs are drawn where a caller sets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SamplingDefaults {
    /// 0 is greedy.
    pub temperature: Option<f32>,
    /// In (0, 1].
    pub top_p: Option<f32>,
    /// 0 keeps all.
    pub top_k: Option<u32>,
    /// Positive, 1 changes nothing.
    pub repetition_penalty: Option<f32>,
}

/// A vocoder.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkStage {
    /// What every stage has.
    pub stage: Stage,
    /// Streams that one replica may have open.
    pub max_streams: u32,
    /// Streams decoded in one step.
    pub max_batch: u32,
    /// Codec frames decoded in one step.
    pub max_batched_frames: u32,
    /// Codec frames of the first, second, ... chunk of a stream.
    pub ramp: Vec<u32>,
}

/// An audio encoder.
#[derive(Debug, Clone, PartialEq)]
pub struct OneShotStage {
    /// What every stage has.
    pub stage: Stage,
    /// Recordings encoded in one step.
    pub max_batch: u32,
    /// Their playing time.
    pub max_batched_audio: Duration,
    /// Recordings that may wait.
    pub max_waiting: u32,
    /// Their playing time.
    pub max_waiting_audio: Duration,
}

impl Deploy {
    pub(super) fn new(values: &Resolved) -> Self {
        let top = Scope { values, scope: "" };
        let config = |name, kind| {
            let scope = scope(name);
            let scope = Scope {
                values,
                scope: &scope,
            };
            match kind {
                StageKind::Autoregressive => StageConfig::Ar(scope.ar()),
                StageKind::Chunk => StageConfig::Chunk(scope.chunk()),
                StageKind::OneShot => StageConfig::OneShot(scope.one_shot()),
            }
        };
        let stages = Of::Stages.stages().into_iter();
        Self {
            family: match top.values.get("", "family") {
                Setup::Choice(family) => Some(family),
                _ => None,
            },
            model_aliases: top.names("model_aliases"),
            load_timeout: top.time("load_timeout"),
            handover: Handover {
                attempts: top.count("handover.attempts"),
                wait: top.time("handover.wait"),
            },
            voices: KeptVoiceLimits::of(&top),
            stages: stages
                .map(|stage| (stage.name, config(stage.name, stage.kind)))
                .collect(),
        }
    }
}

/// The settings of one scope. The table says which kind each is; asking for another is a mistake in this file, which its tests
/// find because every field is read for every configuration.
struct Scope<'v> {
    values: &'v Resolved,
    scope: &'v str,
}

impl Scope<'_> {
    /// Whether the stage has such a setting.
    fn has(&self, key: &str) -> bool {
        self.values.find(self.scope, key).is_some()
    }

    fn count(&self, key: &str) -> u32 {
        u32::try_from(self.values.count(self.scope, key)).unwrap_or(u32::MAX)
    }

    fn time(&self, key: &str) -> Duration {
        match self.values.get(self.scope, key) {
            Setup::Time(time) => *time,
            other => unreachable!("{key} is {other:?}, not a time"),
        }
    }

    fn choice(&self, key: &str) -> &'static str {
        match self.values.get(self.scope, key) {
            Setup::Choice(word) => word,
            other => unreachable!("{key} is {other:?}, not a choice"),
        }
    }

    fn names(&self, key: &str) -> Vec<String> {
        match self.values.get(self.scope, key) {
            Setup::Names(names) => names.clone(),
            other => unreachable!("{key} is {other:?}, not a list of names"),
        }
    }

    fn real(&self, key: &str) -> Option<f32> {
        match self.values.get(self.scope, key) {
            Setup::Real(x) => Some(*x as f32),
            _ => None,
        }
    }

    fn stage(&self) -> Stage {
        Stage {
            replicas: self.count("replicas"),
            devices: self.values.devices(self.scope).to_vec(),
            dtype: match self.choice("dtype") {
                "bf16" => DType::Bf16,
                "f16" => DType::F16,
                _ => DType::F32,
            },
            weights: Weights::Stored,
            enforce_eager: self.choice("enforce_eager") == "true",
            routing: match self.choice("routing") {
                "round-robin" => Routing::RoundRobin,
                "random" => Routing::Random(self.values.count(self.scope, "routing_seed")),
                _ => Routing::LeastQueue,
            },
            restart: Restart {
                first_delay: self.time("restart.first_delay"),
                max_delay: self.time("restart.max_delay"),
                healthy_after: self.time("restart.healthy_after"),
            },
            placement: match self.choice("placement") {
                "process" => Placement::Process,
                _ => Placement::Thread,
            },
            step_timeout: self.time("step_timeout"),
            max_stuck: self.count("max_stuck"),
            upstream_stall: self.has("upstream_stall").then(|| self.time("upstream_stall")),
        }
    }

    fn ar(&self) -> ArStage {
        let top_k = match self.values.get(self.scope, "sampling.top_k") {
            Setup::Count(_) => Some(self.count("sampling.top_k")),
            _ => None,
        };
        let weights = match self.choice("weights") {
            "f32" => Weights::F32,
            "bf16" => Weights::Bf16,
            "int8" => Weights::Int8,
            "int4" => Weights::Int4,
            _ => Weights::Stored,
        };
        ArStage {
            stage: Stage {
                weights,
                ..self.stage()
            },
            max_num_seqs: self.count("max_num_seqs"),
            max_num_batched_tokens: self.count("max_num_batched_tokens"),
            max_prefill_tokens: self.count("max_prefill_tokens"),
            max_waiting: self.count("max_waiting"),
            min_prefill_tokens: self.count("min_prefill_tokens"),
            max_model_len: match self.values.get(self.scope, "max_model_len") {
                Setup::Count(_) => Some(self.count("max_model_len")),
                _ => None,
            },
            max_waiting_tokens: self.count("max_waiting_tokens"),
            prefix_caching: self.has("prefix_caching") && self.choice("prefix_caching") == "true",
            kv_block_size: self.count("kv.block_size"),
            kv_blocks: self.count("kv.blocks"),
            kv_memory: match self.values.get(self.scope, "kv.memory") {
                Setup::Bytes(bytes) => Some(*bytes),
                _ => None,
            },
            sampling: SamplingDefaults {
                temperature: self.real("sampling.temperature"),
                top_p: self.real("sampling.top_p"),
                top_k,
                repetition_penalty: self.real("sampling.repetition_penalty"),
            },
            output_capacity: self.count("output.capacity"),
            shares_with_all: self.has("prefix_sharing") && self.choice("prefix_sharing") == "all",
            repetition: self.has("repetition.count").then(|| self.repetition()).flatten(),
        }
    }

    fn repetition(&self) -> Option<RepetitionLimit> {
        match self.values.get(self.scope, "repetition.count") {
            Setup::Count(_) => Some(RepetitionLimit {
                min_pattern: self.count("repetition.min_pattern"),
                max_pattern: self.count("repetition.max_pattern"),
                count: self.count("repetition.count"),
            }),
            _ => None,
        }
    }

    fn one_shot(&self) -> OneShotStage {
        OneShotStage {
            stage: self.stage(),
            max_batch: self.count("max_batch"),
            max_batched_audio: self.time("max_batched_audio"),
            max_waiting: self.count("max_waiting"),
            max_waiting_audio: self.time("max_waiting_audio"),
        }
    }

    fn chunk(&self) -> ChunkStage {
        let ramp = match self.values.get(self.scope, "ramp") {
            Setup::Counts(ramp) => ramp.clone(),
            other => unreachable!("ramp is {other:?}"),
        };
        let weights = match self.choice("products") {
            "bf16" | "fewest" => Weights::RoundedProducts,
            _ => Weights::Stored,
        };
        ChunkStage {
            stage: Stage {
                weights,
                ..self.stage()
            },
            max_streams: self.count("max_streams"),
            max_batch: self.count("max_batch"),
            max_batched_frames: self.count("max_batched_frames"),
            ramp,
        }
    }
}
