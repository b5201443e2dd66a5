//! One turn of the user: speech from a file, text, or both.

use std::fs;
use std::path::Path;
use std::time::Duration;

use omni_audio::Wav;
use omni_client::{ChatSender, Clip, ClipFormat, InputAudio, Message, Part, Role, SessionClosed};

use super::transcript::Transcript;
use crate::cli::failure::Failure;

/// A recording.
#[derive(Debug, Clone)]
pub(super) struct Speech {
    pub(super) format: InputAudio,
    duration: Duration,
    pcm: Vec<u8>,
}

impl Speech {
    /// Reads a WAV file.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::io(format!("cannot read {}", path.display()), error);
        let wrong = |what: String| failed(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
        let wav = Wav::parse(&fs::read(path).map_err(failed)?).map_err(|error| wrong(error.to_string()))?;
        let (rate, channels) = (wav.header.rate, wav.header.channels);
        if channels > 2 {
            return Err(wrong(format!(
                "the WAV file has {channels} channels, expected one or two"
            )));
        }
        if wav.is_empty() {
            return Err(wrong("the WAV file holds no audio".into()));
        }
        let whole = wav.len().len() * usize::from(channels);
        Ok(Self {
            format: InputAudio {
                rate,
                channels: channels.into(),
            },
            duration: rate.duration(wav.len()),
            pcm: wav.samples[..whole]
                .iter()
                .flat_map(|sample| sample.to_le_bytes())
                .collect(),
        })
    }

    fn message(&self) -> Message {
        let format = ClipFormat::Pcm {
            rate: self.format.rate,
            channels: self.format.channels,
        };
        let clip = Clip {
            format,
            data: self.pcm.clone().into(),
        };
        Message {
            id: String::new(),
            role: Role::User,
            parts: vec![Part::Audio(clip)],
        }
    }
}

/// What the user says; never nothing.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) speech: Option<Speech>,
    pub(super) text: Option<String>,
}

impl Said {
    pub(super) fn text(text: String) -> Self {
        Self {
            speech: None,
            text: Some(text),
        }
    }

    /// Adds it to the conversation and asks for an answer.
    pub(super) async fn send(&self, chat: &ChatSender) -> Result<(), SessionClosed> {
        if let Some(speech) = &self.speech {
            chat.audio(speech.pcm.clone()).await?;
            chat.commit(self.text.is_none()).await?;
        }
        match &self.text {
            Some(text) => chat.say(text).await,
            None => Ok(()),
        }
    }

    /// Keeps it.
    pub(super) fn enter(&self, transcript: &mut Transcript) {
        if let Some(speech) = &self.speech {
            transcript.add_speech(speech.message(), speech.duration);
        }
        if let Some(text) = &self.text {
            transcript.add(Message::user(text));
        }
    }
}
