//! Texts as they are written, and their readings.

mod addresses;
mod numbers;
mod sentences;
mod times;
mod words;

use omni_text::{Language, Normalizer};

fn check(cases: &[(&str, &str)]) {
    let normalizer = Normalizer::new(Language::English, "abcdefghijklmnopqrstuvwxyz .,?!'-:;").unwrap();
    let read = |written| {
        normalizer
            .normalize(written)
            .map_or_else(|e| e.to_string(), |n| n.text)
    };
    let wrong: Vec<String> = cases
        .iter()
        .map(|&(written, expected)| (written, expected, read(written)))
        .filter(|(_, expected, got)| got != expected)
        .map(|(written, expected, got)| format!("{written:?}\n  expected {expected:?}\n  got      {got:?}"))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} read wrongly:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}
