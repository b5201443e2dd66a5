//! Files: which output goes to which.

use std::fs;

use flac_codec::decode::{FlacSampleReader, Metadata as _};
use omni_audio::{Decoder, InputEncoding, InputFormat, SampleRate, Samples, to_i16};
use tonic::Status;

use crate::fake::{CHUNK, Fake, RATE, Script, Seen, nowhere, sample};
use crate::program::{Place, finish, interrupt};

fn expected(chunks: u32) -> Vec<i16> {
    (0..u64::from(chunks * CHUNK)).map(sample).collect()
}

#[test]
fn a_wav_file_holds_every_sample_behind_a_correct_header() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let outcome = place.run(&["speak", "Hello", "there.", "-o", "hello.wav"]);
    assert_eq!((outcome.code, outcome.stdout.len()), (Some(0), 0), "{outcome:?}");
    assert_eq!(place.wav("hello.wav"), expected(5));
    let seen = fake.until(&Seen::Closed);
    assert_eq!(&seen[1..], [Seen::Text("Hello there.".into()), Seen::Finish]);
}

#[test]
fn without_a_name_the_audio_goes_to_speech_wav_and_says_so() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let outcome = place.run(&["speak", "Hello."]);
    assert_eq!(outcome.code, Some(0));
    assert!(outcome.stderr.contains("speech.wav"), "{}", outcome.stderr);
    assert_eq!(place.wav("speech.wav"), expected(5));
}

#[test]
fn a_flac_file_says_how_long_it_is() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let samples = u64::from(5 * CHUNK);
    let length = |name: &str| {
        let mut reader = FlacSampleReader::new(fs::File::open(place.path(name)).unwrap()).unwrap();
        let mut read = 0;
        let mut buffer = vec![0; 4_096];
        loop {
            match reader.read(&mut buffer).unwrap() {
                0 => break,
                samples => read += samples as u64,
            }
        }
        (reader.total_samples(), read)
    };
    assert_eq!(place.run(&["speak", "Hello.", "-o", "a.flac"]).code, Some(0));
    assert_eq!(length("a.flac"), (Some(samples), samples));
    // Behind what was there before, on standard output.
    let mut file = fs::File::create(place.path("b.flac")).unwrap();
    let out = file.try_clone().unwrap();
    let mut command = place.command(&["speak", "Hello.", "-o", "-", "--format", "flac"]);
    assert_eq!(finish(command.stdout(out).spawn().unwrap()).code, Some(0));
    std::io::Write::write_all(&mut file, b"behind").unwrap();
    let bytes = fs::read(place.path("b.flac")).unwrap();
    assert!(
        bytes.ends_with(b"behind") && bytes[..bytes.len() - 6] == fs::read(place.path("a.flac")).unwrap()
    );
}

#[test]
fn a_file_that_is_stopped_says_how_long_it_is_all_the_same() {
    let fake = Fake::start(Script {
        hold: true,
        ..Script::default()
    });
    let place = Place::with(&fake);
    let child = place
        .command(&["speak", "Hello.", "-o", "a.flac"])
        .spawn()
        .unwrap();
    fake.until(&Seen::Holding);
    place.until_written("a.flac");
    interrupt(&child);
    assert_eq!(finish(child).code, Some(130));
    let reader = FlacSampleReader::new(fs::File::open(place.path("a.flac")).unwrap()).unwrap();
    assert!(reader.total_samples().is_some());
}

