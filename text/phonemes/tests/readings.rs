//! Readings of words, and where they come from.

use std::collections::BTreeSet;

use omni_phonemes::{Accent, Alphabet, Lexicon, PhonemeError, Phonemizer, Word, join};

fn words(text: &str) -> Vec<Word> {
    Phonemizer::new(Accent::American, Lexicon::new())
        .phonemes(text)
        .unwrap()
}

fn american(text: &str) -> String {
    join(&words(text))
}

/// The phonemes beside the characters that they are of.
fn sources(text: &str, words: &[Word]) -> Vec<(String, String)> {
    let chars: Vec<char> = text.chars().collect();
    let source = |word: &Word| chars[word.source.clone()].iter().collect();
    words
        .iter()
        .map(|word| (source(word), word.phonemes.clone()))
        .collect()
}

#[test]
fn sentences_have_their_punctuation_and_their_spaces() {
    assert_eq!(american("Hello, world!"), "həlˈO, wˈɜɹld!");
    assert_eq!(american("  Wait\u{2026} what?\n"), "wˈAt… wˌʌt?");
    let kinds: Vec<_> = words("Yes, I do.")
        .iter()
        .map(|word| (word.punctuation, word.spaced))
        .collect();
    assert_eq!(
        kinds,
        [
            (false, false),
            (true, true),
            (false, true),
            (false, false),
            (true, false)
        ]
    );
    assert_eq!(american(""), "");
    assert_eq!(american("🙂 \u{200d}"), "");
}

#[test]
fn words_have_their_place_in_the_text() {
    let text = "Café—[Omni](/ˈɑmnaɪ/)'s 🙂 two-legged f b i.";
    let found = sources(text, &words(text));
    let expected = [
        ("Café", "kæfˈA"),
        ("—", "—"),
        ("[Omni](/ˈɑmnaɪ/)'s", "ˈɑmnIz"),
        ("two-legged", "tˌulˈɛɡɪd"),
        ("f b i", "ˌɛfbˌiˈI"),
        (".", "."),
    ];
    let found: Vec<_> = found
        .iter()
        .map(|(source, phonemes)| (&**source, &**phonemes))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn pronunciations_in_place_and_of_lexicons_hold_for_known_words() {
    let mut server = Lexicon::new();
    server.insert("world", "/ˈwɔrld/", Accent::American).unwrap();
    server.insert("gRPC", "ʤˌiɑɹpˌisˈi", Accent::American).unwrap();
    let phonemizer = Phonemizer::new(Accent::American, server);
    let read = |phonemizer: &Phonemizer, text: &str| join(&phonemizer.phonemes(text).unwrap());
    assert_eq!(
        read(&phonemizer, "[hello](/ˈbaɪ/) World's gRPC-like (world)."),
        "bˈI wˈɔɹldz ʤˌiɑɹpˌisˈilˈIk (wˈɔɹld)."
    );
    let mut request = Lexicon::new();
    request.insert("world", "wˈi", Accent::American).unwrap();
    let with = phonemizer.with(request);
    assert_eq!(read(&with, "world gRPC"), "wˈi ʤˌiɑɹpˌisˈi");
    assert_eq!(read(&phonemizer, "world"), "wˈɔɹld");
    assert_eq!(
        read(&phonemizer, "the [onyx](/ˈAniks/) the [x](/zˈi/)"),
        "ði ˈAniks ðə zˈi"
    );
    let error = phonemizer.phonemes("[a](/ħ/)").unwrap_err();
    assert!(matches!(error, PhonemeError::Symbols { .. }), "{error}");
    assert!(!read(&phonemizer, "[link](http://a.b)").contains('❓'));
}

#[test]
fn letters_that_a_normaliser_spelled_are_read_by_their_names() {
    assert_eq!(american("the u s b port"), "ðə jˌuˌɛsbˈi pˈɔɹt");
    assert_eq!(american("i think so"), american("I think so"));
    assert_eq!(american("a cat"), "ɐ kˈæt");
}

#[test]
fn unknown_words_are_read_by_what_is_known_of_them() {
    // CMUdict, and its forms.
    assert_eq!(
        american("Schwarzenegger's"),
        format!("{}z", american("Schwarzenegger"))
    );
    // Diacritics, vowels that are not there, digits.
    assert_eq!(american("Zoë"), american("Zoe"));
    assert_eq!(american("xkcd"), "ˌɛkskˌAsˌidˈi");
    assert!(american("mp3").contains("θɹˈi") || american("mp3").contains("θɹˌi"));
    // Anything else.
    assert_eq!(american("blick"), "blˈɪk");
}

#[test]
fn british_differs_from_american() {
    let british = Phonemizer::new(Accent::British, Lexicon::new());
    let read = |text: &str| join(&british.phonemes(text).unwrap());
    assert_eq!(read("the hot bath goes far"), "ðə hˈɒt bˈɑːθ ɡˈQz fˈɑː");
    assert!(
        !read("blicker splorf").contains('ɹ'),
        "{}",
        read("blicker splorf")
    );
}

#[test]
fn other_languages_are_refused_by_what_is_spoken() {
    assert_eq!(Accent::from_tag("en"), Ok(Accent::American));
    assert_eq!(Accent::from_tag("EN_us"), Ok(Accent::American));
    assert_eq!(Accent::from_tag("en-GB"), Ok(Accent::British));
    let error = Accent::from_tag("ja").unwrap_err().to_string();
    assert!(
        error.contains("\"ja\"") && error.contains("en, en-US or en-GB"),
        "{error}"
    );
    assert!(Alphabet::from_name("IPA").is_err());
}

#[test]
fn heteronyms_are_read_by_their_part_of_speech() {
    let mut wrong = BTreeSet::new();
    let rows: Vec<Vec<&str>> = include_str!("heteronyms.tsv")
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect())
        .collect();
    for row in &rows {
        let &[sentence, word, expected] = row.as_slice() else {
            panic!("{row:?}");
        };
        let words = words(sentence);
        let read = sources(sentence, &words)
            .into_iter()
            .find(|(source, _)| source.eq_ignore_ascii_case(word));
        let read = read.expect("the word").1;
        let bare = |phonemes: &str| phonemes.replace('ˌ', "").replace('T', "t");
        if bare(&read) != bare(expected) {
            eprintln!("{sentence} {word}: {read}, expected {expected}");
            wrong.insert(sentence);
        }
    }
    eprintln!("{} of {} right", rows.len() - wrong.len(), rows.len());
    assert!(wrong.len() * 6 <= rows.len(), "{wrong:?}");
}

/// `cargo test --release -p omni-phonemes --test readings speed -- --ignored --nocapture`
#[test]
#[ignore = "measures"]
fn speed() {
    for accent in [Accent::American, Accent::British] {
        let phonemizer = Phonemizer::new(accent, Lexicon::new());
        let start = std::time::Instant::now();
        phonemizer.load();
        let loaded = start.elapsed();
        let sentences: Vec<&str> = include_str!("heteronyms.tsv")
            .lines()
            .skip(1)
            .filter_map(|line| line.split('\t').next())
            .collect();
        let start = std::time::Instant::now();
        let read: usize = sentences
            .iter()
            .map(|sentence| phonemizer.phonemes(sentence).unwrap().len())
            .sum();
        eprintln!(
            "{accent:?}: loaded in {loaded:.2?}; {:.2?} a sentence, {read} words",
            start.elapsed() / sentences.len() as u32
        );
    }
}
