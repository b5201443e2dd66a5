//! Inputs and outputs of the reference implementation.

use omni_engine::ModelError;
use serde_json::Value;

use super::{Goldens, Run, decode, frames, greedy, kv, request, step, tokens};
use crate::{CheckpointSource, Sampling, SpeechModel, TalkerRequest, UserRow};

/// Ids of the tiny checkpoint's special tokens.
const IM_START: u32 = 276;
const USER: u32 = 263;
const AUDIO_PAD: u32 = 289;
/// Numbers in a row of its thinker.
const HIDDEN: usize = 48;

/// Tiny checkpoint with random weights, and the reference outputs for it (`goldens.safetensors`).
pub static TINY: &[(&str, &[u8])] = &[
    (
        "config.json",
        include_bytes!("../../tests/data/qwen3-omni-tiny/config.json"),
    ),
    (
        "generation_config.json",
        include_bytes!("../../tests/data/qwen3-omni-tiny/generation_config.json"),
    ),
    (
        "goldens.safetensors",
        include_bytes!("../../tests/data/qwen3-omni-tiny/goldens.safetensors"),
    ),
    (
        "merges.txt",
        include_bytes!("../../tests/data/qwen3-omni-tiny/merges.txt"),
    ),
    (
        "model.safetensors",
        include_bytes!("../../tests/data/qwen3-omni-tiny/model.safetensors"),
    ),
    (
        "preprocessor_config.json",
        include_bytes!("../../tests/data/qwen3-omni-tiny/preprocessor_config.json"),
    ),
    (
        "tokenizer.json",
        include_bytes!("../../tests/data/qwen3-omni-tiny/tokenizer.json"),
    ),
    (
        "tokenizer_config.json",
        include_bytes!("../../tests/data/qwen3-omni-tiny/tokenizer_config.json"),
    ),
    (
        "vocab.json",
        include_bytes!("../../tests/data/qwen3-omni-tiny/vocab.json"),
    ),
];

/// Input that a reference was given to speak.
#[derive(Debug, Clone)]
pub struct Prompted {
    /// The user turn, the voice, and how codes are chosen.
    pub request: TalkerRequest,
    /// The tokens that are spoken.
    pub text: Vec<u32>,
}

/// Case `name` of the tiny checkpoint's goldens, `text` or `audio`: the user turns of its prompt and the generated
/// text (without its last token, which is never spoken).
///
/// # Panics
/// If there is no such case.
pub fn tiny_prompt(g: &Goldens, name: &str, speaker: &str) -> Prompted {
    let ids = g.ids(&format!("{name}.input_ids"));
    let states = g.floats(&format!("{name}.thinker_hidden_accept"));
    let mut user = Vec::new();
    let mut in_user = false;
    for (i, &id) in ids.iter().enumerate() {
        if id == IM_START {
            in_user = ids[i + 1] == USER;
        }
        if in_user && id == AUDIO_PAD {
            user.push(UserRow::Hidden(states[i * HIDDEN..(i + 1) * HIDDEN].to_vec()));
        } else if in_user {
            user.push(UserRow::Token(id));
        }
    }
    let generated = g.ids(&format!("{name}.gen_ids"));
    let text = generated[..generated.len() - 1].to_vec();
    let frames = g.shape(&format!("{name}.codes"))[0];
    Prompted {
        request: request(user, speaker, u32::try_from(frames).expect("few frames")),
        text,
    }
}

/// Everything that a model computes for a reference's prompt.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// The rows of the prompt, `[positions, hidden]`.
    pub prompt: Vec<f32>,
    /// The talker's logits at every sampled position, one after another.
    pub logits: Vec<f32>,
    /// Its hidden states there.
    pub hidden: Vec<f32>,
    /// The rows of the frames.
    pub inputs: Vec<f32>,
    /// The codes, frame by frame.
    pub codes: Vec<u32>,
    /// The samples of all frames decoded as one piece.
    pub wav: Vec<f32>,
}

impl Heard {
    /// Speaks.
    ///
    /// # Errors
    /// Those of the model.
    pub fn of(model: &SpeechModel, prompted: &Prompted) -> Result<Self, ModelError> {
        let mut talker = model.talker(kv())?;
        let mut run = Run::open(&mut talker, 1, prompted.request.clone(), &prompted.text)?;
        let mut heard = Self {
            prompt: talker.input_rows(run.seq, 0, run.prompt)?,
            ..Self::default()
        };
        while !run.done {
            step(&mut talker, &mut [&mut run], u32::MAX)?;
            heard.logits.extend(talker.logits(run.seq).unwrap_or_default());
            heard.hidden.extend(talker.hidden(run.seq).unwrap_or_default());
            if !run.done {
                heard.inputs.extend(talker.input_rows(run.seq, run.computed, 1)?);
            }
        }
        heard.codes = run.frames.concat();
        let whole = [run.frames.len().max(1)];
        heard.wav = decode(&mut model.code2wav()?, 1, &frames(&run.frames), &whole)?;
        Ok(heard)
    }
}

