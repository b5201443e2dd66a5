//! Properties of any text whatever.

use omni_phonemes::{Accent, Lexicon, PhonemeError, Phonemizer, Vocabulary, join};
use omni_text::{Language, Normalizer};
use proptest::prelude::*;

/// Text made of what rules look for, in any order.
fn texty() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        "[a-z]{1,9}",
        "[A-Z]{1,5}",
        "[A-Z][a-z]{1,8}",
        "[0-9]{1,12}",
        "[a-z]{2,6}('s|s'|’s|n't|ed|ing)",
        r"\PC{1,4}",
        prop::sample::select(vec![
            " ",
            " ",
            " ",
            ". ",
            ", ",
            "-",
            "--",
            "\u{2014}",
            "'",
            "’",
            "[",
            "]",
            "(",
            ")",
            "/",
            "](/",
            "/)",
            "[a](/ˈA/)",
            "[two words](/tˈu/)",
            "[x](+1)",
            "[5](#n#)",
            "\n",
            "\u{a0}",
            "$",
            "£",
            "€",
            "%",
            "@",
            "#",
            "&",
            "_",
            "*",
            "…",
            "the",
            "to",
            "a",
            "i",
            "é",
            "ñ",
            "中",
            "क्ष",
            "🙂",
            "\u{301}",
            "\u{200d}",
            "\0",
            "₂",
            "½",
            "1st",
            "-40",
            "3.5",
            "1.2.3",
            "e.g.",
            "Mr.",
            "G2P",
            "mp3",
            "C++",
            "₿",
            "ﬁ",
            "İ",
            "ẞ",
            "ʼ",
            "::",
            "http://a.b/c?d=e",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(atom, 0..24).prop_map(|atoms| atoms.concat())
}

fn holds(text: &str, accent: Accent) {
    let mut lexicon = Lexicon::new();
    lexicon.insert("two", "tˈu", accent).unwrap();
    lexicon.insert("C++", "sˌipləsplˈʌs", accent).unwrap();
    let words = match Phonemizer::new(accent, lexicon).phonemes(text) {
        Ok(words) => words,
        Err(PhonemeError::Symbols { .. } | PhonemeError::Length { .. }) => return,
        Err(error) => panic!("{text:?}: {error}"),
    };
    let chars = text.chars().count();
    let mut end = 0;
    for word in &words {
        assert!(
            end <= word.source.start && word.source.start < word.source.end,
            "{text:?}: {words:?}"
        );
        assert!(
            !word.phonemes.is_empty() && word.phonemes.trim() == word.phonemes,
            "{text:?}: {words:?}"
        );
        end = word.source.end;
    }
    assert!(end <= chars, "{text:?}: {words:?}");
    assert!(
        words.last().is_none_or(|last| !last.spaced),
        "{text:?}: {words:?}"
    );
    let ids = Vocabulary::kokoro().ids(&words).unwrap();
    assert_eq!(ids.len(), join(&words).chars().count());
    assert!(!join(&words).contains("  "), "{text:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 40 } else { 3_000 }))]

    #[test]
    fn any_text_has_words_in_order_and_symbols_of_the_vocabulary(text in "\\PC{0,60}") {
        holds(&text, Accent::American);
        holds(&text, Accent::British);
    }

    #[test]
    fn so_has_text_of_what_rules_look_for(text in texty()) {
        holds(&text, Accent::American);
        holds(&text, Accent::British);
    }

    #[test]
    fn no_bytes_make_a_lexicon_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Lexicon::parse(&bytes, "f".as_ref(), Accent::American);
    }

    /// A normaliser leaves words, which every word of the phonemes is of.
    #[test]
    fn normalised_text_is_read_word_by_word(text in texty()) {
        let normalizer = Normalizer::new(Language::English, "abcdefghijklmnopqrstuvwxyz .,?!'-:;").unwrap();
        if let Ok(normalized) = normalizer.normalize(&text) {
            holds(&normalized.text, Accent::American);
        }
    }
}

#[test]
fn long_texts_and_long_words_are_bounded() {
    let phonemizer = Phonemizer::new(Accent::American, Lexicon::new());
    for text in [
        "a", "A", "'", "-", "ab", "aB", "1", "1.", "[", "[a](/", "a'", "(", "é", "中", "$", "a-", "\u{301}",
    ] {
        let text = text.repeat(4096 / text.chars().count());
        holds(&text, Accent::American);
    }
    let error = phonemizer.phonemes(&"a".repeat(4097)).unwrap_err();
    assert_eq!(
        error,
        PhonemeError::TooLong {
            chars: 4097,
            limit: 4096
        }
    );
}
