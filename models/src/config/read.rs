//! From the JSON of `config.json` to the checked configuration.

use std::cell::RefCell;

use serde_json::Value;

use super::fields::{Fields, WIDEST};
use super::{
    Code2WavConfig, Code2WavFront, CodecTokens, FfnConfig, PredictorConfig, PromptFormat, SpeechConfig,
    StackConfig, TalkerConfig, TextTokens,
};
use crate::checkpoint::{LoadError, Problem};

pub(crate) const FILE: &str = "config.json";
/// The talker may not sample the last ids of its vocabulary (its control codes), except the one that ends the speech.
pub(crate) const CONTROL_CODES: usize = 1024;
const DEFAULT_SAMPLE_RATE: usize = 24_000;

// Far beyond any published model, and small enough to bound the memory of a hostile file. Fields without a bound
// here are bounded by the tensors that must exist.
pub(crate) const MOST_LAYERS: usize = 512;
const MOST_EXPERTS: usize = 1024;
/// Experts of all layers together.
const MOST_EXPERTS_IN_ALL: usize = 1 << 16;
const MOST_GROUPS: usize = 256;
pub(super) const MOST_HEADS: usize = 1024;
const WIDEST_HEAD: usize = 1024;
const LONGEST_WINDOW: usize = 1 << 12;
const MOST_STAGES: usize = 16;
const MOST_SAMPLES_PER_FRAME: usize = 1 << 20;
const HIGHEST_SAMPLE_RATE: usize = 768_000;

impl SpeechConfig {
    /// Reads and checks `config.json` of Qwen3-Omni.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, LoadError> {
        let value = parsed(FILE, json)?;
        let problems = RefCell::new(Vec::new());
        let root = Fields::root(FILE, &value, &problems);
        let thinker = root.section("thinker_config").section("text_config");
        let text_vocab = thinker.count(&["vocab_size"]);
        let config = Self {
            text: text_tokens(&root, text_vocab),
            user: Some(root.id("user_token_id", text_vocab)),
            talker: talker(
                &root.section("talker_config"),
                text_vocab,
                thinker.count(&["hidden_size"]),
            ),
            predictor: predictor(&root.section("talker_config")),
            code2wav: code2wav(&root.section("code2wav_config")),
        };
        if problems.borrow().is_empty() {
            let paths = Paths {
                vocab: "talker_config.text_config.vocab_size",
                quantizers: "code2wav_config.num_quantizers",
            };
            contradictions(&root, &root, &paths, &config);
            single_width(&root, &config);
        }
        finished(problems)?;
        Ok(config)
    }
}

pub(crate) fn parsed(file: &str, json: &[u8]) -> Result<Value, LoadError> {
    serde_json::from_slice(json).map_err(|e| {
        LoadError::one(Problem::Malformed {
            file: file.into(),
            reason: format!("not JSON: {e}"),
        })
    })
}

/// An error of all problems, each once, if there are any.
pub(crate) fn finished(problems: RefCell<Vec<Problem>>) -> Result<(), LoadError> {
    let mut problems = problems.into_inner();
    problems.dedup();
    LoadError::unless_empty(problems)
}

pub(crate) fn text_tokens(root: &Fields<'_>, vocab: usize) -> TextTokens {
    TextTokens {
        im_start: root.id("im_start_token_id", vocab),
        im_end: root.id("im_end_token_id", vocab),
        assistant: root.id("assistant_token_id", vocab),
        tts_pad: root.id("tts_pad_token_id", vocab),
        tts_bos: root.id("tts_bos_token_id", vocab),
        tts_eos: root.id("tts_eos_token_id", vocab),
    }
}

pub(crate) fn codec_tokens(section: &Fields<'_>, vocab: usize) -> CodecTokens {
    CodecTokens {
        pad: section.id("codec_pad_id", vocab),
        bos: section.id("codec_bos_id", vocab),
        eos: section.id("codec_eos_token_id", vocab),
        nothink: section.id("codec_nothink_id", vocab),
        think_bos: section.id("codec_think_bos_id", vocab),
        think_eos: section.id("codec_think_eos_id", vocab),
    }
}

fn talker(section: &Fields<'_>, text_vocab: usize, text_hidden: usize) -> TalkerConfig {
    let text = section.section("text_config");
    let vocab = text.count(&["vocab_size"]);
    let projected = section.count_or(&["thinker_hidden_size"], text_hidden, WIDEST);
    if projected != text_hidden {
        section.wrong(
            "thinker_hidden_size",
            format!("is {projected}, but the thinker's hidden_size is {text_hidden}"),
        );
    }
    let layers = text.count_to(&["num_hidden_layers"], MOST_LAYERS);
    full_attention(&text);
    TalkerConfig {
        stack: StackConfig {
            qk_norm: true,
            ffn: mixture_ffn(&text, layers, Shape::Talker),
            ..stack(&text)
        },
        text_vocab,
        text_hidden,
        projection: text.count(&["intermediate_size"]),
        vocab,
        max_positions: text.count_or(&["max_position_embeddings"], 65_536, WIDEST).max(1),
        codec: codec_tokens(section, vocab),
        speakers: section
            .ids("speaker_id", vocab)
            .into_iter()
            .map(|(k, v)| (k.to_lowercase(), v))
            .collect(),
        prompt: PromptFormat::Qwen3Omni,
    }
}