/// The frames of the tiny checkpoint's code2wav golden, which is `[codebooks, frames]`.
///
/// # Panics
/// If there is none.
pub fn codes_by_frame(g: &Goldens) -> Vec<Vec<u32>> {
    let codes = g.ids("c2w.codes");
    let shape = g.shape("c2w.codes");
    (0..shape[1])
        .map(|t| (0..shape[0]).map(|q| codes[q * shape[1] + t]).collect())
        .collect()
}

/// A sentence of the embedded voice with the reference's output.
#[derive(Debug, Clone)]
pub struct EmbeddedCase {
    /// Text of the sentence.
    pub sentence: String,
    /// An empty user turn, a voice, greedy.
    pub request: TalkerRequest,
    /// The sentence's tokens.
    pub text: Vec<u32>,
    /// Codes, frame by frame.
    pub codes: Vec<u32>,
    /// Samples.
    pub wav: Vec<f32>,
}

/// The sentences of the embedded voice's `goldens.json`, each a chat of an empty user turn and the text; `model` is
/// the embedded one.
///
/// # Panics
/// If `described` is not that file, or belongs to another model.
pub fn embedded_cases(model: &SpeechModel, g: &Goldens, described: &[u8]) -> Vec<EmbeddedCase> {
    let described: Value = serde_json::from_slice(described).expect("JSON");
    let max = described["max_frames"]
        .as_u64()
        .and_then(|n| u32::try_from(n).ok());
    let penalty = described["repetition_penalty"].as_f64().expect("a penalty") as f32;
    let case = |(i, case): (usize, &Value)| {
        let sentence = case["text"].as_str().expect("a text");
        let ids = g.ids(&format!("{i}.input_ids"));
        let user = model.user_turn("").expect("text");
        let text = model.tokenizer().encode(sentence).expect("text");
        assert!(
            ids.starts_with(&user) && ids.ends_with(&text),
            "the prompt is the reference's"
        );
        let voice = case["voice"].as_str().expect("a voice");
        let mut request = request(tokens(&user), voice, max.expect("a limit"));
        request.talker = Sampling {
            repetition_penalty: penalty,
            ..greedy()
        };
        EmbeddedCase {
            sentence: sentence.to_owned(),
            request,
            text,
            codes: g.ids(&format!("{i}.codes")),
            wav: g.floats(&format!("{i}.wav")),
        }
    };
    let cases = described["cases"].as_array().expect("cases").iter();
    cases.enumerate().map(case).collect()
}

/// A conversation with the embedded thinker with the reference's answer.
#[derive(Debug, Clone)]
pub struct ThinkerCase {
    /// Roles and texts, in order.
    pub chat: Vec<(String, String)>,
    /// The answer in words.
    pub text: String,
    /// The prompt's tokens.
    pub prompt: Vec<u32>,
    /// The answer's tokens.
    pub answer: Vec<u32>,
    /// The token that ends it.
    pub stop: u32,
    /// Logits after some of the computed positions: pairs of position and logits.
    pub logits: Vec<(u32, Vec<f32>)>,
}

/// The cases of the embedded thinker's `thinker.json`, and how near its logits are to be.
///
/// # Panics
/// If this is not that file.
pub fn thinker_cases(described: &[u8]) -> (Vec<ThinkerCase>, f32) {
    let goldens: Value = serde_json::from_slice(described).expect("JSON");
    let ids = |value: &Value| serde_json::from_value::<Vec<u32>>(value.clone()).expect("token ids");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let logits = |l: &Value| {
        let position = l["position"].as_u64().and_then(|p| u32::try_from(p).ok());
        let values = serde_json::from_value(l["values"].clone()).expect("logits");
        (position.expect("a position") + 1, values)
    };
    let case = |case: &Value| {
        let mut answer = ids(&case["generated_ids"]);
        let chat = case["chat"].as_array().expect("a chat").iter();
        ThinkerCase {
            chat: chat.map(|m| (text(&m["role"]), text(&m["text"]))).collect(),
            text: text(&case["text"]),
            prompt: ids(&case["prompt_ids"]),
            stop: answer.pop().expect("the end of the turn"),
            answer,
            logits: case["logits"]
                .as_array()
                .expect("logits")
                .iter()
                .map(logits)
                .collect(),
        }
    };
    let cases = goldens["cases"].as_array().expect("cases").iter().map(case);
    let tolerance = goldens["logits_tolerance"].as_f64().expect("a tolerance") as f32;
    (cases.collect(), tolerance)
}

/// The tiny checkpoint, compiled in.
pub fn tiny() -> CheckpointSource {
    CheckpointSource::Memory(TINY)
}