#[test]
fn a_text_is_read_from_a_file_and_what_is_replaced_is_said() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    fs::write(place.path("notes.txt"), "From a file.\n").unwrap();
    fs::write(place.path("empty.txt"), "\n").unwrap();
    let first = place.run(&["speak", "--file", "notes.txt", "-o", "a.wav"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let seen = fake.until(&Seen::Closed);
    assert!(seen.contains(&Seen::Text("From a file.\n".into())), "{seen:?}");
    assert!(!first.stderr.contains("replaced"), "{}", first.stderr);
    let again = place.run(&["speak", "-f", "notes.txt", "-o", "a.wav"]);
    assert!(again.stderr.ends_with("a.wav (replaced)\n"), "{}", again.stderr);
    for (args, code, says) in [
        (&["speak", "-f", "missing.txt"][..], 4, "cannot read missing.txt"),
        (&["speak", "-f", "empty.txt"], 2, "empty.txt held no text"),
        (
            &["speak", "-f", "notes.txt", "and", "this"],
            2,
            "cannot be used with",
        ),
    ] {
        let outcome = place.run(args);
        assert_eq!(outcome.code, Some(code), "{outcome:?}");
        assert!(outcome.stderr.contains(says), "{}", outcome.stderr);
    }
}

#[test]
fn raw_endings_give_bare_samples() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let bytes: Vec<u8> = expected(5)
        .iter()
        .flat_map(|sample| sample.to_le_bytes())
        .collect();
    for name in ["a.pcm", "a.RAW"] {
        assert_eq!(place.run(&["speak", "Hello.", "-o", name]).code, Some(0));
        assert_eq!(fs::read(place.path(name)).unwrap(), bytes);
    }
    assert_eq!(
        place
            .run(&["speak", "Hello.", "-o", "a.bin", "--format", "pcm"])
            .code,
        Some(0)
    );
    assert_eq!(fs::read(place.path("a.bin")).unwrap(), bytes);
}

/// Samples of an encoded file, 16-bit.
fn heard(bytes: &[u8], encoding: InputEncoding) -> Vec<i16> {
    let rate = SampleRate::new(RATE).unwrap();
    let format = InputFormat {
        encoding,
        rate,
        channels: 1,
    };
    let mut decoder = Decoder::new(format, rate, Samples(1_000_000)).unwrap();
    let mut samples = Vec::new();
    decoder.push(bytes, &mut samples).unwrap();
    decoder.finish(&mut samples).unwrap();
    samples.into_iter().map(to_i16).collect()
}

#[test]
fn other_endings_give_other_formats_and_several_utterances_one_file() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let twice = expected(5).repeat(2);
    for name in ["a.flac", "a.f32", "a.opus"] {
        let outcome = place.run(&["speak", "Hello.", "--repeat", "2", "-o", name]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    let flac = fs::File::open(place.path("a.flac")).unwrap();
    let mut samples = Vec::new();
    FlacSampleReader::new(flac)
        .unwrap()
        .read_to_end(&mut samples)
        .unwrap();
    assert!(
        samples
            .into_iter()
            .eq(twice.iter().map(|&sample| i32::from(sample)))
    );
    let floats = fs::read(place.path("a.f32")).unwrap();
    assert!(heard(&floats, InputEncoding::PcmF32) == twice);
    let opus = fs::read(place.path("a.opus")).unwrap();
    assert_eq!(heard(&opus, InputEncoding::OggOpus).len(), twice.len());
}

#[test]
fn speed_and_gain_are_asked_for_and_telephones_get_their_rate() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    // The scripted server speaks at its own rate whatever is asked for, which no telephone takes.
    let args = ["speak", "Hi.", "--speed", "1.5", "--gain", "-6", "-o", "a.ul"];
    let outcome = place.run(&args);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(outcome.stderr.contains("8000 or 16000 Hz"), "{}", outcome.stderr);
    let Seen::Config(config) = fake.next() else {
        panic!("no config")
    };
    assert_eq!((config.speed, config.volume_gain_db), (Some(1.5), Some(-6.0)));
    assert_eq!(config.output.unwrap().format.unwrap().sample_rate_hz, 8_000);
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_happens() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    for (args, told) in [
        (["--rate", "44100", "-o", "a.opus"], "24000 or 48000 Hz"),
        (["--rate", "24000", "-o", "a.al"], "8000 or 16000 Hz"),
        (["--speed", "5", "-o", "a.wav"], "0.25 to 4"),
        (["--gain", "40", "-o", "a.wav"], "-96 to 16"),
    ] {
        let outcome = place.run(&[&["speak", "Hi."][..], &args].concat());
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    }
    assert!(fake.saw_nothing());
}

