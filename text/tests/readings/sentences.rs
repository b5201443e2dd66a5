//! Whole sentences of every kind, as a person reads them aloud.

use std::fmt::Write;

use omni_text::{FrontEndOptions, Language, Normalizer, TextError, explain};

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

/// What a session gives its model.
fn read(written: &str) -> Result<String, TextError> {
    let normalizer = Normalizer::new(Language::English, "abcdefghijklmnopqrstuvwxyz .,?!'-:;")?;
    let options = FrontEndOptions {
        normalizer: Some(normalizer),
        ..FrontEndOptions::default()
    };
    let segments = explain(options, written)?.segments;
    Ok(segments.into_iter().map(|segment| segment.text + " ").collect())
}

#[test]
fn sentences_are_read_as_people_read_them() {
    let mut count = 0;
    let mut wrong = String::new();
    for line in include_str!("sentences.txt").lines() {
        let Some((written, expected)) = line.split_once(" =>") else {
            continue;
        };
        let written = written
            .replace('\u{23ce}', "\n")
            .replace('\u{241b}', "\u{1b}")
            .replace('\u{2407}', "\u{7}");
        count += 1;
        let got = read(&written).map_or_else(|error| error.to_string(), |text| words(&text));
        if got != expected.trim() {
            let _ = write!(
                wrong,
                "\n{written:?}\n  expected {}\n  got      {got}",
                expected.trim()
            );
        }
    }
    assert!(count >= 500, "{count} sentences");
    let failed = wrong.matches("expected").count();
    assert!(wrong.is_empty(), "{failed} of {count} read wrongly:{wrong}");
}
