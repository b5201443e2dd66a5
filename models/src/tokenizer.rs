//! Text to token ids, from `tokenizer.json` or, where a checkpoint has none (as the published one), from
//! `vocab.json`, `merges.txt` and `tokenizer_config.json`.

use serde_json::{Map, Value, json};

use crate::checkpoint::{Checkpoint, LoadError, Problem};

const WHOLE: &str = "tokenizer.json";
const VOCAB: &str = "vocab.json";
const MERGES: &str = "merges.txt";
const CONFIG: &str = "tokenizer_config.json";

/// How Qwen2's tokenizer cuts text before merging bytes (transformers, `tokenization_qwen2.py`).
const SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The text tokenizer of a checkpoint.
#[derive(Debug, Clone)]
pub struct Tokenizer(tokenizers::Tokenizer);

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
            let parsed = tokenizers::Tokenizer::from_bytes(json);
            parsed.map(Self).map_err(|e| malformed(file, &e))
        };
        match checkpoint.file(WHOLE)? {
            Some(json) => parse(&json, WHOLE),
            None => parse(&assemble(checkpoint)?, VOCAB),
        }
    }

    /// Token ids of `text`; names of special tokens in the text become those tokens.
    ///
    /// # Errors
    /// [`TokenizeError`] if the text has a part that no token stands for.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        let encoding = self
            .0
            .encode_fast(text, false)
            .map_err(|e| TokenizeError(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The id of a token by its exact name.
    #[must_use]
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.0.token_to_id(token)
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
    let (vocab, config) = (value(VOCAB)?, value(CONFIG)?);
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
