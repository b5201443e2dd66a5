//! English letters to sounds: text goes in, the phonemes that a voice of Kokoro's kind speaks come out, word by word.
//!
//! * [`Phonemizer`] reads text in an [`Accent`]; [`Word`] is a word with its phonemes and its place in the text.
//! * [`Lexicon`] holds the pronunciations that users give; `[word](/phonemes/)` in a text gives one in place.
//! * [`Alphabet`] reads IPA, as SSML's `<phoneme>` has it, into the symbols of a [`Vocabulary`].
//!
//! ```
//! use omni_phonemes::{Accent, Lexicon, Phonemizer, Vocabulary, join};
//!
//! let phonemizer = Phonemizer::new(Accent::American, Lexicon::new());
//! let words = phonemizer.phonemes("I read what [Omni](/ˈɑmnaɪ/) said.")?;
//! assert_eq!(join(&words), "ˌI ɹˈɛd wˌʌt ˈɑmnI sˈɛd.");
//! assert_eq!(Vocabulary::kokoro().ids(&words)?.len(), 24);
//! # Ok::<(), omni_phonemes::PhonemeError>(())
//! ```
//!
//! # Method
//!
//! `misaki-rs` (MIT) finds words, tags them by their part of speech (`record` is a noun or a verb) and looks them up in misaki's
//! lexicons (Apache-2.0). Words that these lack are read here, in this order: the words of CMUdict (BSD-2-Clause; American only), the
//! same with `'s`, `s`, `ed` or `ing`, letters one by one where there is no vowel, and else a joint n-gram
//! model of letters and phonemes that `train.py` learns from the same dictionaries. Nothing here comes from espeak-ng, no process is
//! started, and no file is read. `NOTICE` names the sources and their terms.
//!
//! Numbers, dates and symbols are read by the library in its own way where they come; a text that `omni-text` normalised has none,
//! and passes as it is: letters that it spells (`f b i`) are read by their names. Text is cut into sentences before it comes here.
//!
//! The lexicons and models of the accents are in the binary (25 MB, as `misaki-rs` embeds them, unpacked) and are parsed with the
//! first word of an accent.

mod accent;
mod alphabet;
mod english;
mod error;
mod inline;
mod lexicon;
mod model;
mod phonemizer;
mod unknown;
mod vocabulary;
mod word;

pub use accent::Accent;
pub use alphabet::Alphabet;
pub use error::{LexiconError, PhonemeError};
pub use lexicon::Lexicon;
pub use phonemizer::{MOST_CHARS, Phonemizer};
pub use vocabulary::Vocabulary;
pub use word::{Word, join};

/// The first characters of a text that an error quotes.
fn beginning(text: &str) -> String {
    const CHARS: usize = 64;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
