//! Text to token ids and back, from `tokenizer.json` or, where a checkpoint has none (as the published one), from
//! `vocab.json`, `merges.txt` and `tokenizer_config.json`.

mod decoder;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use crate::checkpoint::{Checkpoint, LoadError, Problem};
pub use decoder::TextDecoder;
use decoder::Vocabulary;

pub(crate) const WHOLE: &str = "tokenizer.json";
const VOCAB: &str = "vocab.json";
const MERGES: &str = "merges.txt";
const CONFIG: &str = "tokenizer_config.json";
/// Files needed where there is no [`WHOLE`].
pub(crate) const FILES: [&str; 3] = [VOCAB, CONFIG, MERGES];

/// Pattern by which Qwen2's tokenizer cuts text before merging bytes (transformers, `tokenization_qwen2.py`).
const SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The text tokenizer of a checkpoint. Clones share it.
#[derive(Debug, Clone)]
pub struct Tokenizer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Takes names of special tokens for plain text.
    plain: tokenizers::Tokenizer,
    /// Names and ids of the special tokens.
    special: BTreeMap<String, u32>,
    /// Text of all tokens, built on first use.
    vocabulary: OnceLock<Vocabulary>,
}

/// Text that could not be tokenized.
#[derive(Debug, Clone, thiserror::Error)]
#[error("text cannot be tokenized: {0}")]
pub struct TokenizeError(String);

impl Tokenizer {
    /// Reads the tokenizer of a checkpoint.
    ///
    /// # Errors
    /// [`LoadError`] naming the file that is missing or malformed.
    pub fn load(checkpoint: &Checkpoint) -> Result<Self, LoadError> {
        let parse = |json: &[u8], file: &str| {
            // The library panics at text that is no JSON from somewhere within a decoder on (tokenizers 0.23).
            serde_json::from_slice::<Value>(json).map_err(|e| malformed(file, &e))?;
            let parsed = tokenizers::Tokenizer::from_bytes(json);
            parsed.map(Self::new).map_err(|e| malformed(file, &e))
        };
        match checkpoint.file(WHOLE)? {
            Some(json) => parse(&json, WHOLE),
            None => parse(&assemble(checkpoint)?, VOCAB),
        }
    }

    fn new(mut plain: tokenizers::Tokenizer) -> Self {
        plain.set_encode_special_tokens(true);
        let added = plain.get_added_tokens_decoder();
        let special = added.into_iter().filter(|(_, token)| token.special);
        let special = special.map(|(id, token)| (token.content, id)).collect();
        Self(Arc::new(Inner {
            plain,
            special,
            vocabulary: OnceLock::new(),
        }))
    }

    /// Token ids of `text`; names of special tokens in the text become those tokens.
    ///
    /// # Errors
    /// [`TokenizeError`] if the text has a part that no token stands for.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        let mut ids = Vec::new();
        let mut rest = text;
        while let Some((at, name, id)) = self.next_special(rest) {
            ids.extend(self.encode_plain(&rest[..at])?);
            ids.push(id);
            rest = &rest[at + name..];
        }
        ids.extend(self.encode_plain(rest)?);
        Ok(ids)
    }

    /// Token ids of `text`; names of special tokens are plain text.
    ///
    /// # Errors
    /// [`TokenizeError`] if no token covers a part of the text.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        let encoding = self.0.plain.encode_fast(text, false);
        let encoding = encoding.map_err(|e| TokenizeError(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The first special name in `text`: where it begins, its length and its token. Of several that begin there, the
    /// longest.
    pub(crate) fn next_special(&self, text: &str) -> Option<(usize, usize, u32)> {
        let named = |at: usize| {
            let here = self
                .0
                .special
                .iter()
                .filter(|(name, _)| text[at..].starts_with(name.as_str()));
            here.max_by_key(|(name, _)| name.len())
                .map(|(name, &id)| (at, name.len(), id))
        };
        let may_begin = |c: char| self.special_names().any(|name| name.starts_with(c));
        text.char_indices()
            .filter(|&(_, c)| may_begin(c))
            .find_map(|(at, _)| named(at))
    }

    /// Names of the special tokens.
    pub(crate) fn special_names(&self) -> impl Iterator<Item = &str> {
        self.0.special.keys().map(String::as_str)
    }

    /// Returns true if a token is special: it never stands for text.
    pub fn is_special(&self, id: u32) -> bool {
        self.0.special.values().any(|&special| special == id)
    }

    /// The id of a token by its exact name.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.0.plain.token_to_id(token)
    }

    /// Turns the tokens of one text into text as they come.
    pub fn decoder(&self) -> TextDecoder {
        TextDecoder::new(self.clone())
    }

    fn vocabulary(&self) -> &Vocabulary {
        self.0.vocabulary.get_or_init(|| Vocabulary::of(&self.0.plain))
    }
}

fn malformed(file: &str, reason: &impl ToString) -> LoadError {
    LoadError::one(Problem::Malformed {
        file: file.into(),
        reason: reason.to_string(),
    })
}

/// The content of a `tokenizer.json` with the three older files' meaning.
fn assemble(checkpoint: &Checkpoint) -> Result<Vec<u8>, LoadError> {
    let value = |file: &str| -> Result<Value, LoadError> {
        serde_json::from_slice(&checkpoint.required(file)?).map_err(|e| malformed(file, &e))
    };
    let vocab = value(VOCAB)?;
    let config = value(CONFIG)?;
    let merges = checkpoint.required(MERGES)?;
    let merges = std::str::from_utf8(&merges).map_err(|e| malformed(MERGES, &e))?;
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": added_tokens(&config)?,
        "normalizer": { "type": "NFC" },
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": SPLIT }, "behavior": "Isolated", "invert": false },
            byte_level(),
        ] },
        "post_processor": byte_level(),
        "decoder": byte_level(),
        "model": { "type": "BPE", "vocab": vocab, "merges": parse_merges(merges)? },
    });
    serde_json::to_vec(&tokenizer).map_err(|e| malformed(VOCAB, &e))
}

fn byte_level() -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false })
}

/// Lines of two parts; the first line may be a version comment.
fn parse_merges(text: &str) -> Result<Vec<[&str; 2]>, LoadError> {
    let lines = text.lines().enumerate();
    let comment = |i: usize, line: &str| i == 0 && line.starts_with("#version");
    let lines = lines.filter(|&(i, line)| !line.is_empty() && !comment(i, line));
    lines
        .map(|(i, line)| match line.split_once(' ') {
            Some((a, b)) if !b.contains(' ') => Ok([a, b]),
            _ => Err(malformed(
                MERGES,
                &format!("line {}: two parts are expected, found {line:?}", i + 1),
            )),
        })
        .collect()
}

/// `added_tokens_decoder`, in the order of the ids.
fn added_tokens(config: &Value) -> Result<Vec<Value>, LoadError> {
    let none = Map::new();
    let tokens = config
        .get("added_tokens_decoder")
        .map_or(Some(&none), Value::as_object);
    let tokens = tokens.ok_or_else(|| malformed(CONFIG, &"added_tokens_decoder: an object is expected"))?;
    let mut added = Vec::new();
    for (id, token) in tokens {
        let number = id.parse::<u32>().ok().zip(token.as_object());
        let Some((id, token)) = number else {
            return Err(malformed(
                CONFIG,
                &format!("added_tokens_decoder: {id:?} is not a token id with its token"),
            ));
        };
        let mut token = token.clone();
        token.insert("id".into(), id.into());
        added.push((id, Value::Object(token)));
    }
    added.sort_by_key(|(id, _)| *id);
    Ok(added.into_iter().map(|(_, token)| token).collect())
}
