//! Subtitles beside the audio.

use std::fs;

use crate::fake::{Fake, Script, Seen};
use crate::program::Place;

fn speaking() -> Fake {
    Fake::start(Script {
        words: &["Hello,", " there.", " Bye."],
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
        "1\n00:00:00,000 --> 00:00:00,160\nHello, there.\n\n2\n00:00:00,160 --> 00:00:00,240\nBye.\n\n"
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
        "WEBVTT\n\n00:00:00.000 --> 00:00:00.160\nHello, there.\n\n00:00:00.160 --> 00:00:00.240\nBye.\n\n\
         00:00:00.400 --> 00:00:00.560\nHello, there.\n\n00:00:00.560 --> 00:00:00.640\nBye.\n\n"
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
    }
    assert!(fake.saw_nothing());
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
