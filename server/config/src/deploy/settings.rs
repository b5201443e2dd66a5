//! Every setting of a deploy file: its key, what it may be, its default and what it means.
//!
//! A field of these structs is a setting, and its documentation is its text in `docs/config.md`. Checking a file, the
//! printed configuration, that page and the values the server uses all follow from here.

mod of;
mod rule;
mod setting;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use omni_engine::{RepetitionLimit, StageKind};
use omni_family::{DType, Device, Weights};
use omni_models::FAMILIES;
use omni_pipeline::settings::Routing;
use serde::{Deserialize, Deserializer, de};

use super::typed::{Placement, PrefixSharing, Products, StageConfig};
use super::value::Kind;
pub(super) use of::{Of, scope};
pub(super) use rule::Rule;
pub(super) use setting::{Fallback, Section, Setting};
use setting::{setting, settings};

use Fallback::{Absent, Checkpoint, Derived, Is};

/// Models that clients of OpenAI's API name by default or in their examples, speech first.
const MODEL_ALIASES: &str = "[tts-1, tts-1-hd, gpt-4o-mini-tts, gpt-4o-audio-preview, gpt-4o-mini-audio-preview, gpt-audio, \
     gpt-audio-mini, gpt-realtime, gpt-realtime-mini, gpt-realtime-1.5, gpt-realtime-2, gpt-realtime-2.1, gpt-4o-realtime-preview, \
     gpt-4o, gpt-4o-mini, gpt-4.1, gpt-4.1-mini, gpt-4.1-nano, gpt-4-turbo, gpt-4, gpt-3.5-turbo, gpt-5, gpt-5-mini, gpt-5-nano, gpt-*, \
     chatgpt-*, tts-*, o?, o?-*, whisper-*]";

/// The values of `weights`.
pub(crate) const WEIGHTS: &[&str] = &["auto", "f32", "bf16", "int8", "int4"];

const FEW: Kind = Kind::Count { min: 1, max: 64 };
const BATCH: Kind = Kind::Count { min: 1, max: 4096 };
/// Most of anything that is counted.
pub(super) const MOST: u64 = 1 << 24;
const MANY: Kind = Kind::Count { min: 1, max: MOST };
const VOICES: Kind = Kind::Count { min: 0, max: 100_000 };
const PATTERN: Kind = Kind::Count {
    min: 1,
    max: RepetitionLimit::MAX_PATTERN as u64,
};
const WAIT: Kind = Kind::Time { min_ms: 1 };
const SWITCH: Kind = Kind::Choice(&["true", "false"]);
const LUFS: Kind = Kind::RealOrZero {
    min: -40.0,
    max: -10.0,
};

/// The whole table, in the order in which it is shown.
pub(super) const SECTIONS: &[Section] = &[
    Section("The whole pipeline", Of::Pipeline, Deploy::SETTINGS),
    Section(
        "Voices that callers keep",
        Of::Pipeline,
        KeptVoiceLimits::SETTINGS,
    ),
    Section("Every stage", Of::Stages, Stage::SETTINGS),
    Section(
        "Autoregressive stages",
        Of::Kind(StageKind::Autoregressive),
        ArStage::SETTINGS,
    ),
    Section(
        "Stages whose sequences share prefixes",
        Of::Prefixes,
        PrefixSettings::SETTINGS,
    ),
    Section(
        "The stage that answers conversations",
        Of::Answers,
        AnswerSettings::SETTINGS,
    ),
    Section(
        "Stages that another stage feeds",
        Of::Upstream,
        UpstreamSettings::SETTINGS,
    ),
    Section(
        "Chunk stages (vocoders)",
        Of::Kind(StageKind::Chunk),
        ChunkStage::SETTINGS,
    ),
    Section(
        "One-shot stages (encoders)",
        Of::Kind(StageKind::OneShot),
        OneShotStage::SETTINGS,
    ),
];

