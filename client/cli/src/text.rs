//! Source of the text: arguments, a file, or standard input while it is still being written.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::Path;
use std::str;
use std::thread;

use tokio::sync::mpsc;

use super::failure::Failure;

/// Most bytes read at once.
const READ_SIZE: usize = 4 * 1024;
/// Pieces that may wait between the reader and the session.
const QUEUE: usize = 16;

/// One piece of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// Speak now what has been sent: the user has pressed Enter.
    pub(crate) flush: bool,
}

/// Pieces of text in order. What was read is kept only when it will be needed again.
#[derive(Debug)]
pub(crate) struct Text {
    source: Source,
    /// Record of the pieces, if they have to be said again.
    record: Option<Vec<Piece>>,
    returned: Option<Piece>,
    spoken: bool,
}

#[derive(Debug)]
enum Source {
    Known(Option<String>),
    /// Pieces as they are read, and the name of their source.
    Input(mpsc::Receiver<io::Result<Piece>>, String),
    Again(std::vec::IntoIter<Piece>),
}

impl Text {
    /// Chooses the source. Reading begins with the first call of [`Self::next`] at the latest.
    pub(crate) fn open(words: &[String], file: Option<&Path>, again: bool) -> Result<Self, Failure> {
        let terminal = io::stdin().is_terminal();
        let standard = |terminal| {
            let pieces = read(|| Ok(io::stdin().lock()), terminal);
            Source::Input(pieces, "standard input".to_owned())
        };
        let source = match (file, words) {
            (Some(file), _) if file == Path::new("-") => standard(terminal),
            (Some(file), _) => Source::of_file(file)?,
            (None, [dash]) if dash == "-" => standard(terminal),
            (None, []) if !terminal => standard(false),
            (None, []) => {
                return Err(Failure::Usage(
                    "no text: write it behind `speak`, name a file with --file, or pipe it in".into(),
                ));
            }
            (None, words) => Source::Known(Some(words.join(" "))),
        };
        if matches!(&source, Source::Known(Some(text)) if text.trim().is_empty()) {
            return Err(Failure::Usage("the text is empty".into()));
        }
        Ok(Self {
            source,
            record: again.then(Vec::new),
            returned: None,
            spoken: false,
        })
    }

    /// The next piece; `None` at the end. May be dropped and called again without losing text.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, Failure> {
        if let Some(piece) = self.returned.take() {
            return Ok(Some(piece));
        }
        let piece = match &mut self.source {
            Source::Known(text) => text.take().map(|text| Piece { text, flush: false }),
            Source::Again(pieces) => pieces.next(),
            Source::Input(pieces, name) => match pieces.recv().await {
                Some(Err(error)) => return Err(Failure::io(format!("cannot read {name}"), error)),
                Some(Ok(piece)) => Some(piece),
                None if self.spoken => None,
                None => return Err(Failure::Usage(format!("{name} held no text"))),
            },
        };
        if let Some(piece) = &piece {
            self.spoken |= !piece.text.trim().is_empty();
            if let Some(record) = &mut self.record {
                record.push(piece.clone());
            }
        }
        Ok(piece)
    }

    /// Gives back a piece, or what is left of it, for the next call of [`Self::next`]; `None` takes that back.
    pub(crate) fn put_back(&mut self, rest: Option<Piece>) {
        self.returned = rest;
    }

    /// Begins from the start again.
    pub(crate) fn rewind(&mut self) {
        if let Some(record) = &mut self.record {
            self.source = Source::Again(std::mem::take(record).into_iter());
        }
    }
}

impl Source {
    fn of_file(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Failure::io(format!("cannot read {name}"), error))?;
        Ok(Self::Input(read(|| Ok(file), false), name))
    }
}

/// Reads what `open` opens on a thread of its own. That thread is never joined: nothing can wake it from reading
/// standard input, and it ends with the program.
fn read<R: Read>(
    open: impl FnOnce() -> io::Result<R> + Send + 'static,
    terminal: bool,
) -> mpsc::Receiver<io::Result<Piece>> {
    let (pieces, receiver) = mpsc::channel(QUEUE);
    thread::spawn(move || {
        let result = open().and_then(|input| {
            read_pieces(input, |text| {
                let flush = terminal && text.ends_with('\n');
                pieces.blocking_send(Ok(Piece { text, flush })).is_ok()
            })
        });
        if let Err(error) = result {
            // The receiver may be gone, and then does not need to know.
            let _ = pieces.blocking_send(Err(error));
        }
    });
    receiver
}

/// Gives each read's text to `take` until the end, or until `take` wants no more. A character that is cut by the end
/// of a read waits for its rest.
fn read_pieces(mut input: impl Read, mut take: impl FnMut(String) -> bool) -> io::Result<()> {
    let mut buffer = vec![0; READ_SIZE];
    let mut waiting = 0;
    let mut position = 0u64;
    loop {
        let read = match input.read(&mut buffer[waiting..]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = &buffer[..waiting + read];
        let valid = match str::from_utf8(bytes) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() && read > 0 => error.valid_up_to(),
            Err(error) => return Err(not_text(position + error.valid_up_to() as u64)),
        };
        if valid > 0 && !take(String::from_utf8_lossy(&bytes[..valid]).into_owned()) || read == 0 {
            return Ok(());
        }
        position += valid as u64;
        buffer.copy_within(valid..waiting + read, 0);
        waiting = waiting + read - valid;
    }
}

fn not_text(position: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("it is not UTF-8 text (at byte {position})"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes in reads of `step`.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let (now, later) = self.0.split_at(self.0.len().min(self.1).min(buffer.len()));
            buffer[..now.len()].copy_from_slice(now);
            self.0 = later;
            Ok(now.len())
        }
    }

    fn read_all(bytes: &[u8], step: usize) -> (String, io::Result<()>) {
        let mut text = String::new();
        let result = read_pieces(Slow(bytes, step), |piece| {
            text.push_str(&piece);
            true
        });
        (text, result)
    }

    #[test]
    fn characters_cut_by_a_read_arrive_whole() {
        let text = "né€𝄞 and so on ".repeat(500);
        for step in [1, 2, 3, 5, 4_095, 10_000] {
            let (read, result) = read_all(text.as_bytes(), step);
            assert!(result.is_ok() && read == text, "step {step}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_named_by_position() {
        for (bytes, position) in [(&b"abc\xFFdef"[..], 3), (b"ab\xE2\x82", 2), (b"\xC3(", 0)] {
            let (_, result) = read_all(bytes, 2);
            let message = result.unwrap_err().to_string();
            assert!(message.contains(&format!("at byte {position}")), "{message}");
        }
    }

    #[test]
    fn reading_stops_when_nobody_wants_more() {
        let mut pieces = 0;
        read_pieces(Slow(b"one two three", 4), |_| {
            pieces += 1;
            false
        })
        .unwrap();
        assert_eq!(pieces, 1);
    }
}
