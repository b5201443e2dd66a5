//! The symbols that a model reads, and their numbers.

use std::collections::BTreeMap;

use crate::{PhonemeError, Word};

/// Numbers of symbols, as the `vocab` of a checkpoint's `config.json` has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    ids: BTreeMap<char, u32>,
}

/// Kokoro's 114 symbols, in runs of consecutive numbers.
const KOKORO: [(u32, &str); 30] = [
    (1, ";:,.!?"),
    (9, "—…\"()“” \u{303}ʣʥʦʨᵝꭧAI"),
    (31, "O"),
    (33, "Q"),
    (35, "ST"),
    (39, "W"),
    (41, "Yᵊabcdef"),
    (50, "hijklmnopqrstuvwxyzɑɐɒæ"),
    (75, "βɔɕç"),
    (80, "ɖðʤə"),
    (85, "ɚɛɜ"),
    (90, "ɟ"),
    (92, "ɡ"),
    (99, "ɥ"),
    (101, "ɨɪʝ"),
    (110, "ɯɰŋɳɲɴø"),
    (118, "ɸθœ"),
    (123, "ɹ"),
    (125, "ɾɻ"),
    (128, "ʁɽʂʃʈʧ"),
    (135, "ʊʋ"),
    (138, "ʌɣɤ"),
    (142, "χʎ"),
    (147, "ʒʔ"),
    (156, "ˈˌː"),
    (162, "ʰ"),
    (164, "ʲ"),
    (169, "↓"),
    (171, "→↗↘"),
    (177, "ᵻ"),
];

impl Vocabulary {
    /// A vocabulary of these symbols.
    pub fn new(symbols: impl IntoIterator<Item = (char, u32)>) -> Self {
        Self {
            ids: symbols.into_iter().collect(),
        }
    }

    /// The vocabulary of Kokoro-82M, whose symbols all phonemes here are.
    pub fn kokoro() -> Self {
        let runs = KOKORO.iter();
        Self::new(runs.flat_map(|&(first, symbols)| symbols.chars().zip(first..)))
    }

    /// The number of a symbol.
    pub fn id(&self, symbol: char) -> Option<u32> {
        self.ids.get(&symbol).copied()
    }

    /// Numbers of the symbols of words with the spaces between them: of a word as many as it has symbols, and one for its space.
    ///
    /// # Errors
    /// [`PhonemeError::Symbols`] that names every symbol which the vocabulary lacks.
    pub fn ids(&self, words: &[Word]) -> Result<Vec<u32>, PhonemeError> {
        let text = crate::join(words);
        self.check(&text)?;
        Ok(text.chars().filter_map(|symbol| self.id(symbol)).collect())
    }

    /// # Errors
    /// [`PhonemeError::Symbols`] if the vocabulary lacks one of these.
    pub(crate) fn check(&self, phonemes: &str) -> Result<(), PhonemeError> {
        let mut missing: Vec<char> = phonemes.chars().filter(|&c| self.id(c).is_none()).collect();
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let names = missing.iter().map(|c| format!("{c:?} (U+{:04X})", u32::from(*c)));
        Err(PhonemeError::Symbols {
            phonemes: crate::beginning(phonemes),
            symbols: names.collect::<Vec<_>>().join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vocabulary_of_kokoro_has_its_114_symbols() {
        let kokoro = Vocabulary::kokoro();
        assert_eq!(kokoro.ids.len(), 114);
        assert_eq!(kokoro.id('z'), Some(68));
        assert_eq!(kokoro.id('ˈ'), Some(156));
        assert_eq!(kokoro.id('g'), None);
    }
}
