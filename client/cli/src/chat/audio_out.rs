//! Destination of the answers' speech: none, one file for all of it, or one for every answer.

use std::fs;
use std::path::{Path, PathBuf};

use omni_client::Audio;

use crate::failure::Failure;
use crate::output::Output;
use crate::sink::Sink;
use crate::writer::WriterGone;

/// The destination.
#[derive(Debug)]
pub(super) enum AudioOut {
    Nowhere,
    Whole {
        sink: Option<Sink>,
        stdout: bool,
    },
    Each {
        directory: PathBuf,
        sink: Option<Sink>,
        answers: u32,
    },
}

impl AudioOut {
    /// Checks and opens what can be opened before the first answer.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self::Nowhere);
        };
        if path.is_dir() || path.to_string_lossy().ends_with('/') {
            let made = fs::create_dir_all(path);
            made.map_err(|error| Failure::io(format!("cannot make {}", path.display()), error))?;
            return Ok(Self::Each {
                directory: path.to_owned(),
                sink: None,
                answers: 0,
            });
        }
        Ok(Self::Whole {
            sink: Some(Sink::to(Output::open(path, None)?)),
            stdout: path == Path::new("-"),
        })
    }

    /// Returns true if the speech goes to standard output, where a listener may hear it at once.
    pub(super) fn is_stdout(&self) -> bool {
        matches!(self, Self::Whole { stdout: true, .. })
    }

    /// Begins an answer.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        if let Self::Each {
            directory,
            sink,
            answers,
        } = self
        {
            *answers += 1;
            let path = directory.join(format!("answer-{answers:03}.wav"));
            *sink = Some(Sink::to(Output::open(&path, None)?));
        }
        Ok(())
    }

    /// Hands over what is in `audio`, as [`Sink::write`] does.
    pub(super) async fn write(&self, audio: &mut Option<Audio>) -> Result<(), WriterGone> {
        match self {
            Self::Whole { sink: Some(sink), .. } | Self::Each { sink: Some(sink), .. } => {
                sink.write(audio).await
            }
            _ => {
                *audio = None;
                Ok(())
            }
        }
    }

    /// Ends the answer: completes its file, if it has one of its own.
    pub(super) async fn end(&mut self) -> Result<(), Failure> {
        match self {
            Self::Each { sink, .. } => close(sink).await,
            Self::Nowhere | Self::Whole { .. } => Ok(()),
        }
    }

    /// Completes every file.
    pub(super) async fn finish(&mut self) -> Result<(), Failure> {
        match self {
            Self::Whole { sink, .. } | Self::Each { sink, .. } => close(sink).await,
            Self::Nowhere => Ok(()),
        }
    }
}

async fn close(sink: &mut Option<Sink>) -> Result<(), Failure> {
    match sink.take() {
        Some(sink) => sink.finish().await,
        None => Ok(()),
    }
}
