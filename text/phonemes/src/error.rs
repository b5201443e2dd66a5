//! Errors of phonemes.

use std::path::PathBuf;

/// The reason for which a text has no phonemes, or phonemes are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PhonemeError {
    /// A language without letters to sounds.
    #[error("letters to sounds of {tag:?} are unknown: expected en, en-US or en-GB")]
    Language {
        /// The tag as it was given.
        tag: String,
    },
    /// More text than is read at once.
    #[error(
        "a text of {chars} characters is too long to be read at once: at most {limit}; cut it at its sentences"
    )]
    TooLong {
        /// Characters of the text.
        chars: usize,
        /// Most characters.
        limit: usize,
    },
    /// Phonemes outside of the vocabulary.
    #[error("{phonemes:?} has {symbols}, which the vocabulary lacks: expected IPA or Kokoro's symbols")]
    Symbols {
        /// The phonemes as they were given.
        phonemes: String,
        /// The symbols, each with its code point.
        symbols: String,
    },
    /// Phonemes without a sound, or too many of them.
    #[error("{phonemes:?} is no pronunciation: expected 1 to {limit} phonemes")]
    Length {
        /// The phonemes, or their beginning.
        phonemes: String,
        /// Most phonemes of a word.
        limit: usize,
    },
    /// A name of an alphabet that SSML may give.
    #[error("phonemes in the alphabet {name:?} are not understood: expected ipa or x-kokoro")]
    Alphabet {
        /// The name as it was given.
        name: String,
    },
    /// A word that no lexicon can have.
    #[error(
        "{word:?} is no word: expected 1 to {limit} characters without spaces, at least one of them a letter or digit"
    )]
    Word {
        /// The word, or its beginning.
        word: String,
        /// Most characters of a word.
        limit: usize,
    },
    /// More words than a lexicon may have.
    #[error("the lexicon has more than {limit} words")]
    TooManyWords {
        /// Most words.
        limit: usize,
    },
}

/// An error in a lexicon's file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {reason}", path.display())]
pub struct LexiconError {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; 0 if the file could not be read.
    pub line: usize,
    /// The fault, and what is accepted.
    pub reason: String,
}
