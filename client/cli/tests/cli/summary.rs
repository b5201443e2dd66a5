//! Progress messages and the summary at the end.

use std::fs;
use std::process::Stdio;

use omni_proto::v1::FinishReason;
use serde_json::Value;
use tonic::Status;

use crate::fake::{Fake, Script};
use crate::program::{Place, Terminal, finish};

#[test]
fn one_line_sums_up() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run(&["speak", "Hello.", "-o", "a.wav"]);
    let parts: Vec<&str> = outcome.stderr.trim_end().split(" · ").collect();
    let [audio, first, factor, gaps, voice, file] = parts[..] else {
        panic!("{parts:?}")
    };
    assert_eq!((audio, voice, file), ("0.4 s of audio", "voice fake", "a.wav"));
    assert!(
        first.starts_with("first audio ") && first.ends_with(" ms"),
        "{first}"
    );
    assert!(factor.starts_with("real-time factor "), "{factor}");
    assert!(gaps.starts_with("gaps "), "{gaps}");
    assert_eq!(outcome.stderr.lines().count(), 1);
}

#[test]
fn quiet_means_quiet() {
    let fake = Fake::start(Script {
        warning: Some(("CHARACTERS_SKIPPED", "3 skipped")),
        ..Script::default()
    });
    let outcome = Place::with(&fake).run(&["speak", "Hello.", "-q"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn warnings_of_the_server_are_shown() {
    let fake = Fake::start(Script {
        warning: Some(("CHARACTERS_SKIPPED", "3 skipped")),
        ..Script::default()
    });
    let outcome = Place::with(&fake).run(&["speak", "Hello."]);
    assert!(
        outcome
            .stderr
            .starts_with("warning: 3 skipped (CHARACTERS_SKIPPED)\n"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_cut_is_said() {
    let fake = Fake::start(Script {
        finish: FinishReason::Length,
        ..Script::default()
    });
    let outcome = Place::with(&fake).run(&["speak", "Hello."]);
    assert_eq!(outcome.code, Some(0));
    assert!(
        outcome.stderr.contains("warning: the speech was cut"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn json_says_it_for_programs() {
    let fake = Fake::start(Script {
        warning: Some(("W", "w")),
        ..Script::default()
    });
    let place = Place::with(&fake);
    let outcome = place.run(&["speak", "Hello.", "--json", "--summary", "summary.json"]);
    let shown: Value = serde_json::from_str(outcome.stderr.lines().last().unwrap()).unwrap();
    let written: Value = serde_json::from_slice(&fs::read(place.path("summary.json")).unwrap()).unwrap();
    assert_eq!(shown, written);
    assert_eq!(shown["voice"], "fake");
    assert_eq!(shown["file"], "speech.wav");
    assert!(shown["error"].is_null());
    let utterance = &shown["utterances"][0];
    assert_eq!(utterance["finish"], "stop");
    assert_eq!(utterance["seed"], 42);
    assert_eq!(utterance["measured"]["samples"], 9_600);
    assert_eq!(utterance["measured"]["continuity"]["chunks"], 5);
    assert_eq!(utterance["server"]["busy_real_time_factor"], 0.01);
    assert_eq!(utterance["warnings"][0]["reason"], "W");
}

#[test]
fn json_says_also_what_went_wrong() {
    let fake = Fake::start(Script {
        refuse: Some(Status::resource_exhausted("full")),
        ..Script::default()
    });
    let refused = Place::with(&fake);
    let unreachable = Place::at("http://127.0.0.1:1");
    for (place, text, code, name) in [
        (&refused, "Hello.", 72, "RESOURCE_EXHAUSTED"),
        (&unreachable, "Hello.", 78, "UNAVAILABLE"),
        (&unreachable, " ", 2, ""),
    ] {
        let outcome = place.run(&["speak", text, "--json", "--summary", "summary.json"]);
        assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
        assert!(outcome.stderr.starts_with("error: "), "{}", outcome.stderr);
        let shown: Value = serde_json::from_str(outcome.stderr.lines().last().unwrap()).unwrap();
        let written: Value = serde_json::from_slice(&fs::read(place.path("summary.json")).unwrap()).unwrap();
        assert_eq!(shown, written);
        assert_eq!(shown["error"]["exit_code"], code);
        assert_eq!(shown["error"]["code"].as_str().unwrap_or_default(), name);
        assert!(!shown["error"]["message"].as_str().unwrap().is_empty());
    }
}

fn on_a_terminal(variable: (&str, &str)) -> String {
    let fake = Fake::start(Script {
        warning: Some(("W", "w")),
        ..Script::default()
    });
    let terminal = Terminal::open();
    let place = Place::with(&fake);
    let mut command = place.command(&["speak", "Hello.", "-o", "-"]);
    command.env("TERM", "xterm").env(variable.0, variable.1);
    let child = command
        .stderr(Stdio::from(terminal.programs.try_clone().unwrap()))
        .spawn()
        .unwrap();
    drop(command);
    assert_eq!(finish(child).code, Some(0));
    terminal.shown()
}

#[test]
fn progress_is_for_terminals_and_colour_can_be_declined() {
    let plain = on_a_terminal(("SOME_VARIABLE", "1"));
    assert!(plain.contains("connecting to http://"), "{plain:?}");
    assert!(plain.contains("\x1b[1;33mwarning:"), "{plain:?}");
    let no_color = on_a_terminal(("NO_COLOR", "1"));
    assert!(
        no_color.contains("connecting to") && !no_color.contains("\x1b[1;33m"),
        "{no_color:?}"
    );
    for variable in [("CI", "true"), ("TERM", "dumb")] {
        let none = on_a_terminal(variable);
        assert!(
            !none.contains("connecting to") && none.contains("0.4 s of audio"),
            "{none:?}"
        );
    }
}
