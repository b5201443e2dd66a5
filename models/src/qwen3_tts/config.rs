//! `config.json` and `speech_tokenizer/config.json` of Qwen3-TTS.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::checkpoint::LoadError;
use crate::config::{
    Code2WavFront, FILE, FfnConfig, Fields, MOST_LAYERS, Paths, PromptFormat, SpeechConfig, StackConfig,
    TalkerConfig, VoiceSource, WIDEST, code2wav, codec_tokens, contradictions, finished, full_attention,
    parsed, predictor, stack, text_tokens,
};

pub(crate) const CODEC_CONFIG: &str = "speech_tokenizer/config.json";

/// Source of a voice for which a checkpoint was trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name.
    CustomVoice,
    /// A recording.
    Base,
    /// A description.
    VoiceDesign,
}

impl Kind {
    pub(crate) fn voice_source(self) -> VoiceSource {
        match self {
            Self::CustomVoice => VoiceSource::Names,
            Self::Base => VoiceSource::Recordings,
            Self::VoiceDesign => VoiceSource::Descriptions,
        }
    }

    /// True if the reference implementation speaks it with all text in front unless told otherwise (qwen-tts 0.1.1:
    /// `generate_custom_voice` and `generate_voice_design` do, `generate_voice_clone` does not).
    pub(crate) fn non_streaming(self) -> bool {
        self != Self::Base
    }
}

const KINDS: [(&str, Kind, &str); 3] = [
    ("custom_voice", Kind::CustomVoice, "CustomVoice"),
    ("base", Kind::Base, "Base"),
    ("voice_design", Kind::VoiceDesign, "VoiceDesign"),
];
/// Values of `tts_model_size`, and how repositories are named after them.
const SIZES: [(&str, &str); 2] = [("0b6", "0.6B"), ("1b7", "1.7B")];

/// Prompt parameters of this family besides the tokens that all have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Qwen3TtsConfig {
    pub(crate) kind: Kind,
    /// True if instructions for the way of speaking are followed. The reference implementation leaves them out with
    /// the smaller CustomVoice checkpoints, which were not trained on any.
    pub(crate) instructions: bool,
    /// Opens the language part where a language is named.
    pub(crate) think: u32,
    /// Codes of languages, by lower-case name such as `english`; dialects are among them.
    pub(crate) languages: BTreeMap<String, u32>,
    /// The dialect's code of each voice that speaks one instead of Chinese.
    pub(crate) dialects: BTreeMap<String, u32>,
}

/// The repository that publishes a checkpoint with this `config.json`, if it is one of the published ones.
pub(crate) fn repository(json: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(json).ok()?;
    let text = |field: &str| value.get(field)?.as_str();
    let kind = KINDS
        .iter()
        .find(|(name, ..)| Some(*name) == text("tts_model_type"))?;
    let size = SIZES
        .iter()
        .find(|(name, _)| Some(*name) == text("tts_model_size"))?;
    Some(format!("Qwen/Qwen3-TTS-12Hz-{}-{}", size.1, kind.2))
}

/// Reads and checks both configurations.
pub(crate) fn config(json: &[u8], codec: &[u8]) -> Result<SpeechConfig, LoadError> {
    let value = parsed(FILE, json)?;
    let codec = parsed(CODEC_CONFIG, codec)?;
    known_codec(&value, &codec)?;
    let problems = RefCell::new(Vec::new());
    let root = Fields::root(FILE, &value, &problems);
    let section = root.section("talker_config");
    let text_vocab = section.count(&["text_vocab_size"]);
    let codec = Fields::root(CODEC_CONFIG, &codec, &problems);
    let config = SpeechConfig {
        text: text_tokens(&root, text_vocab),
        user: None,
        talker: talker(&root, &section, text_vocab),
        predictor: predictor(&section),
        code2wav: decoder(&codec),
    };
    if problems.borrow().is_empty() {
        let paths = Paths {
            vocab: "talker_config.vocab_size",
            quantizers: "decoder_config.num_quantizers",
        };
        contradictions(&root, &codec, &paths, &config);
    }
    finished(problems)?;
    Ok(config)
}

fn talker(root: &Fields<'_>, section: &Fields<'_>, text_vocab: usize) -> TalkerConfig {
    let vocab = section.count(&["vocab_size"]);
    let layers = section.count_to(&["num_hidden_layers"], MOST_LAYERS);
    let intermediate = section.count(&["intermediate_size"]);
    let text_hidden = section.count(&["text_hidden_size"]);
    full_attention(section);
    let speakers: BTreeMap<String, u32> = lower_case(section.ids_or_none("spk_id", vocab));
    TalkerConfig {
        stack: StackConfig {
            qk_norm: true,
            ffn: vec![FfnConfig::Dense { intermediate }; layers],
            ..stack(section)
        },
        text_vocab,
        text_hidden,
        projection: text_hidden,
        vocab,
        max_positions: section
            .count_or(&["max_position_embeddings"], 32_768, WIDEST)
            .max(1),
        codec: codec_tokens(section, vocab),
        prompt: PromptFormat::Qwen3Tts(prompt_config(root, section, vocab, &speakers)),
        speakers,
    }
}

