//! The spoken side of conversations.

use std::fs;
use std::process::Stdio;

use omni_proto::v1::{Modality, Role};

use crate::fake::{CHUNK, ChatScript, Fake, Seen, sample};
use crate::program::{Place, Terminal, finish, interrupt};

const ANSWER: usize = 5 * CHUNK as usize;

fn said() -> Vec<i16> {
    (0..ANSWER as u64).map(sample).collect()
}

#[test]
fn one_file_holds_the_whole_conversation() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let args = ["chat", "-o", "all.wav", "--voice", "amber", "--language", "en"];
    let outcome = place.run_with(&args, b"One.\nTwo.\n");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.stdout, b"You said: One.\nYou said: Two.\n");
    assert_eq!(place.wav("all.wav"), [said(), said()].concat());
    let Seen::ChatConfig(config) = fake.next() else {
        panic!("no config")
    };
    let modalities: [i32; 2] = [Modality::Text.into(), Modality::Audio.into()];
    assert_eq!(config.output_modalities, modalities);
    assert_eq!((config.voice.as_str(), config.language.as_str()), ("amber", "en"));
}

#[test]
fn a_directory_holds_one_file_for_every_answer() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    fs::create_dir(place.path("there")).unwrap();
    for directory in ["new/answers/", "there"] {
        let outcome = place.run_with(&["chat", "-o", directory], b"One.\nTwo.\n");
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        for answer in ["answer-001.wav", "answer-002.wav"] {
            assert_eq!(place.wav(&format!("{directory}/{answer}")), said());
        }
    }
}

#[test]
fn an_answer_without_speech_leaves_no_file() {
    let fake = Fake::chat(ChatScript {
        chunks: 0,
        ..ChatScript::default()
    });
    let place = Place::with(&fake);
    assert_eq!(place.run(&["chat", "One.", "-o", "answers/"]).code, Some(0));
    assert_eq!(fs::read_dir(place.path("answers")).unwrap().count(), 0);
}

#[test]
fn speech_takes_standard_output_and_text_standard_error() {
    let fake = Fake::chat(ChatScript::default());
    let outcome = Place::with(&fake).run_with(&["chat", "-o", "-"], b"One.\nTwo.\n");
    assert_eq!(outcome.stderr, "You said: One.\nYou said: Two.\n");
    let (header, samples) = outcome.stdout.split_at(44);
    assert_eq!(&header[..4], b"RIFF");
    assert_eq!(samples.len(), 2 * ANSWER * 2);
}

#[test]
fn speech_is_never_written_to_a_terminal() {
    let fake = Fake::chat(ChatScript::default());
    let terminal = Terminal::open();
    let place = Place::with(&fake);
    let mut command = place.command(&["chat", "Hello.", "-o", "-"]);
    command.stdout(Stdio::from(terminal.programs.try_clone().unwrap()));
    let child = command.spawn().unwrap();
    drop(command);
    let outcome = finish(child);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("refusing to write audio to a terminal"),
        "{}",
        outcome.stderr
    );
    assert_eq!(terminal.shown(), "");
    assert!(fake.saw_nothing());
}

#[test]
fn an_interruption_says_how_much_was_heard_and_leaves_a_valid_file() {
    let fake = Fake::chat(ChatScript {
        hold: true,
        ..ChatScript::default()
    });
    let place = Place::with(&fake);
    let child = place
        .command(&["chat", "A long story.", "-o", "story.wav"])
        .spawn()
        .unwrap();
    fake.until(&Seen::Holding);
    place.until_written("story.wav");
    interrupt(&child);
    let heard = loop {
        if let Seen::Interrupt(heard) = fake.next() {
            break heard.expect("a spoken answer is heard, not read");
        }
    };
    assert!(heard <= ANSWER as u64, "{heard}");
    let outcome = finish(child);
    assert_eq!(outcome.code, Some(130), "{outcome:?}");
    let written = place.wav("story.wav").len();
    assert!(written > 0 && written.is_multiple_of(CHUNK as usize), "{written}");
}

