//! Ctrl-C and termination.

use std::io::Read as _;

use crate::fake::{CHUNK, Fake, Script, Seen};
use crate::program::{Place, finish, interrupt, terminate};

fn holding() -> Fake {
    Fake::start(Script {
        hold: true,
        ..Script::default()
    })
}

#[test]
fn ctrl_c_cancels_the_utterance_and_leaves_a_valid_file() {
    let fake = holding();
    let place = Place::with(&fake);
    let child = place
        .command(&["speak", "A long story.", "-o", "story.wav"])
        .spawn()
        .unwrap();
    fake.until(&Seen::Holding);
    interrupt(&child);
    fake.until(&Seen::Cancel);
    let outcome = finish(child);
    assert_eq!(outcome.code, Some(130), "{outcome:?}");
    assert!(
        outcome.stderr.starts_with("interrupted · 0.4 s of audio"),
        "{}",
        outcome.stderr
    );
    assert_eq!(place.wav("story.wav").len(), 5 * CHUNK as usize);
}

#[test]
fn termination_is_as_gentle_as_ctrl_c() {
    let fake = holding();
    let place = Place::with(&fake);
    let child = place
        .command(&["speak", "A long story.", "-o", "story.wav"])
        .spawn()
        .unwrap();
    fake.until(&Seen::Holding);
    terminate(&child);
    fake.until(&Seen::Cancel);
    assert_eq!(finish(child).code, Some(143));
    assert_eq!(place.wav("story.wav").len(), 5 * CHUNK as usize);
}

#[test]
fn ctrl_c_while_waiting_for_standard_input_ends_the_program() {
    let fake = Fake::start(Script {
        eager: true,
        ..Script::default()
    });
    let place = Place::with(&fake);
    let mut command = place.command(&["speak", "-", "-o", "story.wav"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"Once upon a time ").unwrap();
    fake.until(&Seen::Text("Once upon a time ".into()));
    interrupt(&child);
    fake.until(&Seen::Cancel);
    assert_eq!(finish(child).code, Some(130));
    assert_eq!(place.wav("story.wav").len(), 5 * CHUNK as usize);
    drop(stdin);
}

#[test]
fn a_second_ctrl_c_ends_the_program_though_its_reader_is_stuck() {
    // More audio than a pipe holds, and no reader.
    let fake = Fake::start(Script {
        hold: true,
        chunks: 100,
        ..Script::default()
    });
    let place = Place::with(&fake);
    let mut child = place
        .command(&["speak", "A long story.", "-o", "-"])
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    fake.until(&Seen::Holding);
    interrupt(&child);
    fake.until(&Seen::Cancel);
    interrupt(&child);
    assert_eq!(finish(child).code, Some(130));
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    assert!(rest.len() < 100 * CHUNK as usize * 2);
}

#[test]
fn a_second_ctrl_c_still_leaves_a_valid_file() {
    let fake = Fake::start(Script {
        hold: true,
        deaf: true,
        ..Script::default()
    });
    let place = Place::with(&fake);
    let child = place
        .command(&["speak", "A long story.", "-o", "story.wav"])
        .spawn()
        .unwrap();
    fake.until(&Seen::Holding);
    place.until_written("story.wav");
    interrupt(&child);
    fake.until(&Seen::Cancel);
    interrupt(&child);
    assert_eq!(finish(child).code, Some(130));
    assert_eq!(place.wav("story.wav").len() % CHUNK as usize, 0);
}