fn prompt_config(
    root: &Fields<'_>,
    section: &Fields<'_>,
    vocab: usize,
    speakers: &BTreeMap<String, u32>,
) -> Qwen3TtsConfig {
    let kind = one_of(root, "tts_model_type", &KINDS.map(|(name, kind, _)| (name, kind)));
    let kind = kind.unwrap_or(Kind::CustomVoice);
    let small = one_of(
        root,
        "tts_model_size",
        &SIZES.map(|(name, _)| (name, name == "0b6")),
    );
    let languages = lower_case(section.ids("codec_language_id", vocab));
    if kind == Kind::CustomVoice && speakers.is_empty() {
        section.wrong("spk_id", "names no voice");
    }
    Qwen3TtsConfig {
        kind,
        instructions: match kind {
            Kind::CustomVoice => small != Some(true),
            Kind::VoiceDesign => true,
            Kind::Base => false,
        },
        think: section.id("codec_think_id", vocab),
        dialects: dialects(section, speakers, &languages),
        languages,
    }
}

/// The codec that is served, as configurations name it.
const CODEC: &str = "qwen3_tts_tokenizer_12hz";

/// Refuses a codec of another kind, of which no field says anything here.
fn known_codec(value: &Value, codec: &Value) -> Result<(), LoadError> {
    let problems = RefCell::new(Vec::new());
    let decodes = codec.get("decoder_config").is_some_and(Value::is_object);
    for (file, value, field, must) in [
        (FILE, value, "tokenizer_type", false),
        (CODEC_CONFIG, codec, "model_type", !decodes),
    ] {
        let fields = Fields::root(file, value, &problems);
        let problem = match fields.text(field) {
            Some(CODEC) if must => "has no decoder_config".to_owned(),
            Some(CODEC) => continue,
            None if !must => continue,
            None => "is missing, and so is decoder_config".to_owned(),
            Some(other) => format!("is {other:?}"),
        };
        fields.wrong(
            field,
            format!("{problem}: it is another codec, expected {CODEC:?}"),
        );
    }
    finished(problems)
}

fn one_of<T: Copy>(root: &Fields<'_>, field: &str, known: &[(&str, T)]) -> Option<T> {
    let found = root.text(field);
    let value = known.iter().find(|(name, _)| Some(*name) == found);
    if value.is_none() {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        let found = found.map_or_else(|| "is missing".to_owned(), |found| format!("is {found:?}"));
        root.wrong(field, format!("{found}, expected one of: {}", names.join(", ")));
    }
    value.map(|(_, value)| *value)
}

/// `spk_is_dialect` names the dialect of a voice, or false.
fn dialects(
    section: &Fields<'_>,
    speakers: &BTreeMap<String, u32>,
    languages: &BTreeMap<String, u32>,
) -> BTreeMap<String, u32> {
    const FIELD: &str = "spk_is_dialect";
    let mut dialects = BTreeMap::new();
    for (speaker, value) in section.entries(FIELD) {
        let speaker = speaker.to_lowercase();
        let dialect = match value {
            Value::Bool(false) | Value::Null => continue,
            Value::String(name) => languages.get(&name.to_lowercase()),
            _ => None,
        };
        match dialect {
            Some(&code) if speakers.contains_key(&speaker) => {
                dialects.insert(speaker, code);
            }
            _ => section.wrong(
                FIELD,
                format!("{speaker:?} has {value}, expected false or a name in codec_language_id, for a voice in spk_id"),
            ),
        }
    }
    dialects
}

/// The codec's decoder.
fn decoder(root: &Fields<'_>) -> crate::config::Code2WavConfig {
    let section = root.section("decoder_config");
    let mut config = code2wav(&section);
    config.front = Code2WavFront::Quantizer {
        width: section.count(&["codebook_dim"]),
        latent: section.count(&["latent_dim"]),
    };
    if let Code2WavFront::Quantizer { width, .. } = config.front
        && !width.is_multiple_of(2)
    {
        section.wrong(
            "codebook_dim",
            format!("is {width}, but codes have vectors of half of it"),
        );
    }
    let rate = root.count_or(&["output_sample_rate"], 24_000, 768_000);
    config.sample_rate = u32::try_from(rate).unwrap_or(1).max(1);
    let found = root.count_or(&["decode_upsample_rate"], config.samples_per_frame(), WIDEST);
    if found != config.samples_per_frame() {
        root.wrong(
            "decode_upsample_rate",
            format!(
                "is {found}, but the rates of decoder_config give {}",
                config.samples_per_frame()
            ),
        );
    }
    config
}

fn lower_case(ids: Vec<(String, u32)>) -> BTreeMap<String, u32> {
    ids.into_iter()
        .map(|(name, id)| (name.to_lowercase(), id))
        .collect()
}
