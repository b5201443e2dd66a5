//! Every setting of a deploy file: its key, what it may be, what it is otherwise, and what it means.
//!
//! One table. Validation, the printed configuration and `docs/config.md` are all made from it.

mod of;
mod rule;
mod setting;
mod voices;

use omni_engine::{RepetitionLimit, StageKind};
use omni_models::FAMILIES;

use super::value::Kind;
pub(super) use of::{Of, scope};
pub(super) use rule::Rule;
use setting::setting;
pub(super) use setting::{Fallback, Section, Setting};
use voices::VOICES;

/// Models that clients of OpenAI's API name by default or in their examples, speech first.
const MODEL_ALIASES: &str = "[tts-1, tts-1-hd, gpt-4o-mini-tts, gpt-4o-audio-preview, gpt-4o-mini-audio-preview, gpt-audio, \
     gpt-audio-mini, gpt-realtime, gpt-realtime-mini, gpt-realtime-1.5, gpt-realtime-2, gpt-realtime-2.1, gpt-4o-realtime-preview, \
     gpt-4o, gpt-4o-mini, gpt-4.1, gpt-4.1-mini, gpt-4.1-nano, gpt-4-turbo, gpt-4, gpt-3.5-turbo, gpt-5, gpt-5-mini, gpt-5-nano, gpt-*, \
     chatgpt-*, tts-*, o?, o?-*, whisper-*]";

/// What `weights` may be.
pub(crate) const WEIGHTS: &[&str] = &["auto", "f32", "bf16", "int8", "int4"];

use Fallback::{Absent, Checkpoint, Derived, Is};

const FEW: Kind = Kind::Count { min: 1, max: 64 };
const MANY: Kind = Kind::Count { min: 1, max: 1 << 24 };
const WAIT: Kind = Kind::Time { min_ms: 1 };

