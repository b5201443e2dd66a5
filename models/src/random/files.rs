//! The small files of a random checkpoint.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{RandomModel, Shapes};
use crate::qwen3_tts::CODEC_CONFIG;

/// Names of special tokens, and the fields of `config.json` that have their ids.
const SPECIAL: [(&str, &str); 8] = [
    ("<|im_start|>", "/im_start_token_id"),
    ("<|im_end|>", "/im_end_token_id"),
    ("<tts_pad>", "/tts_pad_token_id"),
    ("<tts_text_bos>", "/tts_bos_token_id"),
    ("<tts_text_eod>", "/tts_eos_token_id"),
    ("<|audio_start|>", "/thinker_config/audio_start_token_id"),
    ("<|audio_end|>", "/thinker_config/audio_end_token_id"),
    ("<|audio_pad|>", "/thinker_config/audio_token_id"),
];
/// Words that are one token, and the fields that have their ids.
const ROLES: [(&str, &str); 3] = [
    ("system", "/system_token_id"),
    ("user", "/user_token_id"),
    ("assistant", "/assistant_token_id"),
];

pub(super) fn file(model: &RandomModel, name: &str) -> Option<Vec<u8>> {
    let shapes = model.shapes;
    let json = match name {
        "config.json" => return Some(shapes.config.into()),
        CODEC_CONFIG => return shapes.codec.map(Into::into),
        "generation_config.json" if shapes.codec.is_some() => generation_apart(),
        "generation_config.json" => generation(),
        "omni.json" => card(model),
        "vocab.json" => vocabulary(shapes),
        "merges.txt" => return Some(Vec::new()),
        "tokenizer_config.json" => special(shapes),
        _ => return None,
    };
    Some(json.to_string().into_bytes())
}

/// Longest speech that may be asked for.
const FRAMES: u32 = 4096;

/// The published settings of Qwen3-TTS, and no end before the longest that may be asked for.
fn generation_apart() -> Value {
    json!({
        "temperature": 0.9,
        "top_k": 50,
        "top_p": 1.0,
        "repetition_penalty": 1.05,
        "subtalker_temperature": 0.9,
        "subtalker_top_k": 50,
        "subtalker_top_p": 1.0,
        "min_new_tokens": FRAMES,
        "max_new_tokens": FRAMES,
    })
}

/// Published talker settings with the longest allowed speech and no earlier end, which the card sets. The thinker
/// samples, too, because greedy tokens loop.
fn generation() -> Value {
    const TOKENS: u32 = 1024;
    json!({
        "talker_temperature": 0.9,
        "talker_top_k": 50,
        "talker_top_p": 1.0,
        "talker_repetition_penalty": 1.05,
        "talker_min_new_tokens": FRAMES,
        "talker_max_new_tokens": FRAMES,
        "thinker_temperature": 1.0,
        "thinker_top_k": 50,
        "thinker_min_new_tokens": TOKENS,
        "thinker_max_new_tokens": TOKENS,
    })
}

fn card(model: &RandomModel) -> Value {
    let mut card = json!({
        "name": model.to_string(),
        "description": format!(
            "Noise: the shapes of {} with random weights of seed {}, for measuring.",
            model.shapes.name, model.seed
        ),
        "ends_after": { "frames": model.shapes.frames, "tokens": model.shapes.tokens },
    });
    if model.shapes.converses {
        card["chat"] = json!({ "hears": true, "talker_context": true });
    }
    card
}

fn config(shapes: &Shapes) -> Value {
    // A test reads all of them.
    serde_json::from_str(shapes.config).unwrap_or_default()
}

/// Ids and names.
fn named(config: &Value, names: &[(&'static str, &str)]) -> BTreeMap<u64, &'static str> {
    let id = |field: &str| config.pointer(field).and_then(Value::as_u64);
    let tokens = names.iter().filter_map(|(name, field)| Some((id(field)?, *name)));
    tokens.collect()
}

/// The bytes at the published ids, the named tokens, and a made-up word in every other place. Nothing is ever merged,
/// so text is tokenised by byte, and a thinker's output reads as words.
fn vocabulary(shapes: &Shapes) -> Value {
    let config = config(shapes);
    let mut tokens = named(&config, &SPECIAL);
    tokens.extend(named(&config, &ROLES));
    let sizes = [
        "/thinker_config/text_config/vocab_size",
        "/talker_config/text_vocab_size",
    ];
    let size = sizes.iter().find_map(|field| config.pointer(field));
    let token = |id: u64| match (tokens.get(&id), byte_tokens().nth(usize::try_from(id).ok()?)) {
        (Some(name), _) => Some((*name).to_owned()),
        (None, Some(byte)) => Some(byte.to_string()),
        (None, None) => Some(word(id)),
    };
    let ids = 0..size.and_then(Value::as_u64).unwrap_or_default();
    let entries = ids.filter_map(|id| Some((token(id)?, Value::from(id))));
    Value::Object(entries.collect::<Map<_, _>>())
}

/// The tokens of single bytes, in the order of their ids: the printable characters of Latin-1, then those that stand
/// for the other bytes.
fn byte_tokens() -> impl Iterator<Item = char> {
    let printable = ('!'..='~').chain('\u{a1}'..='\u{ac}').chain('\u{ae}'..='\u{ff}');
    printable.chain('\u{100}'..='\u{143}')
}

/// A word for an id, with a space (written Ġ) in front: syllables, one word per id.
fn word(mut id: u64) -> String {
    const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
    const VOWELS: &[u8; 4] = b"aeio";
    let mut word = String::from('\u{120}');
    while id > 0 {
        word.push(char::from(CONSONANTS[(id % 16) as usize]));
        word.push(char::from(VOWELS[(id / 16 % 4) as usize]));
        id /= 64;
    }
    word
}

fn special(shapes: &Shapes) -> Value {
    let config = config(shapes);
    let added = |names, special| {
        let token = move |(id, name): (u64, _)| {
            let token = json!({
                "content": name, "lstrip": false, "normalized": false, "rstrip": false, "single_word": false,
                "special": special,
            });
            (id.to_string(), token)
        };
        named(&config, names).into_iter().map(token)
    };
    let tokens: Map<_, _> = added(&SPECIAL, true).chain(added(&ROLES, false)).collect();
    json!({ "added_tokens_decoder": tokens })
}
