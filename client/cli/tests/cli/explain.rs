//! `explain` shows what a text becomes before it is spoken.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::fake::{Fake, Script};
use crate::program::Place;

#[test]
fn a_text_is_shown_word_by_word_and_what_is_left_out_is_told() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run(&["explain", "Hello", "World"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let shown = String::from_utf8_lossy(&outcome.stdout);
    assert!(shown.starts_with("1. \"hello world.\" (flush)"), "{shown}");
    assert!(
        shown
            .lines()
            .any(|line| line.contains("Hello World") && line.contains("hello world")),
        "{shown}"
    );
    assert!(
        outcome.stderr.contains("skipped one (CHARACTERS_SKIPPED)"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn programs_get_json_of_text_that_is_piped_in() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let mut command = place.command(&["explain", "--json", "-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    child
        .stdin
        .take()
        .expect("it is piped")
        .write_all(b"Hello")
        .expect("it reads");
    let outcome = crate::program::finish(child);
    let told: Value = serde_json::from_slice(&outcome.stdout).expect("JSON");
    assert_eq!(told["segments"][0]["text"], "hello.");
    assert_eq!(told["segments"][0]["words"][0]["char_end"], 5);
    assert_eq!(told["warnings"][0]["reason"], "CHARACTERS_SKIPPED");
}

#[test]
fn without_a_text_it_says_how_to_give_one() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run(&["explain", "--file", "missing.txt"]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(
        outcome.stderr.contains("cannot read missing.txt"),
        "{}",
        outcome.stderr
    );
}