/// The whole table, in the order in which it is shown.
pub(super) const SECTIONS: &[Section] = &[
    Section {
        title: "The whole pipeline",
        of: Of::Pipeline,
        settings: &[
            setting(
                "family",
                Kind::Choice(FAMILIES),
                Absent,
                "Model family that the file is for. A checkpoint of another one is refused then; `auto` takes any.",
            ),
            setting(
                "model_aliases",
                Kind::Names { len: 256 },
                Is(MODEL_ALIASES),
                "Other names of the model: requests that name one of them, whatever its case, are for the served model. The \
                 catalogue and `/v1/models` list them, but for those of a kind, in which `*` stands for any characters and `?` for one: \
                 `[gpt-*, tts-*]` is accepted and lists nothing, `['*']` accepts every name. Of a kind are no names for other things \
                 (`gpt-image-1`), and those of models that write speech down (`whisper-1`) only where the model hears. The default is \
                 what clients of OpenAI's API ask for unless told otherwise; `[]` takes them away.",
            ),
            setting(
                "load_timeout",
                WAIT,
                Is("5m"),
                "Loading a model fails when it makes no progress for this long: nothing of the checkpoint is read, or the model of a \
                 replica is not built of what was read. How long all of it takes is not bounded. A server that cannot load its model \
                 ends; a replica that is built anew, or added, is tried again.",
            ),
            setting(
                "handover.attempts",
                Kind::Count { min: 0, max: 16 },
                Is("1"),
                "How often a sequence of which no audio was sent yet is started again elsewhere when its replica dies; and any sequence when the process of its replica is gone, which goes on with the same samples.",
            ),
            setting(
                "handover.wait",
                WAIT,
                Is("10s"),
                "Longest wait for a replica that can take work, when all of a stage are being restarted.",
            ),
        ],
    },
    Section {
        title: "Voices that callers keep",
        of: Of::Pipeline,
        settings: VOICES,
    },
    Section {
        title: "Every stage",
        of: Of::Stages,
        settings: &[
            setting(
                "replicas",
                FEW,
                Is("1"),
                "Copies of the stage. They share the weights; each has a thread, a scheduler and state of its own.",
            ),
            setting(
                "devices",
                Kind::Devices,
                Derived(Rule::Device),
                "What replicas compute on: one device for all, or one for each. Weights are read once for every device that is named (and for every `dtype` and `enforce_eager` on it). Replicas that are added later take the devices of the list in turn, by their numbers.",
            ),
            setting(
                "dtype",
                Kind::Choice(&["f32", "bf16", "f16"]),
                Derived(Rule::Format),
                "Number format of the computation. GPUs compute in f32 and bf16. Processors compute in f32 whatever it says; with bf16 they keep weights in \
                 bf16 unless `weights` says otherwise.",
            ),
            setting(
                "enforce_eager",
                Kind::Choice(&["true", "false"]),
                Is("false"),
                "On a GPU: whether every kernel is launched on its own. Otherwise steps that are alike are recorded once and launched as one graph.",
            ),
            setting(
                "routing",
                Kind::Choice(&["least-queue", "round-robin", "random"]),
                Is("least-queue"),
                "How an utterance gets its replica: the one with the least work, one after the other, or any.",
            ),
            setting(
                "routing_seed",
                Kind::Count {
                    min: 0,
                    max: u64::MAX,
                },
                Is("0"),
                "Start of the random numbers of `random`.",
            ),
            setting(
                "restart.first_delay",
                WAIT,
                Is("100ms"),
                "Wait before a replica that died is built anew; doubled with every failure in a row.",
            ),
            setting("restart.max_delay", WAIT, Is("30s"), "Longest such wait."),
            setting(
                "restart.healthy_after",
                WAIT,
                Is("60s"),
                "A replica that has lived this long has recovered: its next failure counts as the first.",
            ),
            setting(
                "placement",
                Kind::Choice(&["thread", "process"]),
                Is("thread"),
                "Where replicas run: each on a thread of the server, or each in a process of its own that loads the model for \
                 itself, connected by a Unix socket. When such a process dies, its replica does, and nothing else.",
            ),
            setting(
                "step_timeout",
                WAIT,
                Is("5m"),
                "A replica whose model does not return from a step for this long has died. A process (`placement`) is ended then, and \
                 also when its heartbeats stay out for 2 s, whatever it does. A thread cannot be ended: it is left behind with \
                 what it has in memory, and another takes its place.",
            ),
            setting(
                "max_stuck",
                Kind::Count { min: 0, max: 64 },
                Is("4"),
                "Threads of the stage that may be left behind like that. While there are more, a replica that hangs stays down until \
                 one of them returns.",
            ),
        ],
    },
    Section {
        title: "Autoregressive stages",
        of: Of::Kind(StageKind::Autoregressive),
        settings: &[
            setting(
                "weights",
                Kind::Choice(WEIGHTS),
                Is("auto"),
                "Number format that the processor keeps the matrices in: `auto` as the checkpoint stores them, `int8` in 8.5 and \
                 `int4` in 4.5 bits a weight, quantised when the model is loaded (32 inputs of an output share a scale). Activations \
                 stay f32, or are rounded to 16 bits for processors with AVX2 or AVX512-VNNI; routers and lookup tables stay as stored, with \
                 `int4` output heads are `int8`, and with both the KV cache is f16. Fewer bits are read sooner; what is computed is \
                 then no longer what the checkpoint says to the bit. Not for GPUs.",
            ),
            setting(
                "max_num_seqs",
                MANY,
                Derived(Rule::TimesActive(2)),
                "Sequences of one replica that may hold KV blocks at once.",
            ),
            setting(
                "max_num_batched_tokens",
                MANY,
                Derived(Rule::AtLeastSeqs(512)),
                "Positions computed per step, decodes and prompt chunks together. If there are more decodes than that, they take turns.",
            ),
            setting(
                "max_prefill_tokens",
                MANY,
                Derived(Rule::ByDevice { cpu: 64, gpu: 512 }),
                "Prompt positions computed per step: how long a newcomer may hold up the streams in flight. A device that computes hundreds in the time of one wants more.",
            ),
            setting(
                "max_waiting",
                MANY,
                Derived(Rule::TimesActive(2)),
                "Sequences of one replica that may wait for a place; more are refused.",
            ),
            setting(
                "min_prefill_tokens",
                MANY,
                Is("32"),
                "Prompt positions that decodes leave room for in a step, so that newcomers come in however many decodes there are.",
            ),
            setting(
                "max_model_len",
                MANY,
                Checkpoint,
                "Longest sequence, prompt and outputs together.",
            ),
            setting(
                "max_waiting_tokens",
                MANY,
                Is("1048576"),
                "Positions of all sequences of one replica that may wait; more are refused.",
            ),
            setting(
                "kv.block_size",
                Kind::Count { min: 1, max: 4096 },
                Is("16"),
                "Positions of one KV block.",
            ),
            setting(
                "kv.blocks",
                Kind::Count { min: 2, max: 1 << 24 },
                Derived(Rule::TimesActiveWithin {
                    each: 64,
                    least: 1024,
                    most: 4096,
                }),
                "KV blocks of one replica. Their memory is taken at the start. Those of a talker on a CPU take at most 1 GiB, with `weights` int8 or int4 148 MiB, unless `kv.memory` says more.",
            ),
            setting(
                "kv.memory",
                Kind::Bytes,
                Absent,
                "Memory for the KV blocks of one replica: as many as fit. `kv.blocks` counts only where this is `auto`.",
            ),
            setting(
                "sampling.temperature",
                Kind::Real {
                    above: None,
                    min: 0.0,
                    max: 10.0,
                },
                Checkpoint,
                "Used where a caller sets nothing; 0 is greedy.",
            ),
            setting(
                "sampling.top_p",
                Kind::Real {
                    above: Some(0.0),
                    min: 0.0,
                    max: 1.0,
                },
                Checkpoint,
                "Used where a caller sets nothing.",
            ),
            setting(
                "sampling.top_k",
                Kind::Count { min: 0, max: 1 << 20 },
                Checkpoint,
                "Used where a caller sets nothing; 0 keeps all.",
            ),
            setting(
                "sampling.repetition_penalty",
                Kind::Real {
                    above: Some(0.0),
                    min: 0.0,
                    max: 10.0,
                },
                Checkpoint,
                "Used where a caller sets nothing; 1 changes nothing.",
            ),
            setting(
                "output.capacity",
                Kind::Count { min: 2, max: 65_536 },
                Is("32"),
                "Outputs (tokens of text, or codec frames) of one sequence that may wait on the edge to the next stage.",
            ),
        ],
    },
    Section {
        title: "Stages whose sequences share prefixes",
        of: Of::Prefixes,
        settings: &[setting(
            "prefix_caching",
            Kind::Choice(&["true", "false"]),
            Is("true"),
            "Whether sequences share the KV blocks of common prefixes.",
        )],
    },
    Section {
        title: "The stage that answers conversations",
        of: Of::Answers,
        settings: &[
            setting(
                "prefix_sharing",
                Kind::Choice(&["session", "all"]),
                Is("session"),
                "What shares the KV blocks of common beginnings: the answers of one conversation, or `all` conversations, which then have those of the same instructions computed once. With `all`, a caller can learn from the time to the first token whether somebody else has said the same lately: only for callers who trust each other.",
            ),
            setting(
                "repetition.count",
                Kind::Count { min: 0, max: 1024 },
                Checkpoint,
                "An answer whose last tokens are one pattern, this often in a row, is ended, with FINISH_REASON_REPETITION. Below 2 none is. The embedded model ends after two patterns of 12 to 64 tokens; published checkpoints say nothing, and none of theirs is ended.",
            ),
            setting(
                "repetition.min_pattern",
                Kind::Count {
                    min: 1,
                    max: RepetitionLimit::MAX_PATTERN as u64,
                },
                Is("1"),
                "Shortest such pattern in tokens.",
            ),
            setting(
                "repetition.max_pattern",
                Kind::Count {
                    min: 1,
                    max: RepetitionLimit::MAX_PATTERN as u64,
                },
                Is("64"),
                "Longest such pattern in tokens.",
            ),
        ],
    },
    Section {
        title: "Stages that another stage feeds",
        of: Of::Upstream,
        settings: &[setting(
            "upstream_stall",
            WAIT,
            Is("20s"),
            "A sequence that has begun fails when the stage before delivers nothing for this long. Time in which a caller writes, or in \
             which that stage has no room for the sequence because it works for others, does not count. With less than 15s, sequences of a \
             process (`placement`, or of a cluster) that is stuck as a whole may fail before it counts as dead and they go on elsewhere.",
        )],
    },
    Section {
        title: "Chunk stages (vocoders)",
        of: Of::Kind(StageKind::Chunk),
        settings: &[
            setting(
                "products",
                Kind::Choice(&["f32", "bf16", "fewest"]),
                Is("f32"),
                "Number format of the factors of products on a processor; sums are f32. `bf16` rounds both factors where \
                 that is faster: to bf16 with AMX and, on AMD's processors, with AVX512-BF16; with AVX2 and no AVX-512 to whole numbers of \
                 14 bits, 32 of which share a scale; other processors compute in f32. Not for GPUs; `fewest` is `bf16` on a processor, and nothing to a GPU.",
            ),
            setting(
                "max_streams",
                MANY,
                Derived(Rule::TimesActive(4)),
                "Streams that one replica may have open; more are refused.",
            ),
            setting(
                "max_batch",
                Kind::Count { min: 1, max: 4096 },
                Derived(Rule::ByDevice { cpu: 16, gpu: 64 }),
                "Streams decoded in one step.",
            ),
            setting(
                "max_batched_frames",
                MANY,
                Derived(Rule::ByDevice { cpu: 16, gpu: 256 }),
                "Codec frames decoded in one step over all its streams; the most urgent stream's chunk is never cut. Small steps let urgent streams in sooner; large ones pay off only where a device decodes many frames in the time of one.",
            ),
            setting(
                "ramp",
                Kind::Counts { max: 512, len: 32 },
                Is("[1, 2, 4, 8]"),
                "Codec frames of the first, second, ... chunk of a stream; the last number holds from then on.",
            ),
        ],
    },
    Section {
        title: "One-shot stages (encoders)",
        of: Of::Kind(StageKind::OneShot),
        settings: &[
            setting(
                "max_batch",
                Kind::Count { min: 1, max: 4096 },
                Is("1"),
                "Recordings encoded in one step. All of them are done when the step is: more pay off only where a device encodes several \
                 in the time of one, which a CPU does not.",
            ),
            setting(
                "max_batched_audio",
                WAIT,
                Is("30s"),
                "Their playing time together. A longer one has a step to itself.",
            ),
            setting(
                "max_waiting",
                MANY,
                Derived(Rule::TimesActive(2)),
                "Recordings that may wait in one replica; more are refused.",
            ),
            setting(
                "max_waiting_audio",
                WAIT,
                Is("1h"),
                "Their playing time together; more is refused.",
            ),
        ],
    },
];

/// One setting at one path.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// From the top, for example `stages.talker.kv.blocks`.
    pub(super) path: String,
    /// What it belongs to, for example `stages.talker`; empty at the top.
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
        .filter(|section| section.of.paths().iter().any(|path| path == scope));
    sections
        .flat_map(|section| section.settings)
        .map(|setting| Entry {
            path: match scope {
                "" => setting.key.to_owned(),
                scope => format!("{scope}.{}", setting.key),
            },
            scope: scope.to_owned(),
            setting,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_its_settings_and_no_path_is_there_twice() {
        let entries = entries();
        for stage in Of::Stages.stages() {
            assert!(
                entries
                    .iter()
                    .any(|entry| entry.path == format!("stages.{}.replicas", stage.name)),
                "{}",
                stage.name
            );
        }
        let mut paths: Vec<_> = entries.iter().map(|entry| &entry.path).collect();
        paths.sort();
        let count = paths.len();
        paths.dedup();
        assert_eq!(paths.len(), count);
    }
}
