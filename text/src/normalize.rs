//! Writes text as words of a voice's alphabet: numbers, dates, times, money, units, abbreviations, addresses, symbols.
//!
//! A text is first [`fold`]ed to plain characters, then cut into `Token`s, then read from left to right: at
//! every token the first rule of [`rules`] that knows what starts there says it in words. What no rule knows is left
//! out and counted. Every rule looks a bounded number of tokens ahead or takes all it looked at, so the work is linear.
//! Sentences are read one by one or many at once; nothing is remembered between calls.

mod acronym;
mod alphabet;
mod between;
mod currency;
mod date;
mod duration;
mod fold;
mod fraction;
mod identifier;
mod measure;
mod net;
mod number;
mod numeral;
mod out;
mod phone;
mod place;
mod quantity;
mod roman;
mod rules;
mod symbol;
mod text;
mod time;
mod unit;
mod word;

use crate::{Skipped, Span, TextError, markup};
use alphabet::Alphabet;
use out::Out;
use text::Text;

/// The languages that can be written as words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Language {
    /// American English.
    English,
}

impl Language {
    /// The language of a BCP-47 tag, if it is one of these. Region and script do not matter.
    pub fn from_tag(tag: &str) -> Option<Self> {
        let primary = tag.split(['-', '_']).next()?;
        ["en", "eng", "english"]
            .iter()
            .any(|name| primary.eq_ignore_ascii_case(name))
            .then_some(Self::English)
    }
}

/// Text as words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Normalized {
    /// Only speakable characters; single spaces; no punctuation at the start.
    pub text: String,
    /// Characters that were left out because the voice cannot speak it.
    pub skipped: Skipped,
    /// The part of the input that each part of `text` says. One per word or number.
    pub spans: Vec<Span>,
}

/// Writes text as words of one voice's alphabet.
#[derive(Debug, Clone)]
pub struct Normalizer {
    alphabet: Alphabet,
}

impl Normalizer {
    /// A normaliser for a voice that speaks exactly the characters in `speakable`.
    ///
    /// # Errors
    /// [`TextError::Alphabet`] if they lack a letter (in both cases) or the space.
    pub fn new(language: Language, speakable: &str) -> Result<Self, TextError> {
        let Language::English = language;
        Ok(Self {
            alphabet: Alphabet::new(speakable)?,
        })
    }

    /// Writes `input` as words, without its markup.
    ///
    /// # Errors
    /// [`TextError::NothingSpeakable`] if nothing is left.
    pub fn normalize(&self, input: &str) -> Result<Normalized, TextError> {
        let normalized = match markup::without_marks(input) {
            Some((plain, positions)) => {
                let mut normalized = self.convert(&plain);
                for span in &mut normalized.spans {
                    span.source = positions.range(span.source);
                }
                normalized
            }
            None => self.convert(input),
        };
        if normalized.text.is_empty() {
            return Err(TextError::NothingSpeakable {
                skipped: normalized.skipped,
            });
        }
        Ok(normalized)
    }

    /// Writes `input` as words; empty if nothing in it can be spoken.
    pub(crate) fn convert(&self, input: &str) -> Normalized {
        let folded = fold::fold(input);
        let text = Text::new(&folded);
        let mut out = Out::new(&self.alphabet, folded.skipped.clone());
        let mut at = 0;
        while at < text.len() {
            let used = rules::read(&text, at, &mut out);
            debug_assert!(used > 0, "every token is taken");
            at += used.max(1);
        }
        out.finish()
    }
}