/// Shape of the feed-forward layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Experts only.
    Thinker,
    /// Experts beside a shared one.
    Talker,
}

/// Mixture of experts in every `decoder_sparse_step`-th layer that is not listed in `mlp_only_layers`, dense elsewhere.
pub(super) fn mixture_ffn(text: &Fields<'_>, layers: usize, shape: Shape) -> Vec<FfnConfig> {
    let names = ["num_experts", "num_local_experts"];
    let experts = text.count_or(&names, 0, MOST_EXPERTS);
    if layers * experts > MOST_EXPERTS_IN_ALL {
        text.wrong(
            "num_experts",
            format!("is {experts} in {layers} layers, expected at most {MOST_EXPERTS_IN_ALL} in all"),
        );
    }
    let step = text.count_or(&["decoder_sparse_step"], 1, MOST_LAYERS).max(1);
    let dense = text.counts_or_none("mlp_only_layers", MOST_LAYERS);
    let sparse = |layer: usize| experts > 0 && !dense.contains(&layer) && (layer + 1).is_multiple_of(step);
    let moe = (0..layers).any(sparse).then(|| {
        let top_k = text.count(&["num_experts_per_tok"]);
        if top_k > experts {
            text.wrong(
                "num_experts_per_tok",
                format!("is {top_k}, but there are {experts} experts"),
            );
        }
        FfnConfig::Moe {
            experts,
            top_k: top_k.min(experts),
            intermediate: text.count(&["moe_intermediate_size"]),
            shared: match shape {
                Shape::Talker => text.count_or(&["shared_expert_intermediate_size"], 0, WIDEST),
                Shape::Thinker => 0,
            },
            // The defaults of the reference implementation's classes.
            normalise: text.flag_or("norm_topk_prob", shape == Shape::Thinker),
        }
    });
    let dense = FfnConfig::Dense {
        intermediate: text.count(&["intermediate_size"]),
    };
    (0..layers)
        .map(|layer| moe.filter(|_| sparse(layer)).unwrap_or(dense))
        .collect()
}

pub(crate) fn predictor(talker: &Fields<'_>) -> PredictorConfig {
    let section = talker.section("code_predictor_config");
    let groups = talker.count_to(&["num_code_groups"], MOST_GROUPS);
    let own = section.count_or(&["num_code_groups"], groups, MOST_GROUPS);
    if own != groups {
        section.wrong(
            "num_code_groups",
            format!("is {own}, but talker_config.num_code_groups is {groups}"),
        );
    }
    full_attention(&section);
    let layers = section.count_to(&["num_hidden_layers"], MOST_LAYERS);
    let ffn = vec![
        FfnConfig::Dense {
            intermediate: section.count(&["intermediate_size"])
        };
        layers
    ];
    let vocab = section.count(&["vocab_size"]);
    PredictorConfig {
        stack: StackConfig {
            qk_norm: true,
            ffn,
            ..stack(&section)
        },
        vocab,
        groups,
    }
}

/// Notes windows where every layer must see everything.
pub(crate) fn full_attention(section: &Fields<'_>) {
    if section.texts("layer_types").contains(&"sliding_attention") {
        section.wrong(
            "layer_types",
            "sliding_attention is not supported, full_attention is expected",
        );
    }
    if section.flag_or("use_sliding_window", false) {
        section.wrong("use_sliding_window", "is true, which is not supported");
    }
}

/// Reads the fields that both vocoders have.
pub(crate) fn code2wav(section: &Fields<'_>) -> Code2WavConfig {
    let layers = section.count_to(&["num_hidden_layers"], MOST_LAYERS);
    let ffn = vec![
        FfnConfig::Dense {
            intermediate: section.count(&["intermediate_size"])
        };
        layers
    ];
    let window = Some(section.count_to(&["sliding_window"], LONGEST_WINDOW));
    let config = Code2WavConfig {
        front: Code2WavFront::Mean,
        stack: StackConfig {
            layer_scale: true,
            window,
            ffn,
            ..stack(section)
        },
        codebook: section.count(&["codebook_size"]),
        groups: section.count_to(&["num_quantizers"], MOST_GROUPS),
        upsampling_ratios: section.counts("upsampling_ratios", 1, MOST_STAGES),
        upsample_rates: section.counts("upsample_rates", 1, MOST_STAGES),
        decoder_dim: section.count(&["decoder_dim"]),
        sample_rate: u32::try_from(section.count_or(
            &["output_sample_rate"],
            DEFAULT_SAMPLE_RATE,
            HIGHEST_SAMPLE_RATE,
        ))
        .unwrap_or(1)
        .max(1),
    };
    let rates = config.upsampling_ratios.iter().chain(&config.upsample_rates);
    let product = rates.copied().try_fold(1_usize, usize::checked_mul);
    if product.is_none_or(|p| p > MOST_SAMPLES_PER_FRAME) {
        section.wrong(
            "upsample_rates",
            format!("and upsampling_ratios give more than {MOST_SAMPLES_PER_FRAME} samples per frame"),
        );
    }
    let halvings = config.upsample_rates.len();
    if halvings >= 32 || !config.decoder_dim.is_multiple_of(1 << halvings) {
        section.wrong(
            "decoder_dim",
            format!(
                "is {}, which cannot be halved {halvings} times",
                config.decoder_dim
            ),
        );
    }
    config
}