#[test]
fn latency_is_told_when_asked_for() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let outcome = place.run_with(&["chat", "--verbose", "-o", "all.wav"], b"One.\nTwo.\n");
    assert_eq!(outcome.stderr.lines().count(), 2, "{}", outcome.stderr);
    for line in outcome.stderr.lines() {
        let parts: Vec<&str> = line.split(" · ").collect();
        let [text, audio, length, factor, gaps, tokens] = parts[..] else {
            panic!("{parts:?}")
        };
        assert!(
            text.starts_with("first text ") && audio.starts_with("first audio "),
            "{line}"
        );
        assert!(
            factor.starts_with("real-time factor ") && gaps.starts_with("gaps "),
            "{line}"
        );
        assert_eq!((length, tokens), ("0.4 s of audio", "7 tokens"));
    }
    let outcome = place.run(&["chat", "One.", "--verbose"]);
    let parts: Vec<&str> = outcome.stderr.trim_end().split(" · ").collect();
    assert!(
        matches!(parts[..], [text, done, "7 tokens"] if text.starts_with("first text ") && done.starts_with("done after ")),
        "{parts:?}"
    );
}

/// Two channels at 8 kHz.
fn recording(place: &Place, name: &str, frames: usize) {
    let spec = hound::WavSpec {
        channels: 2,
        sample_rate: 8_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(place.path(name), spec).unwrap();
    for i in 0..2 * frames {
        writer.write_sample(i as i16).unwrap();
    }
    writer.finalize().unwrap();
}

#[test]
fn a_recording_is_the_first_turn() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    recording(&place, "question.wav", 8_000);
    let args = ["chat", "--audio-in", "question.wav"];
    let outcome = place.run_with(&args, b"And now?\n/save all.txt\n/save all.json\n");
    assert_eq!(
        outcome.stdout, b"You said: 32000 bytes of speech\nYou said: And now?\n",
        "{outcome:?}"
    );
    let Seen::ChatConfig(config) = fake.next() else {
        panic!("no config")
    };
    let format = config.input_audio.unwrap();
    assert_eq!((format.sample_rate_hz, format.channels), (8_000, 2));
    let text = fs::read_to_string(place.path("all.txt")).unwrap();
    assert!(
        text.starts_with("user: (1.0 s of speech)\n\nassistant: You said"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_slice(&fs::read(place.path("all.json")).unwrap()).unwrap();
    assert_eq!(json["messages"][0]["audio_seconds"], 1.0);
}

#[test]
fn recordings_of_other_formats_are_said_at_the_rate_that_models_hear() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    // Half a second of a telephone's silence; the same from a browser.
    fs::write(place.path("call.ul"), vec![0xFF; 4_000]).unwrap();
    let format = omni_audio::Format::new(omni_audio::Encoding::OggOpus, 48_000).unwrap();
    let mut encoder = omni_audio::Encoder::new(format, 1);
    let mut chunks = Vec::new();
    encoder.push(&[0.0; 24_000], &mut chunks);
    encoder.finish(&mut chunks);
    let opus: Vec<u8> = chunks.into_iter().flat_map(|chunk| chunk.data).collect();
    fs::write(place.path("call.opus"), opus).unwrap();
    for file in ["call.ul", "call.opus"] {
        let outcome = place.run(&["chat", "--audio-in", file]);
        assert_eq!(
            outcome.stdout, b"You said: 16000 bytes of speech\n",
            "{file}: {outcome:?}"
        );
    }
}

#[test]
fn text_may_go_with_a_recording() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    recording(&place, "question.wav", 100);
    let outcome = place.run(&["chat", "--audio-in", "question.wav", "What is this?"]);
    assert_eq!(
        outcome.stdout, b"You said: What is this?\n",
        "one answer to both: {outcome:?}"
    );
    fake.until(&Seen::Commit);
    assert_eq!(fake.next(), Seen::Message(Role::User, "What is this?".into()));
}

#[test]
fn recordings_that_cannot_be_used_are_named() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    fs::write(place.path("text.wav"), "not a recording").unwrap();
    fs::write(place.path("text.ogg"), "not a recording").unwrap();
    recording(&place, "empty.wav", 0);
    for (file, what) in [
        ("missing.wav", "cannot read missing.wav"),
        ("text.wav", "not a WAV file"),
        ("empty.wav", "holds no audio"),
        ("text.ogg", "not an Ogg Opus stream"),
    ] {
        let outcome = place.run(&["chat", "--audio-in", file]);
        assert_eq!(outcome.code, Some(4), "{outcome:?}");
        assert!(outcome.stderr.contains(what), "{}", outcome.stderr);
    }
    assert!(fake.saw_nothing());
}