settings! {
    /// Settings of all stages.
    pub struct Deploy {
        @flatten pub voices: KeptVoiceLimits,
        @skip pub(super) stages: BTreeMap<&'static str, StageConfig>,

        /// Model family that the file is for. A checkpoint of another one is refused then; `auto` takes any.
        family: Option<String> = Absent, Kind::Choice(FAMILIES);

        /// Other names of the model: requests that name one of them, whatever its case, are for the served model. The
        /// catalogue and `/v1/models` list them, but for those of a kind, in which `*` stands for any characters and
        /// `?` for one: `[gpt-*, tts-*]` is accepted and lists nothing, `['*']` accepts every name. Of a kind are no
        /// names for other things (`gpt-image-1`), and those of models that write speech down (`whisper-1`) only where
        /// the model hears. The default is what clients of OpenAI's API ask for unless told otherwise; `[]` takes them
        /// away.
        model_aliases: Vec<String> = Is(MODEL_ALIASES), Kind::Names { len: 256 };

        /// Loading a model fails when it makes no progress for this long: nothing of the checkpoint is read, or the
        /// model of a replica is not built of what was read. How long all of it takes is not bounded. A server that
        /// cannot load its model ends; a replica that is built anew, or added, is tried again.
        load_timeout: Duration = Is("5m"), WAIT;

        /// Times that a sequence of which no audio was sent yet is started again elsewhere when its replica dies; and
        /// any sequence when the process of its replica is gone, which goes on with the same samples.
        handover_attempts as "handover.attempts": u32 = Is("1"), Kind::Count { min: 0, max: 16 };

        /// Longest wait for a replica that can take work, when all of a stage are being restarted.
        handover_wait as "handover.wait": Duration = Is("10s"), WAIT;
    }

    /// Limits of the voices that callers make, and their folder.
    pub struct KeptVoiceLimits {
        /// Folder in which they are kept, as one file each; `--voices` counts more. With `memory` they end with the
        /// server.
        dir as "voices.dir": Option<PathBuf> = Is("memory"), Kind::Folder;

        /// Most voices of all callers; more are refused.
        max_voices as "voices.max_voices": usize = Is("1000"), VOICES;

        /// Most voices that one API key keeps; more are refused. Voices that all callers share are not counted.
        max_voices_per_key as "voices.max_voices_per_key": usize = Is("100"), VOICES;

        /// Most bytes of their files, which are in memory too; more are refused. A minute in context takes about 50
        /// KiB.
        max_memory as "voices.max_memory": u64 = Is("256MiB"), Kind::Bytes;

        /// Loudness in LUFS (ITU-R BS.1770-4) to which recordings are brought before they become voices, so that voices
        /// of soft and of loud recordings are alike; `0` leaves them as they are.
        loudness as "voices.loudness": Option<f32> = Is("-19"), LUFS;
    }

    /// The settings that every stage has.
    pub struct Stage {
        @flatten pub upstream: Option<UpstreamSettings>,

        /// Copies of the stage. They share the weights; each has a thread, a scheduler and state of its own.
        replicas: u32 = Is("1"), FEW;

        /// Device of all replicas, or one for each. Weights are read once for every device that is named (and for every
        /// `dtype` and `enforce_eager` on it). Replicas that are added later take the devices of the list in turn, by
        /// their numbers.
        #[serde(deserialize_with = "devices")]
        devices: Vec<Device> = Derived(Rule::Device), Kind::Devices;

        /// Number format of the computation. GPUs compute in f32 and bf16. Processors compute in f32 whatever it says;
        /// with bf16 they keep weights in bf16 unless `weights` says otherwise.
        dtype: DType = Derived(Rule::Format), Kind::Choice(&["f32", "bf16", "f16"]);

        /// On a GPU: launches every kernel on its own. Otherwise steps that are alike are recorded once and launched as
        /// one graph.
        enforce_eager: bool = Is("false"), SWITCH;

        /// Replica of an utterance: the one with the least work, or one after the other.
        #[serde(with = "RoutingWords")]
        routing: Routing = Is("least-queue"), Kind::Choice(&["least-queue", "round-robin"]);

        /// Wait before a replica that died is built anew; doubled with every failure in a row. After 60 s of health the
        /// next failure counts as the first.
        restart_first_delay as "restart.first_delay": Duration = Is("100ms"), WAIT;

        /// Longest such wait.
        restart_max_delay as "restart.max_delay": Duration = Is("30s"), WAIT;

        /// Place of replicas: each on a thread of the server, or each in a process of its own that loads the model for
        /// itself, connected by a Unix socket. When such a process dies, its replica does, and nothing else.
        placement: Placement = Is("thread"), Kind::Choice(&["thread", "process"]);

        /// A replica whose model does not return from a step for this long has died. A process (`placement`) is ended
        /// then, and also when its heartbeats stay out for 2 s, whatever it does. A thread cannot be ended: it is left
        /// behind with what it has in memory, and another takes its place. While more than four threads of a stage are
        /// left behind, a replica that hangs stays down until one of them returns.
        step_timeout: Duration = Is("5m"), WAIT;
    }

    /// An autoregressive stage.
    pub struct ArStage {
        @flatten pub stage: Stage,
        @flatten pub prefixes: Option<PrefixSettings>,
        @flatten pub answers: Option<AnswerSettings>,

        /// Number format that the processor keeps the matrices in: `auto` as the checkpoint stores them, `int8` in 8.5
        /// and `int4` in 4.5 bits a weight, quantised when the model is loaded (32 inputs of an output share a scale).
        /// Activations stay f32, or are rounded to 16 bits for processors with AVX2 or AVX512-VNNI; routers and lookup
        /// tables stay as stored, with `int4` output heads are `int8`, and with both the KV cache is f16. Fewer bits
        /// are read sooner; what is computed is then no longer what the checkpoint says to the bit. Not for GPUs.
        weights: Weights = Is("auto"), Kind::Choice(WEIGHTS);

        /// Sequences of one replica that may hold KV blocks at once.
        max_num_seqs: u32 = Derived(Rule::TimesActive(2)), MANY;

        /// Positions computed per step, decodes and prompt chunks together. If there are more decodes than that, they
        /// take turns.
        max_num_batched_tokens: u32 = Derived(Rule::AtLeastSeqs(512)), MANY;

        /// Prompt positions computed per step: how long a newcomer may hold up the streams in flight. A device that
        /// computes hundreds in the time of one wants more.
        max_prefill_tokens: u32 = Derived(Rule::ByDevice { cpu: 64, gpu: 512 }), MANY;

        /// Sequences of one replica that may wait for a place; more are refused.
        max_waiting: u32 = Derived(Rule::TimesActive(2)), MANY;

        /// Prompt positions that decodes leave room for in a step, so that newcomers come in however many decodes there
        /// are.
        min_prefill_tokens: u32 = Is("32"), MANY;

        /// Longest sequence, prompt and outputs together.
        max_model_len: Option<u32> = Checkpoint, MANY;

        /// Positions of all sequences of one replica that may wait; more are refused.
        max_waiting_tokens: u32 = Is("1048576"), MANY;

        /// Positions of one KV block.
        kv_block_size as "kv.block_size": u32 = Is("16"), BATCH;

        /// KV blocks of one replica. Their memory is taken at the start. Those of a talker on a CPU take at most 1 GiB,
        /// with `weights` int8 or int4 148 MiB, unless `kv.memory` says more.
        kv_blocks as "kv.blocks": u32 = Derived(Rule::TimesActiveWithin { each: 64, least: 1024, most: 4096 }),
            Kind::Count { min: 2, max: 1 << 24 };

        /// Memory for the KV blocks of one replica: as many as fit. `kv.blocks` counts only where this is `auto`.
        kv_memory as "kv.memory": Option<u64> = Absent, Kind::Bytes;

        /// Used where a caller sets nothing; 0 is greedy.
        temperature as "sampling.temperature": Option<f32> = Checkpoint, Kind::Real { above: None, min: 0.0, max: 10.0 };

        /// Used where a caller sets nothing.
        top_p as "sampling.top_p": Option<f32> = Checkpoint, Kind::Real { above: Some(0.0), min: 0.0, max: 1.0 };

        /// Used where a caller sets nothing; 0 keeps all.
        top_k as "sampling.top_k": Option<u32> = Checkpoint, Kind::Count { min: 0, max: 1 << 20 };

        /// Used where a caller sets nothing; 1 changes nothing.
        repetition_penalty as "sampling.repetition_penalty": Option<f32> = Checkpoint,
            Kind::Real { above: Some(0.0), min: 0.0, max: 10.0 };

        /// Outputs (tokens of text, or codec frames) of one sequence that may wait on the edge to the next stage.
        output_capacity as "output.capacity": u32 = Is("32"), Kind::Count { min: 2, max: 65_536 };
    }

    /// The settings of a stage whose sequences share prefixes.
    pub struct PrefixSettings {
        /// Sequences share the KV blocks of common prefixes.
        prefix_caching: bool = Is("true"), SWITCH;
    }

    /// The settings of the stage that answers conversations.
    pub struct AnswerSettings {
        /// Answers that share the KV blocks of common beginnings: those of one conversation, or of `all` conversations,
        /// which then have those of the same instructions computed once. With `all`, a caller can learn from the time
        /// to the first token whether another caller has said the same lately: only for callers who trust each other.
        prefix_sharing: PrefixSharing = Is("session"), Kind::Choice(&["session", "all"]);

        /// An answer whose last tokens are one pattern, this often in a row, is ended, with FINISH_REASON_REPETITION.
        /// Below 2 none is. The embedded model ends after two patterns of 12 to 64 tokens; published checkpoints say
        /// nothing, and none of theirs is ended.
        repetition_count as "repetition.count": Option<u32> = Checkpoint, Kind::Count { min: 0, max: 1024 };

        /// Longest such pattern in tokens.
        repetition_max_pattern as "repetition.max_pattern": u32 = Is("64"), PATTERN;
    }

    /// The settings of a stage that another stage feeds.
    pub struct UpstreamSettings {
        /// A sequence that has begun fails when the stage before delivers nothing for this long. Time in which a caller
        /// writes, or in which that stage has no room for the sequence because it works for others, does not count.
        /// With less than 15s, sequences of a process (`placement`, or of a cluster) that is stuck as a whole may fail
        /// before it counts as dead and they go on elsewhere.
        upstream_stall: Duration = Is("20s"), WAIT;
    }

    /// A vocoder.
    pub struct ChunkStage {
        @flatten pub stage: Stage,

        /// Number format of the factors of products on a processor; sums are f32. `bf16` rounds both factors where that
        /// is faster: to bf16 with AMX and, on AMD's processors, with AVX512-BF16; with AVX2 and no AVX-512 to whole
        /// numbers of 14 bits, 32 of which share a scale; other processors compute in f32. Not for GPUs; `fewest` is
        /// `bf16` on a processor, and nothing to a GPU.
        products: Products = Is("f32"), Kind::Choice(&["f32", "bf16", "fewest"]);

        /// Streams that one replica may have open; more are refused.
        max_streams: u32 = Derived(Rule::TimesActive(4)), MANY;

        /// Streams decoded in one step.
        max_batch: u32 = Derived(Rule::ByDevice { cpu: 16, gpu: 64 }), BATCH;

        /// Codec frames decoded in one step over all its streams; the most urgent stream's chunk is never cut. Small
        /// steps let urgent streams in sooner; large ones pay off only where a device decodes many frames in the time
        /// of one.
        max_batched_frames: u32 = Derived(Rule::ByDevice { cpu: 16, gpu: 256 }), MANY;

        /// Codec frames of the first, second, ... chunk of a stream; the last number holds from then on.
        ramp: Vec<u32> = Is("[1, 2, 4, 8]"), Kind::Counts { max: 512, len: 32 };
    }

    /// An audio encoder.
    pub struct OneShotStage {
        @flatten pub stage: Stage,

        /// Recordings encoded in one step. All of them are done when the step is: more pay off only where a device
        /// encodes several in the time of one, which a CPU does not.
        max_batch: u32 = Is("1"), BATCH;

        /// Their playing time together. A longer one has a step to itself.
        max_batched_audio: Duration = Is("30s"), WAIT;

        /// Recordings that may wait in one replica; more are refused.
        max_waiting: u32 = Derived(Rule::TimesActive(2)), MANY;

        /// Their playing time together; more is refused.
        max_waiting_audio: Duration = Is("1h"), WAIT;
    }
}

