//! Tiny checkpoints of Qwen3-TTS, and the outputs of the reference implementation (qwen-tts 0.1.1) for them.

use super::{Goldens, Prompted, greedy, request, tokens};
use crate::{Sampling, TalkerRequest, Voice};

macro_rules! tiny_tts {
    ($dir:literal) => {
        &[
            (
                "config.json",
                include_bytes!(concat!("../../tests/data/", $dir, "/config.json")),
            ),
            (
                "generation_config.json",
                include_bytes!(concat!("../../tests/data/", $dir, "/generation_config.json")),
            ),
            (
                "goldens.safetensors",
                include_bytes!(concat!("../../tests/data/", $dir, "/goldens.safetensors")),
            ),
            (
                "merges.txt",
                include_bytes!(concat!("../../tests/data/", $dir, "/merges.txt")),
            ),
            (
                "model.safetensors",
                include_bytes!(concat!("../../tests/data/", $dir, "/model.safetensors")),
            ),
            (
                "tokenizer_config.json",
                include_bytes!(concat!("../../tests/data/", $dir, "/tokenizer_config.json")),
            ),
            (
                "vocab.json",
                include_bytes!(concat!("../../tests/data/", $dir, "/vocab.json")),
            ),
            (
                "speech_tokenizer/config.json",
                include_bytes!(concat!(
                    "../../tests/data/",
                    $dir,
                    "/speech_tokenizer/config.json"
                )),
            ),
            // The two checkpoints have one codec, as the published ones have.
            (
                "speech_tokenizer/model.safetensors",
                include_bytes!(
                    "../../tests/data/qwen3-tts-tiny-custom-voice/speech_tokenizer/model.safetensors"
                ),
            ),
        ]
    };
}

/// A checkpoint with voices of its own.
pub static TINY_TTS: &[(&str, &[u8])] = tiny_tts!("qwen3-tts-tiny-custom-voice");
/// One that clones.
pub static TINY_TTS_BASE: &[(&str, &[u8])] = tiny_tts!("qwen3-tts-tiny-base");

/// Outputs of the reference implementation for recordings of 30 and of 80 frames with [`published_window`].
pub static LONG_RECORDINGS: &[u8] =
    include_bytes!("../../tests/data/qwen3-tts-tiny-base/goldens-window72.safetensors");

/// The checkpoint that clones, with the attention window of the published codec: 72 frames.
pub fn published_window() -> &'static [(&'static str, &'static [u8])] {
    let changed = |&(name, content): &(&'static str, &'static [u8])| {
        let config = |window: &str| format!("\"sliding_window\": {window}");
        match name {
            "speech_tokenizer/config.json" => {
                let json = String::from_utf8_lossy(content).replace(&config("5"), &config("72"));
                (name, json.leak().as_bytes())
            }
            _ => (name, content),
        }
    };
    TINY_TTS_BASE.iter().map(changed).collect::<Vec<_>>().leak()
}

/// A file of a checkpoint in memory.
///
/// # Panics
/// If there is none.
pub fn file_of(checkpoint: &'static [(&'static str, &'static [u8])], name: &str) -> &'static [u8] {
    let file = checkpoint.iter().find(|(n, _)| *n == name);
    file.unwrap_or_else(|| panic!("there is no {name}")).1
}

/// Case `name` of goldens: the text between the marks of its turn, and its instruction if it has one. `whole`: all
/// text is in front of the first frame.
///
/// # Panics
/// If there is no such case.
pub fn tts_prompt(g: &Goldens, name: &str, voice: Voice, language: Option<&str>, whole: bool) -> Prompted {
    let ids = g.ids(&format!("{name}.input_ids"));
    let text = ids[3..ids.len() - 5].to_vec();
    let instruction = format!("{name}.instruct_ids");
    let user = if g.has(&instruction) {
        tokens(&g.ids(&instruction))
    } else {
        Vec::new()
    };
    let frames = u32::try_from(g.shape(&format!("{name}.codes"))[0]).expect("few frames");
    let (text, whole) = if whole {
        (Vec::new(), Some(text))
    } else {
        (text, None)
    };
    Prompted {
        request: TalkerRequest {
            voice,
            language: language.map(str::to_owned),
            text: whole,
            talker: Sampling {
                min_tokens: 2,
                ..greedy()
            },
            ..request(user, "", frames)
        },
        text,
    }
}
