//! Subtitles, written during speech by their own thread, so that a slow reader does not delay the audio.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use omni_client::{SampleRate, TimedText};
use tokio::sync::mpsc;

use super::cues::{Cues, Form};
use crate::failure::Failure;
use crate::writer::{Writer, WriterGone};

/// File of subtitles, checked to be writable and not opened yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    path: &'a Path,
    form: Form,
}

impl<'a> Place<'a> {
    /// `path`; `-` is standard output, which `audio` must not be, too.
    pub(super) fn new(path: &'a Path, audio: &Path) -> Result<Self, Failure> {
        let form = Form::of(path)?;
        if path == Path::new("-") && audio == path {
            let what =
                "standard output cannot take audio and subtitles\n  name a file with --output or --subtitles";
            return Err(Failure::Usage(what.to_owned()));
        }
        Ok(Self { path, form })
    }

    /// Opens the file, truncating it.
    pub(super) fn open(self) -> Result<Subtitles, Failure> {
        let (name, to): (_, Box<dyn Write + Send>) = if self.path == Path::new("-") {
            ("standard output".to_owned(), Box::new(io::stdout()))
        } else {
            let name = self.path.display().to_string();
            let file = File::create(self.path).map_err(|error| Failure::write(&name, error))?;
            (name, Box::new(file))
        };
        Ok(Subtitles {
            cues: Cues::new(self.form),
            unwritten: Some(self.form.head().to_owned()).filter(|head| !head.is_empty()),
            writer: Writer::start(name, |queue| write_all(to, queue)),
        })
    }
}

/// An opened destination of subtitles.
#[derive(Debug)]
pub(super) struct Subtitles {
    cues: Cues,
    /// Waits for room with the writer. As long as it does, no words may be added but those of an end.
    unwritten: Option<String>,
    writer: Writer<String>,
}

impl Subtitles {
    /// More audio of the utterance.
    pub(super) fn audio(&mut self, time: Duration) {
        self.cues.audio(time);
    }

    /// Adds words of the utterance, with audio at `rate`.
    pub(super) fn words(&mut self, words: &[TimedText], rate: SampleRate) {
        let text = self.cues.words(words, rate);
        self.add(&text);
    }

    /// The utterance has ended.
    pub(super) fn end(&mut self) {
        let text = self.cues.end();
        self.add(&text);
    }

    fn add(&mut self, text: &str) {
        if !text.is_empty() {
            self.unwritten.get_or_insert_default().push_str(text);
        }
    }

    /// Returns true if something waits to be passed to the writer.
    pub(super) fn waits(&self) -> bool {
        self.unwritten.is_some()
    }

    /// Hands it over, waiting while too much is still unwritten. May be dropped and called again.
    pub(super) async fn write(&mut self) -> Result<(), WriterGone> {
        self.writer.write(&mut self.unwritten).await
    }

    /// Waits until everything is written.
    pub(super) async fn finish(mut self) -> Result<(), Failure> {
        if self.waits() {
            // The writer says itself why it has gone.
            let _: Result<(), WriterGone> = self.write().await;
        }
        self.writer.finish().await
    }
}

fn write_all(mut to: Box<dyn Write + Send>, mut queue: mpsc::Receiver<String>) -> io::Result<()> {
    while let Some(text) = queue.blocking_recv() {
        to.write_all(text.as_bytes())?;
        to.flush()?;
    }
    Ok(())
}