/// Reads the fields that all stacks have.
pub(crate) fn stack(section: &Fields<'_>) -> StackConfig {
    let hidden = section.count(&["hidden_size"]);
    let heads = section.count_to(&["num_attention_heads"], MOST_HEADS);
    let kv_heads = section
        .count_or(&["num_key_value_heads"], heads, MOST_HEADS)
        .max(1);
    if !heads.is_multiple_of(kv_heads) {
        section.wrong(
            "num_key_value_heads",
            format!("is {kv_heads}, which does not divide {heads} heads"),
        );
    }
    let head_dim = section.count_or(&["head_dim"], hidden / heads, WIDEST_HEAD);
    // Consequences of missing fields are reported with those fields.
    let is_told =
        section.has(&["head_dim"]) || section.has(&["hidden_size"]) && section.has(&["num_attention_heads"]);
    if is_told && (head_dim == 0 || head_dim > WIDEST_HEAD || !head_dim.is_multiple_of(2)) {
        section.wrong(
            "head_dim",
            format!("is {head_dim}, an even number from 2 to {WIDEST_HEAD} is expected"),
        );
    }
    if section.text("hidden_act").is_some_and(|act| act != "silu") {
        section.wrong("hidden_act", "only silu is supported");
    }
    if section.flag_or("attention_bias", false) {
        section.wrong("attention_bias", "attention with biases is not supported");
    }
    for scaling in [
        "rope_scaling.rope_type",
        "rope_parameters.rope_type",
        "rope_scaling.type",
    ] {
        if section.text(scaling).is_some_and(|kind| kind != "default") {
            section.wrong(scaling, "only the type default is supported");
        }
    }
    StackConfig {
        hidden,
        heads,
        kv_heads,
        head_dim,
        rope_theta: section.number(&[
            "rope_theta",
            "rope_parameters.rope_theta",
            "rope_scaling.rope_theta",
        ]),
        mrope: None,
        eps: section.number(&["rms_norm_eps"]),
        qk_norm: false,
        layer_scale: false,
        window: None,
        ffn: Vec::new(),
    }
}

/// Paths of the fields on which several parts must agree, by family.
pub(crate) struct Paths {
    pub(crate) vocab: &'static str,
    pub(crate) quantizers: &'static str,
}

/// Fields that are fine alone and impossible together; the vocoder's are in `codec`.
pub(crate) fn contradictions(root: &Fields<'_>, codec: &Fields<'_>, paths: &Paths, config: &SpeechConfig) {
    let talker = &config.talker;
    let predictor = &config.predictor;
    let code2wav = &config.code2wav;
    if code2wav.groups != predictor.groups {
        let found = code2wav.groups;
        let expected = predictor.groups;
        codec.wrong(
            paths.quantizers,
            format!("is {found}, but talker_config.num_code_groups is {expected}"),
        );
    }
    if predictor.groups < 2 {
        root.wrong(
            "talker_config.num_code_groups",
            "is 1, but a code predictor needs at least 2",
        );
    }
    if talker.vocab <= CONTROL_CODES {
        let reason = format!(
            "is {}, but {CONTROL_CODES} of the codes are control codes",
            talker.vocab
        );
        root.wrong(paths.vocab, reason);
    } else if talker.vocab - CONTROL_CODES > code2wav.codebook {
        let reason = format!(
            "is {}, so {} codes may be sampled, but code2wav has {}",
            talker.vocab,
            talker.vocab - CONTROL_CODES,
            code2wav.codebook
        );
        root.wrong(paths.vocab, reason);
    }
    if predictor.vocab > code2wav.codebook {
        let reason = format!(
            "is {}, but code2wav has {} codes",
            predictor.vocab, code2wav.codebook
        );
        root.wrong("talker_config.code_predictor_config.vocab_size", reason);
    }
}

/// Restrictions of Qwen3-Omni: nothing is projected between talker and predictor, and voices have names.
fn single_width(root: &Fields<'_>, config: &SpeechConfig) {
    let talker = &config.talker;
    let predictor = &config.predictor;
    if predictor.stack.hidden != talker.stack.hidden {
        let found = predictor.stack.hidden;
        let expected = talker.stack.hidden;
        root.wrong(
            "talker_config.code_predictor_config.hidden_size",
            format!("is {found}, but the talker's hidden states that it continues have {expected}"),
        );
    }
    if talker.speakers.is_empty() {
        root.wrong("talker_config.speaker_id", "names no voice");
    }
}