#[derive(Deserialize)]
#[serde(remote = "Routing", rename_all = "kebab-case")]
enum RoutingWords {
    LeastQueue,
    RoundRobin,
}

fn devices<'de, D: Deserializer<'de>>(words: D) -> Result<Vec<Device>, D::Error> {
    let words = Vec::<String>::deserialize(words)?;
    let device = |word: &String| Device::parse(word).ok_or_else(|| de::Error::custom("no device"));
    words.iter().map(device).collect()
}

/// One setting at one path.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Full path, for example `stages.talker.kv.blocks`.
    pub(super) path: String,
    /// The path of its section, for example `stages.talker`; empty at the top.
    pub(super) scope: String,
    pub(super) setting: &'static Setting,
}

/// Every setting at every path, in the order in which they are shown: stage by stage.
pub(super) fn entries() -> Vec<Entry> {
    let scopes = [Of::Pipeline, Of::Stages].into_iter().flat_map(Of::paths);
    scopes.flat_map(|scope| scope_entries(&scope)).collect()
}

fn scope_entries(scope: &str) -> Vec<Entry> {
    let sections = SECTIONS
        .iter()
        .filter(|Section(_, of, _)| of.paths().iter().any(|path| path == scope));
    let settings = sections.flat_map(|Section(_, _, settings)| *settings);
    let entry = |setting: &'static Setting| Entry {
        path: super::resolve::path(scope, setting.key),
        scope: scope.to_owned(),
        setting,
    };
    settings.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_its_settings_and_no_path_is_there_twice() {
        let entries = entries();
        for stage in Of::Stages.stages() {
            let path = format!("stages.{}.replicas", stage.name);
            assert!(entries.iter().any(|entry| entry.path == path), "{}", stage.name);
        }
        let mut paths: Vec<_> = entries.iter().map(|entry| &entry.path).collect();
        paths.sort();
        let count = paths.len();
        paths.dedup();
        assert_eq!(paths.len(), count);
    }
}
