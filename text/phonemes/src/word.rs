//! Words and their phonemes.

use std::ops::Range;

/// A word or a punctuation mark that is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its characters (Unicode scalar values) in the text that was given, a pronunciation in place included. Words are in order.
    pub source: Range<usize>,
    /// Its phonemes, at least one: symbols of Kokoro's vocabulary.
    pub phonemes: String,
    /// True if it is a punctuation mark.
    pub punctuation: bool,
    /// True if a space follows, never for the last one.
    pub spaced: bool,
}

/// The phonemes of words with the spaces between them, as a model reads them.
pub fn join(words: &[Word]) -> String {
    let mut text = String::new();
    for word in words {
        text.push_str(&word.phonemes);
        if word.spaced {
            text.push(' ');
        }
    }
    text
}
