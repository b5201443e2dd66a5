//! The library that tags words and looks them up, with what it lacks.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use misaki_rs::fallback::FallbackError;
use misaki_rs::lexicon::PhonemeEntry;
use misaki_rs::{Fallback, G2P, Language};

use crate::model::{self, Model};
use crate::{Accent, Vocabulary};

/// Dictionaries and models of an accent. They are loaded once and never change.
pub(crate) struct English {
    pub(crate) library: G2P,
    pub(crate) model: Model,
    /// Words that the library's lexicons lack.
    pub(crate) words: HashMap<String, String>,
    vocabulary: Vocabulary,
}

/// A word or a mark of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// Its characters.
    pub(crate) chars: Range<usize>,
    pub(crate) phonemes: String,
    /// True if its pronunciation was given.
    pub(crate) given: bool,
}

/// Reads what the library does not know.
struct Unknown(Accent);

impl Fallback for Unknown {
    fn phonemize(&self, word: &str) -> Result<String, FallbackError> {
        Ok(English::get(self.0).unknown(word))
    }
}

impl English {
    /// Dictionaries and models of `accent`; the first call of each takes about a quarter of a second.
    pub(crate) fn get(accent: Accent) -> &'static Self {
        static AMERICAN: OnceLock<English> = OnceLock::new();
        static BRITISH: OnceLock<English> = OnceLock::new();
        match accent {
            Accent::American => AMERICAN.get_or_init(|| Self {
                library: library(Language::EnglishUS, accent),
                model: Model::american(),
                words: model::words(),
                vocabulary: Vocabulary::kokoro(),
            }),
            Accent::British => BRITISH.get_or_init(|| Self {
                library: library(Language::EnglishGB, accent),
                model: Model::british(),
                words: HashMap::new(),
                vocabulary: Vocabulary::kokoro(),
            }),
        }
    }

    /// The words and marks of a text that are spoken. Where the library fails, each word is read by itself.
    pub(crate) fn tokens(&self, chars: &[char]) -> Vec<Token> {
        let mut tokens = Vec::new();
        for (range, long) in stretches(chars) {
            let stretch = &chars[range.clone()];
            // It holds no lock, and what it changes is its own.
            let by_library = || if long { None } else { self.by_library(stretch) };
            let read = catch_unwind(AssertUnwindSafe(by_library)).ok().flatten();
            let read = read.or_else(|| catch_unwind(AssertUnwindSafe(|| self.by_itself(stretch))).ok());
            tokens.extend(read.unwrap_or_default().into_iter().map(|token| Token {
                chars: token.chars.start + range.start..token.chars.end + range.start,
                phonemes: self.symbols(&token.phonemes),
                given: false,
            }));
        }
        tokens.retain(|token| !token.phonemes.is_empty());
        tokens
    }

    /// None if the library's words are not those of the text.
    fn by_library(&self, chars: &[char]) -> Option<Vec<Token>> {
        let text: String = chars.iter().collect();
        let (_, words) = self.library.g2p(&text).ok()?;
        let mut bytes = 0;
        let mut chars = 0;
        let mut tokens = Vec::new();
        for word in words {
            let rest = &text[bytes..];
            let blank = rest.len() - rest.trim_start().len();
            if !rest[blank..].starts_with(&word.text) {
                return None;
            }
            let from = chars + rest[..blank].chars().count();
            let to = from + word.text.chars().count();
            bytes += blank + word.text.len();
            chars = to;
            tokens.push(Token {
                chars: from..to,
                phonemes: word.phonemes.unwrap_or_else(|| self.unknown(&word.text)),
                given: false,
            });
        }
        text[bytes..].trim().is_empty().then_some(tokens)
    }

    fn by_itself(&self, chars: &[char]) -> Vec<Token> {
        let kind = |at: usize| (chars[at].is_alphanumeric() || chars[at] == '\'', chars[at]);
        let mut tokens: Vec<Token> = Vec::new();
        for at in (0..chars.len()).filter(|&at| chars[at] != ' ') {
            let letter = kind(at).0;
            match tokens
                .last_mut()
                .filter(|last| letter && last.chars.end == at && kind(at - 1).0)
            {
                Some(last) => last.chars.end = at + 1,
                None => tokens.push(Token {
                    chars: at..at + 1,
                    phonemes: String::new(),
                    given: false,
                }),
            }
        }
        for token in &mut tokens {
            let text: String = chars[token.chars.clone()].iter().collect();
            let word = text.contains(char::is_alphanumeric);
            token.phonemes = if word { self.unknown(&text) } else { text };
        }
        tokens
    }

    /// The symbols that the vocabulary has, without spaces at the ends or beside each other.
    pub(crate) fn symbols(&self, phonemes: &str) -> String {
        let ours = phonemes.replace('ɾ', "T").replace('ʔ', "t");
        let words = ours.split_whitespace().map(|word| {
            let known = word.chars().filter(|&c| self.vocabulary.id(c).is_some());
            known.collect::<String>()
        });
        words
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The phonemes of a word that the library's lexicons have, or a form of one that they have.
    pub(crate) fn known(&self, word: &str) -> Option<String> {
        let found = self.library.lexicon.get_word(word, "NN", None, None);
        found
            .map(|(phonemes, _)| phonemes)
            .filter(|phonemes| !phonemes.is_empty())
    }

    /// The name of a letter.
    pub(crate) fn letter(&self, letter: char) -> Option<&str> {
        match self
            .library
            .lexicon
            .golds
            .get(&letter.to_ascii_uppercase().to_string())?
        {
            PhonemeEntry::Simple(name) => Some(name),
            PhonemeEntry::Tagged(names) => names.get("DEFAULT")?.as_deref(),
        }
    }
}

/// Characters without a space that the library gets at once: the time that it takes grows with the cube of their number.
const LONGEST: usize = 40;

/// Ranges of characters that are a longer word than the library gets, and those between, with true for the former.
fn stretches(chars: &[char]) -> Vec<(Range<usize>, bool)> {
    let mut found: Vec<(Range<usize>, bool)> = Vec::new();
    let mut at = 0;
    for word in chars.split_inclusive(|&c| c == ' ') {
        let long = word.len() > LONGEST;
        match found.last_mut().filter(|(_, last)| !long && !last) {
            Some((range, _)) => range.end = at + word.len(),
            None => found.push((at..at + word.len(), long)),
        }
        at += word.len();
    }
    found
}

fn library(language: Language, accent: Accent) -> G2P {
    G2P::with_fallback(language, Some(Box::new(Unknown(accent))))
}
