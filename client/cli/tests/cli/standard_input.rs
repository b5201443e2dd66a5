//! Text from arguments and from standard input.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use crate::fake::{CHUNK, Fake, Script, Seen, text_of};
use crate::program::{Place, Terminal, finish};

#[test]
fn text_is_sent_before_standard_input_ends() {
    let fake = Fake::start(Script {
        eager: true,
        ..Script::default()
    });
    let place = Place::with(&fake);
    let mut child = place
        .command(&["speak", "-", "-o", "a.wav"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all("Crème ".as_bytes()).unwrap();
    fake.until(&Seen::Text("Crème ".into()));
    // A character in two halves.
    stdin.write_all(b"br\xC3").unwrap();
    fake.until(&Seen::Text("br".into()));
    stdin.write_all(b"\xBBl\xC3\xA9e.\n").unwrap();
    drop(stdin);
    assert_eq!(fake.until(&Seen::Finish), [Seen::Text("ûlée.\n".into())]);
    assert_eq!(finish(child).code, Some(0));
}

#[test]
fn piped_input_is_spoken_without_being_asked_for() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run_with(&["speak", "-o", "a.wav"], b"From a pipe.\n");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(text_of(&fake.until(&Seen::Finish)), "From a pipe.\n");
}

#[test]
fn words_win_over_piped_input_and_a_dash_may_be_spoken_among_them() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run_with(&["speak", "-o", "a.wav", "one", "-", "two"], b"not this");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(text_of(&fake.until(&Seen::Finish)), "one - two");
}

#[test]
fn long_texts_in_any_script_arrive_unchanged() {
    let fake = Fake::start(Script::default());
    let text = "Füchse 狐狸 лисица 🦊 — ".repeat(2_500);
    assert!(text.len() > 90_000);
    let outcome = Place::with(&fake).run(&["speak", &text, "-o", "a.wav"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(text_of(&fake.until(&Seen::Finish)), text);

    let fake = Fake::start(Script::default());
    let text = text.repeat(20);
    let outcome = Place::with(&fake).run_with(&["speak", "-", "-o", "a.wav"], text.as_bytes());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(text_of(&fake.until(&Seen::Finish)), text);
}

#[test]
fn texts_longer_than_the_server_takes_are_spoken_in_parts_into_one_file() {
    let text = "A sentence of a long, long story. ".repeat(120) + "\n\n";
    for as_input in [false, true] {
        let fake = Fake::start(Script {
            limit: 2_000,
            ..Script::default()
        });
        let place = Place::with(&fake);
        let outcome = if as_input {
            place.run_with(&["speak", "-", "-o", "a.wav"], text.as_bytes())
        } else {
            place.run(&["speak", "-o", "a.wav", &text])
        };
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let seen = fake.until(&Seen::Closed);
        let parts: Vec<String> = seen.split(|seen| *seen == Seen::Finish).map(text_of).collect();
        // The last is what came after the last finish: nothing.
        assert!(parts.len() > 2 && parts.iter().all(|part| part.len() <= 2_000));
        assert_eq!(parts.concat().trim_end(), text.trim_end());
        assert_eq!(place.wav("a.wav").len(), (parts.len() - 1) * 5 * CHUNK as usize);
        assert_eq!(outcome.stderr.lines().count(), parts.len() - 1);
    }
}

#[test]
fn no_text_at_all_is_a_usage_error() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    assert_eq!(place.run(&["speak", "  ", "-o", "a.wav"]).code, Some(2));
    for input in [&b""[..], b" \n\t\n"] {
        let outcome = place.run_with(&["speak", "-", "-o", "a.wav"], input);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(
            outcome.stderr.contains("standard input held no text"),
            "{}",
            outcome.stderr
        );
        assert!(!place.path("a.wav").exists());
    }
    let terminal = Terminal::open();
    let mut command = place.command(&["speak", "-o", "a.wav"]);
    let outcome = finish(command.stdin(Stdio::from(terminal.programs)).spawn().unwrap());
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("no text"), "{}", outcome.stderr);
}

#[test]
fn input_that_is_not_text_is_refused_with_its_position() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run_with(&["speak", "-", "-o", "a.wav"], b"abc\xFF\xFE");
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(
        outcome.stderr.contains("not UTF-8 text (at byte 3)"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn options_reach_the_server() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let args = [
        "speak",
        "Hi.",
        "-v",
        "amber",
        "--language",
        "en-GB",
        "--seed",
        "7",
        "--temperature",
        "0",
    ];
    assert_eq!(place.run(&args).code, Some(0));
    let Seen::Config(config) = fake.next() else {
        panic!("config comes first")
    };
    assert_eq!(
        (config.voice.as_str(), config.language.as_str()),
        ("amber", "en-GB")
    );
    let sampling = config.sampling.unwrap();
    assert_eq!(
        (sampling.seed, sampling.temperature, sampling.top_k),
        (Some(7), Some(0.0), None)
    );

    fake.rest();
    assert_eq!(place.run(&["speak", "Hi."]).code, Some(0));
    let Seen::Config(config) = fake.next() else {
        panic!("config comes first")
    };
    assert_eq!(config.sampling, None);
}

#[test]
fn text_that_follows_a_cut_is_spoken_all_the_same() {
    let fake = Fake::start(Script {
        eager: true,
        cut: true,
        ..Script::default()
    });
    let place = Place::with(&fake);
    let mut child = place
        .command(&["speak", "-", "-o", "a.wav"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    for part in ["One. ", "Two. "] {
        stdin.write_all(part.as_bytes()).unwrap();
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert!(line.contains("the speech was cut"), "{part}: {line}");
    }
    drop(stdin);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(finish(child).code, Some(0), "{rest}");
    assert_eq!(rest.lines().count(), 2, "{rest}");
    assert_eq!(place.wav("a.wav").len(), 2 * 5 * CHUNK as usize);
    assert_eq!(text_of(&fake.until(&Seen::Finish)), "One. ");
    assert_eq!(text_of(&fake.until(&Seen::Finish)), "Two. ");
}
