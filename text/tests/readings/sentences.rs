//! Whole sentences of every kind, as a person reads them aloud.

use std::fmt::Write;

use omni_text::{Buffering, FrontEndOptions, Language, Normalizer, TextError, explain};

/// The words alone: without marks, hyphens and capitals.
fn words(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|c| match c {
            '.' | ',' | '?' | '!' | ';' | ':' | '-' => ' ',
            c => c.to_ascii_lowercase(),
        })
        .collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words that a session gives its model, with a bar between segments.
fn read(written: &str, buffering: Buffering) -> Result<String, TextError> {
    let normalizer = Normalizer::new(Language::English, "abcdefghijklmnopqrstuvwxyz .,?!'-:;")?;
    let options = FrontEndOptions {
        normalizer: Some(normalizer),
        buffering,
        ..FrontEndOptions::default()
    };
    let segments = explain(options, written)?.segments;
    let words: Vec<String> = segments.iter().map(|segment| words(&segment.text)).collect();
    Ok(words.join(" | "))
}

#[test]
fn sentences_are_read_as_people_read_them() {
    let mut count = 0;
    let mut wrong = String::new();
    let mut buffering = Buffering::Sentence;
    for line in include_str!("sentences.txt").lines() {
        if line == "## eager" {
            buffering = Buffering::Eager;
        }
        let Some((written, expected)) = line.split_once(" =>") else {
            continue;
        };
        let written = written
            .replace('\u{23ce}', "\n")
            .replace('\u{241b}', "\u{1b}")
            .replace('\u{2407}', "\u{7}");
        count += 1;
        let mut got = read(&written, buffering).unwrap_or_else(|error| error.to_string());
        if !expected.contains('|') {
            got = got.replace(" | ", " ");
        }
        if got != expected.trim() {
            let _ = write!(
                wrong,
                "\n{written:?}\n  expected {}\n  got      {got}",
                expected.trim()
            );
        }
    }
    assert!(count >= 800, "{count} sentences");
    let failed = wrong.matches("expected").count();
    assert!(wrong.is_empty(), "{failed} of {count} read wrongly:{wrong}");
}
