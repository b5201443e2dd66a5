//! Token ids to text, token by token: a token may end in the middle of a character, so characters come when they are
//! whole.

use std::collections::HashMap;

use super::Tokenizer;

/// The bytes that tokens stand for.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// By id; nothing for special tokens.
    bytes: Vec<Box<[u8]>>,
}

impl Vocabulary {
    pub(super) fn of(tokenizer: &tokenizers::Tokenizer) -> Self {
        let alphabet = alphabet();
        let mut bytes = Vec::new();
        let mut put = |id: u32, token: Box<[u8]>| {
            let id = id as usize;
            if bytes.len() <= id {
                bytes.resize(id + 1, Box::default());
            }
            bytes[id] = token;
        };
        for (token, id) in tokenizer.get_vocab(false) {
            put(id, unmapped(&token, &alphabet));
        }
        for (id, token) in tokenizer.get_added_tokens_decoder() {
            let text = if token.special { "" } else { token.content.as_str() };
            put(id, text.as_bytes().into());
        }
        Self { bytes }
    }
}

/// The byte behind every character of byte-level tokens: printable ones stand for themselves, the others for those
/// from 256 on, in order. (GPT-2, `encoder.py`, `bytes_to_unicode`.)
fn alphabet() -> HashMap<char, u8> {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let others = (0..=u8::MAX).filter(|&b| !printable(b));
    let shifted = (256..).filter_map(char::from_u32).zip(others);
    let own = (0..=u8::MAX)
        .filter(|&b| printable(b))
        .map(|b| (char::from(b), b));
    own.chain(shifted).collect()
}

/// A token of characters outside the alphabet stands for those characters.
fn unmapped(token: &str, alphabet: &HashMap<char, u8>) -> Box<[u8]> {
    let bytes: Option<Vec<u8>> = token.chars().map(|c| alphabet.get(&c).copied()).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec()).into()
}

/// Text of one sequence of tokens, released in whole characters.
///
/// The concatenated pieces are the tokens' bytes decoded as one UTF-8 text, with U+FFFD for each invalid part.
#[derive(Debug, Clone)]
pub struct TextDecoder {
    tokenizer: Tokenizer,
    /// The beginning of a character whose other bytes have not come yet.
    pending: Vec<u8>,
}

impl TextDecoder {
    pub(super) fn new(tokenizer: Tokenizer) -> Self {
        Self {
            tokenizer,
            pending: Vec::new(),
        }
    }

    /// Takes a token; returns the characters that are whole now. Special and unknown tokens have no text.
    pub fn push(&mut self, token: u32) -> String {
        if let Some(bytes) = self.tokenizer.vocabulary().bytes.get(token as usize) {
            self.pending.extend_from_slice(bytes);
        }
        let mut text = String::new();
        let mut done = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            let broken = chunk.invalid();
            let last = done + broken.len() == self.pending.len();
            if broken.is_empty() || last && is_beginning(broken) {
                continue;
            }
            text.push(char::REPLACEMENT_CHARACTER);
            done += broken.len();
        }
        self.pending.drain(..done);
        text
    }

    /// The text ends: U+FFFD for the beginning of a character that was never finished.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// Returns true if more bytes could make this a character.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none())
}
