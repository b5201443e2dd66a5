//! Phonemes as people write them: IPA, and Kokoro's symbols.

use crate::{Accent, PhonemeError, Vocabulary};

/// Most phonemes of a word.
pub(crate) const LONGEST: usize = 128;

/// Vowels of the vocabulary, before which a stress mark stands.
const VOWELS: &str = "AIOQWYaeiouyæɐɑɒɔəɚɛɜɨɪɯøœʊʌɤᵊᵻ";

/// An alphabet of phonemes, as the `alphabet` of SSML's `<phoneme>` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Alphabet {
    /// The International Phonetic Alphabet. Kokoro's symbols are understood as well: `kˈOkəɹO` is `ˈkoʊkəroʊ`.
    Ipa,
    /// Kokoro's symbols, taken as they are.
    Kokoro,
}

/// Sounds that the vocabulary writes in another way, longer forms first.
const BOTH: [(&str, &str); 24] = [
    ("\u{361}", ""),
    ("\u{35c}", ""),
    ("\u{32f}", ""),
    ("tʃ", "ʧ"),
    ("dʒ", "ʤ"),
    ("aɪ", "I"),
    ("aʊ", "W"),
    ("eɪ", "A"),
    ("ɔɪ", "Y"),
    ("n\u{329}", "ᵊn"),
    ("l\u{329}", "ᵊl"),
    ("m\u{329}", "ᵊm"),
    (".", ""),
    ("‿", ""),
    ("'", "ˈ"),
    ("’", "ˈ"),
    ("ˑ", ""),
    (":", "ː"),
    ("g", "ɡ"),
    ("r", "ɹ"),
    ("ɫ", "l"),
    ("ʍ", "w"),
    ("e", "ɛ"),
    ("ɵ", "ʊ"),
];

const AMERICAN: [(&str, &str); 8] = [
    ("oʊ", "O"),
    ("əʊ", "O"),
    ("ɝ", "ɜɹ"),
    ("ɚ", "əɹ"),
    ("ː", ""),
    ("ɾ", "T"),
    ("ʔ", "t"),
    ("o", "O"),
];

const BRITISH: [(&str, &str); 6] = [
    ("əʊ", "Q"),
    ("oʊ", "Q"),
    ("ɝ", "ɜː"),
    ("ɚ", "ə"),
    ("æ", "a"),
    ("o", "ɔ"),
];

impl Alphabet {
    /// The alphabet of this name in SSML: `ipa` or `x-kokoro`.
    ///
    /// # Errors
    /// [`PhonemeError::Alphabet`] for any other name.
    pub fn from_name(name: &str) -> Result<Self, PhonemeError> {
        match name {
            "ipa" => Ok(Self::Ipa),
            "x-kokoro" => Ok(Self::Kokoro),
            _ => Err(PhonemeError::Alphabet {
                name: name.to_owned(),
            }),
        }
    }

    /// The vocabulary's symbols of phonemes in this alphabet, with slashes or brackets around them or without.
    ///
    /// # Errors
    /// [`PhonemeError::Symbols`] if there is one that the vocabulary lacks, [`PhonemeError::Length`] if there is no sound or too many.
    pub fn read(self, written: &str, accent: Accent) -> Result<String, PhonemeError> {
        let bare = written.trim();
        let bare = between(bare, '/', '/')
            .or_else(|| between(bare, '[', ']'))
            .unwrap_or(bare);
        let phonemes = match self {
            Self::Kokoro => bare.to_owned(),
            Self::Ipa => from_ipa(bare, accent),
        };
        let phonemes = phonemes.split_whitespace().collect::<Vec<_>>().join(" ");
        let silent = !phonemes.chars().any(char::is_alphabetic);
        if silent || phonemes.chars().count() > LONGEST {
            return Err(PhonemeError::Length {
                phonemes: crate::beginning(written),
                limit: LONGEST,
            });
        }
        Vocabulary::kokoro().check(&phonemes)?;
        Ok(phonemes)
    }
}

fn between(text: &str, open: char, close: char) -> Option<&str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

fn from_ipa(written: &str, accent: Accent) -> String {
    let own: &[(&str, &str)] = match accent {
        Accent::American => &AMERICAN,
        Accent::British => &BRITISH,
    };
    let rules = BOTH.iter().chain(own);
    let text = rules.fold(written.to_owned(), |text, (ipa, ours)| text.replace(ipa, ours));
    stress_before_vowels(&text)
}

/// IPA has a stress mark before its syllable, the vocabulary before the vowel.
fn stress_before_vowels(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut waiting = None;
    for c in text.chars() {
        if matches!(c, 'ˈ' | 'ˌ') {
            waiting = Some(c);
            continue;
        }
        if VOWELS.contains(c) {
            out.extend(waiting.take());
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipa_is_read_into_the_symbols_of_the_vocabulary() {
        let american = |written| Alphabet::Ipa.read(written, Accent::American).unwrap();
        assert_eq!(american("/həˈloʊ/"), "həlˈO");
        assert_eq!(american("kˈOkəɹO"), "kˈOkəɹO");
        assert_eq!(american("[ˈt͡ʃɝtʃ.jɑːrd]"), "ʧˈɜɹʧjɑɹd");
        assert_eq!(american("ˈbʌtn\u{329}"), "bˈʌtᵊn");
        assert_eq!(american("ˌsɛnt ˈluːɪs"), "sˌɛnt lˈuɪs");
        let british = |written| Alphabet::Ipa.read(written, Accent::British).unwrap();
        assert_eq!(british("həˈləʊ"), "həlˈQ");
        assert_eq!(british("ˈfɑːðə"), "fˈɑːðə");
    }

    #[test]
    fn symbols_outside_of_the_vocabulary_are_named() {
        let error = Alphabet::Ipa.read("/ħɑ/", Accent::American).unwrap_err();
        assert!(error.to_string().contains("'ħ' (U+0127)"), "{error}");
        let error = Alphabet::Kokoro.read("gO", Accent::American).unwrap_err();
        assert!(error.to_string().contains("'g' (U+0067)"), "{error}");
        for silent in ["", "//", "ˈ", " . "] {
            let error = Alphabet::Ipa.read(silent, Accent::American).unwrap_err();
            assert!(matches!(error, PhonemeError::Length { .. }), "{silent:?}");
        }
        let long = "a".repeat(LONGEST + 1);
        assert!(Alphabet::Kokoro.read(&long, Accent::American).is_err());
    }

    #[test]
    fn alphabets_have_the_names_of_ssml() {
        assert_eq!(Alphabet::from_name("ipa"), Ok(Alphabet::Ipa));
        assert_eq!(Alphabet::from_name("x-kokoro"), Ok(Alphabet::Kokoro));
        assert!(Alphabet::from_name("x-sampa").is_err());
    }
}
