//! Pronunciations that users give: a file for a server, entries for a request.

use std::collections::HashMap;
use std::path::Path;

use crate::{Accent, Alphabet, LexiconError, PhonemeError};

/// Most words of a lexicon.
const MOST: usize = 200_000;
/// Most characters of a word.
const LONGEST: usize = 64;

/// Words and their phonemes.
///
/// A file has `word<TAB>phonemes` on a line, in UTF-8: IPA or Kokoro's symbols, slashes around them or not. Empty lines and lines
/// that begin with `#` say nothing. A word in small letters stands for any capitals, one with capitals for itself only; the later of
/// two equal words holds. Inflected words need no entries of their own: `'s` is read by rule.
///
/// ```
/// use omni_phonemes::{Accent, Lexicon};
///
/// let lexicon = Lexicon::parse("# names\nkokoro\t/ˈkoʊkəroʊ/\n".as_bytes(), "names.tsv".as_ref(), Accent::American)?;
/// assert_eq!(lexicon.get("Kokoro"), Some("kˈOkəɹO"));
/// # Ok::<(), omni_phonemes::LexiconError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lexicon {
    words: HashMap<String, String>,
}

impl Lexicon {
    /// One without words.
    pub fn new() -> Self {
        Self::default()
    }

    /// The lexicon of a file's bytes; `path` is for errors.
    ///
    /// # Errors
    /// [`LexiconError`] with the line that is wrong.
    pub fn parse(bytes: &[u8], path: &Path, accent: Accent) -> Result<Self, LexiconError> {
        let wrong = |line: usize, reason: String| LexiconError {
            path: path.to_owned(),
            line,
            reason,
        };
        let mut lexicon = Self::new();
        for (line, bytes) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            let text = std::str::from_utf8(bytes).map_err(|_| wrong(line, "expected UTF-8".to_owned()))?;
            let text = text.trim_start_matches('\u{feff}').trim_end();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let Some((word, phonemes)) = text.split_once('\t') else {
                return Err(wrong(line, "expected a word, a tab and its phonemes".to_owned()));
            };
            lexicon
                .insert(word, phonemes, accent)
                .map_err(|error| wrong(line, error.to_string()))?;
        }
        Ok(lexicon)
    }

    /// Gives `word` these phonemes, in IPA or Kokoro's symbols.
    ///
    /// # Errors
    /// [`PhonemeError::Word`], [`PhonemeError::Symbols`], [`PhonemeError::Length`] or [`PhonemeError::TooManyWords`].
    pub fn insert(&mut self, word: &str, phonemes: &str, accent: Accent) -> Result<(), PhonemeError> {
        let word = word.trim().replace('’', "'");
        let fits = word.chars().count() <= LONGEST && !word.contains(char::is_whitespace);
        if !fits || !word.chars().any(char::is_alphanumeric) {
            return Err(PhonemeError::Word {
                word: crate::beginning(&word),
                limit: LONGEST,
            });
        }
        if self.words.len() >= MOST && !self.words.contains_key(&word) {
            return Err(PhonemeError::TooManyWords { limit: MOST });
        }
        self.words.insert(word, Alphabet::Ipa.read(phonemes, accent)?);
        Ok(())
    }

    /// The phonemes of a word: its own, or those of its small letters.
    pub fn get(&self, word: &str) -> Option<&str> {
        let found = self
            .words
            .get(word)
            .or_else(|| self.words.get(&word.to_lowercase()));
        found.map(String::as_str)
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// True if it has no word.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Lexicon, LexiconError> {
        Lexicon::parse(text.as_bytes(), Path::new("words.tsv"), Accent::American)
    }

    #[test]
    fn a_word_in_small_letters_stands_for_capitals_too() {
        let lexicon = parse("\u{feff}# comment\r\n\ntokio\ttˈOkiO\r\nUS\tjˌuˈɛs\n").unwrap();
        assert_eq!(lexicon.len(), 2);
        assert_eq!(lexicon.get("TOKIO"), Some("tˈOkiO"));
        assert_eq!((lexicon.get("US"), lexicon.get("us")), (Some("jˌuˈɛs"), None));
    }

    #[test]
    fn faults_of_a_file_are_named_by_its_line() {
        for (text, expected) in [
            ("a\tA\nword", "words.tsv:2: expected a word, a tab"),
            ("# x\n\nword\tħ\n", "words.tsv:3: \"ħ\" has 'ħ' (U+0127)"),
            ("two words\tA", "words.tsv:1: \"two words\" is no word"),
            ("word\t", "words.tsv:1: expected a word, a tab"),
            ("!\tA", "words.tsv:1: \"!\" is no word"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let error = Lexicon::parse(b"a\tA\n\xff\tA", Path::new("w"), Accent::American).unwrap_err();
        assert_eq!(error.to_string(), "w:2: expected UTF-8");
    }
}