#[test]
fn an_unknown_ending_is_refused_with_the_known_ones_before_anything_happens() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    for name in ["a.m4a", "noending"] {
        let outcome = place.run(&["speak", "Hello.", "-o", name]);
        assert_eq!(outcome.code, Some(2));
        assert!(outcome.stderr.contains(".wav, .pcm, .raw"), "{}", outcome.stderr);
        assert!(!place.path(name).exists());
    }
    assert!(fake.saw_nothing());
}

#[test]
fn a_longer_old_file_is_replaced_completely() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    fs::write(place.path("old.wav"), vec![7; 100_000]).unwrap();
    assert_eq!(place.run(&["speak", "Hello.", "-o", "old.wav"]).code, Some(0));
    assert_eq!(place.wav("old.wav"), expected(5));
    assert_eq!(
        fs::metadata(place.path("old.wav")).unwrap().len(),
        44 + u64::from(5 * CHUNK * 2)
    );
}

#[test]
fn an_old_file_survives_when_there_is_no_audio_and_a_new_one_is_not_left_empty() {
    let fake = Fake::start(Script {
        refuse: Some(Status::internal("broken")),
        ..Script::default()
    });
    let refused = Place::with(&fake);
    let unreachable = Place::at(nowhere());
    for place in [refused, unreachable] {
        fs::write(place.path("old.wav"), "precious").unwrap();
        assert_ne!(place.run(&["speak", "Hello.", "-o", "old.wav"]).code, Some(0));
        assert_eq!(fs::read(place.path("old.wav")).unwrap(), b"precious");
        assert_ne!(place.run(&["speak", "Hello.", "-o", "new.wav"]).code, Some(0));
        assert!(!place.path("new.wav").exists());
    }
}

#[test]
fn a_failure_half_way_leaves_a_valid_file_and_says_what_is_in_it() {
    let status = tonic_types_status();
    let fake = Fake::start(Script {
        fail: Some(status),
        ..Script::default()
    });
    let place = Place::with(&fake);
    let outcome = place.run(&["speak", "Hello.", "-o", "part.wav"]);
    assert_eq!(outcome.code, Some(64 + 13), "{outcome:?}");
    assert!(
        outcome.stderr.contains("part.wav holds the 0.4 s of audio"),
        "{}",
        outcome.stderr
    );
    assert_eq!(place.wav("part.wav"), expected(5));
}

fn tonic_types_status() -> Status {
    use tonic_types::{ErrorDetails, StatusExt as _};
    let details = ErrorDetails::with_error_info("STAGE_FAILED", "omni", []);
    Status::with_error_details(tonic::Code::Internal, "the talker failed", details)
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_the_server_is_asked() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    fs::create_dir(place.path("dir.wav")).unwrap();
    for name in ["no/such/dir.wav", "dir.wav"] {
        let outcome = place.run(&["speak", "Hello.", "-o", name]);
        assert_eq!(outcome.code, Some(4), "{outcome:?}");
        assert!(
            outcome.stderr.contains(&format!("cannot write {name}: ")),
            "{}",
            outcome.stderr
        );
    }
    assert!(fake.saw_nothing());
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run(&["speak", "Hello.", "-o", "/dev/full"]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(
        outcome.stderr.contains("cannot write /dev/full: No space left"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn repeating_speaks_into_the_same_file_again() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let outcome = place.run_with(
        &["speak", "-", "-o", "twice.wav", "--repeat", "2"],
        b"Again and again.",
    );
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(place.wav("twice.wav"), [expected(5), expected(5)].concat());
    let seen = fake.until(&Seen::Closed);
    let once = [Seen::Text("Again and again.".into()), Seen::Finish];
    assert_eq!(&seen[1..], [once.clone(), once].concat());
    assert_eq!(outcome.stderr.lines().count(), 2, "{}", outcome.stderr);
}
