//! Subtitles beside the audio.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;

use crate::fake::{CHUNK, Fake, PATIENCE, Script, Seen};
use crate::program::{Place, finish, interrupt};

fn speaking() -> Fake {
    Fake::start(Script {
        words: &["Hello,", " there", "\nBye."],
        ..Script::default()
    })
}

#[test]
fn subtitles_are_written_in_the_format_that_their_ending_names() {
    let fake = speaking();
    let place = Place::with(&fake);
    let outcome = place.run(&["speak", "Hello.", "-o", "a.wav", "--subtitles", "a.srt"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let Seen::Config(config) = fake.next() else {
        panic!("no config")
    };
    assert!(config.alignment);
    assert_eq!(
        fs::read_to_string(place.path("a.srt")).unwrap(),
        "1\n00:00:00,000 --> 00:00:00,160\nHello, there\n\n2\n00:00:00,160 --> 00:00:00,240\nBye.\n\n"
    );
    let outcome = place.run(&[
        "speak",
        "Hello.",
        "-o",
        "a.wav",
        "--subtitles",
        "-",
        "--repeat",
        "2",
    ]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    // The second time follows the five chunks of the first.
    assert_eq!(
        String::from_utf8(outcome.stdout).unwrap(),
        "WEBVTT\n\n00:00:00.000 --> 00:00:00.160\nHello, there\n\n00:00:00.160 --> 00:00:00.240\nBye.\n\n\
         00:00:00.400 --> 00:00:00.560\nHello, there\n\n00:00:00.560 --> 00:00:00.640\nBye.\n\n"
    );
}

#[test]
fn subtitles_that_cannot_be_written_are_refused_before_anything_happens() {
    let fake = speaking();
    let place = Place::with(&fake);
    for (args, code, told) in [
        (["-o", "a.wav", "--subtitles", "a.txt"], 2, ".srt, .vtt or .jsonl"),
        (["-o", "-", "--subtitles", "-"], 2, "audio and subtitles"),
        (
            ["-o", "a.wav", "--subtitles", "no/such/a.vtt"],
            4,
            "no/such/a.vtt",
        ),
    ] {
        let outcome = place.run(&[&["speak", "Hi."][..], &args].concat());
        assert_eq!(outcome.code, Some(code), "{outcome:?}");
        assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
        assert!(!place.path("a.wav").exists());
    }
    assert!(fake.saw_nothing());
}

#[test]
fn old_subtitles_stay_when_the_audio_is_refused() {
    let fake = speaking();
    let place = Place::with(&fake);
    fs::write(place.path("old.srt"), "old").unwrap();
    for audio in [&["-o", "a.m4a"][..], &["-o", "a.opus", "--rate", "11025"]] {
        let outcome = place.run(&[&["speak", "Hi.", "--subtitles", "old.srt"], audio].concat());
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert_eq!(fs::read_to_string(place.path("old.srt")).unwrap(), "old");
        assert!(!place.path("a.opus").exists());
    }
    assert!(fake.saw_nothing());
}

/// So many words that no pipe holds them, nor the program.
const MANY: usize = 400;

fn talkative() -> Fake {
    let word: &'static str = " word".repeat(200).leak();
    Fake::start(Script {
        chunks: MANY as u32,
        words: vec![word; MANY].leak(),
        ..Script::default()
    })
}

/// A program whose subtitles are not read, and which has no room for more.
fn unread(place: &Place) -> Child {
    let args = ["speak", "Hello.", "-o", "a.wav", "--subtitles", "-"];
    let child = place.command(&args).spawn().unwrap();
    let pipe = child.stdout.as_ref().unwrap();
    let started = Instant::now();
    // Of every page of 4 KiB three of these cues fit into, a part stays empty.
    while ioctl_fionread(pipe).unwrap() < 40_000 {
        assert!(started.elapsed() < PATIENCE, "the pipe does not fill");
        thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn ctrl_c_is_heard_though_the_reader_of_subtitles_pauses() {
    let fake = talkative();
    let place = Place::with(&fake);
    let mut child = unread(&place);
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < PATIENCE, "the program does not end");
        interrupt(&child);
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(finish(child).code, Some(130));
}

#[test]
fn subtitles_wait_for_their_reader_and_none_is_lost() {
    let fake = talkative();
    let place = Place::with(&fake);
    let outcome = finish(unread(&place));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let cues = String::from_utf8(outcome.stdout).unwrap();
    assert_eq!(cues.matches(" --> ").count(), MANY);
    assert_eq!(place.wav("a.wav").len(), MANY * CHUNK as usize);
}

#[test]
fn nobody_asks_for_words_who_does_not_need_them() {
    let fake = speaking();
    let place = Place::with(&fake);
    assert_eq!(place.run(&["speak", "Hi.", "-o", "a.wav"]).code, Some(0));
    let Seen::Config(config) = fake.next() else {
        panic!("no config")
    };
    assert!(!config.alignment);
}

#[test]
fn the_lead_and_the_length_of_messages_are_asked_for() {
    let fake = speaking();
    let place = Place::with(&fake);
    let args = [
        "speak",
        "Hi.",
        "-o",
        "a.wav",
        "--max-lead",
        "300ms",
        "--frame-duration",
        "20ms",
    ];
    assert_eq!(place.run(&args).code, Some(0));
    let Seen::Config(config) = fake.next() else {
        panic!("no config")
    };
    let output = config.output.unwrap();
    let nanos = |time: Option<omni_proto::Duration>| time.map(|time| (time.seconds, time.nanos));
    assert_eq!(nanos(output.max_lead), Some((0, 300_000_000)));
    assert_eq!(nanos(output.frame_duration), Some((0, 20_000_000)));
}
