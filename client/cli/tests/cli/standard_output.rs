//! Audio to standard output: for pipes, never for terminals.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use crate::fake::{CHUNK, Fake, Script, Seen, sample};
use crate::program::{Place, Terminal, finish};

#[test]
fn a_pipe_gets_a_wav_stream_and_nothing_else() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run(&["speak", "Hello.", "-o", "-"]);
    assert_eq!(outcome.code, Some(0));
    let (header, samples) = outcome.stdout.split_at(44);
    assert_eq!((&header[..4], &header[40..]), (&b"RIFF"[..], &[0xFF; 4][..]));
    let expected: Vec<u8> = (0..u64::from(5 * CHUNK))
        .flat_map(|n| sample(n).to_le_bytes())
        .collect();
    assert_eq!(samples, expected);
}

#[test]
fn raw_samples_go_to_a_pipe_when_asked_for() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run(&["speak", "Hello.", "-o", "-", "--format", "raw"]);
    assert_eq!(outcome.stdout.len(), 5 * CHUNK as usize * 2);
    assert_eq!(outcome.stdout[..2], sample(0).to_le_bytes());
}

#[test]
fn audio_is_never_written_to_a_terminal() {
    let fake = Fake::start(Script::default());
    let terminal = Terminal::open();
    let place = Place::with(&fake);
    let mut command = place.command(&["speak", "Hello.", "-o", "-"]);
    let child = command
        .stdout(Stdio::from(terminal.programs.try_clone().unwrap()))
        .spawn()
        .unwrap();
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
fn a_reader_that_leaves_ends_the_program_silently_and_the_server_notices() {
    let fake = Fake::start(Script {
        chunks: 10_000,
        ..Script::default()
    });
    let mut child = Place::with(&fake)
        .command(&["speak", "Hello.", "-o", "-"])
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 1_000]).unwrap();
    drop(stdout);
    let outcome = finish(child);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    fake.until(&Seen::Closed);
}

#[test]
fn lists_end_silently_too_when_nobody_reads() {
    let fake = Fake::start(Script::default());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let place = Place::with(&fake);
    let mut command = place.command(&["voices"]);
    let outcome = finish(command.stdout(writer).spawn().unwrap());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_file_behind_standard_output_gets_its_sizes_at_the_end() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let mut file = File::create(place.path("a.wav")).unwrap();
    let mut command = place.command(&["speak", "Hello.", "-o", "-"]);
    command.stdout(file.try_clone().unwrap());
    assert_eq!(finish(command.spawn().unwrap()).code, Some(0));
    assert_eq!(place.wav("a.wav").len(), 5 * CHUNK as usize);

    // What shares the file goes on behind the audio, and a second recording has a header of its own.
    file.write_all(b"after").unwrap();
    assert_eq!(finish(command.spawn().unwrap()).code, Some(0));
    let bytes = fs::read(place.path("a.wav")).unwrap();
    let length = 44 + 10 * CHUNK as usize;
    assert_eq!(&bytes[length..length + 5], b"after");
    assert_eq!(bytes[length + 5..], bytes[..length]);
}

#[test]
fn a_file_that_is_appended_to_gets_a_stream() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    fs::write(place.path("a"), b"before").unwrap();
    let file = File::options().append(true).open(place.path("a")).unwrap();
    let mut command = place.command(&["speak", "Hello.", "-o", "-"]);
    assert_eq!(finish(command.stdout(file).spawn().unwrap()).code, Some(0));
    let bytes = fs::read(place.path("a")).unwrap();
    assert_eq!(bytes.len(), 6 + 44 + 10 * CHUNK as usize);
    assert_eq!(
        (&bytes[..10], &bytes[46..50]),
        (&b"beforeRIFF"[..], &[0xFF; 4][..])
    );
}
