//! One turn of the user: speech from a file, text, or both.

use std::fs;
use std::path::Path;
use std::time::Duration;

use omni_audio::{DecodeError, Decoder, InputEncoding, InputFormat, SampleRate, Samples, Wav, encode_s16le};
use omni_client::{ChatSender, Clip, ClipFormat, InputAudio, Message, Part, Role, SessionClosed};

use super::transcript::Transcript;
use crate::failure::Failure;
use crate::format::recording;

/// Sample rate of models' audio input.
const HEARD_HZ: u32 = 16_000;
/// Sample rate of telephones.
const TELEPHONE_HZ: u32 = 8_000;
/// No server takes a longer turn.
const LONGEST: Duration = Duration::from_secs(3_600);

/// A recording.
#[derive(Debug, Clone)]
pub(super) struct Speech {
    pub(super) format: InputAudio,
    duration: Duration,
    pcm: Vec<u8>,
}

impl Speech {
    /// Reads a WAV file, or one whose ending names another format.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::io(format!("cannot read {}", path.display()), error);
        let wrong = |what: String| failed(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
        if let Some(encoding) = recording(path) {
            let bytes = fs::read(path).map_err(failed)?;
            return Self::decode(&bytes, encoding).map_err(|error| wrong(format!("the file {error}")));
        }
        let wav = Wav::parse(&fs::read(path).map_err(failed)?).map_err(|error| wrong(error.to_string()))?;
        let rate = wav.header.rate;
        let channels = wav.header.channels;
        if channels > 2 {
            return Err(wrong(format!(
                "the WAV file has {channels} channels, expected one or two"
            )));
        }
        if wav.is_empty() {
            return Err(wrong("the WAV file holds no audio".into()));
        }
        let whole = wav.len().len() * usize::from(channels);
        let mut pcm = Vec::new();
        encode_s16le(&wav.samples[..whole], &mut pcm);
        Ok(Self {
            format: InputAudio {
                rate,
                channels: channels.into(),
            },
            duration: rate.duration(wav.len()),
            pcm,
        })
    }

    /// At the rate that models hear, so that nothing is kept that they do not.
    fn decode(bytes: &[u8], encoding: InputEncoding) -> Result<Self, DecodeError> {
        let rate = |hz| SampleRate::new(hz).map_err(|error| DecodeError::Rate { got: error.got });
        let heard = rate(HEARD_HZ)?;
        let format = InputFormat {
            encoding,
            rate: rate(TELEPHONE_HZ)?,
            channels: 1,
        };
        let mut decoder = Decoder::new(format, heard, heard.samples(LONGEST))?;
        let mut samples = Vec::new();
        let mut pcm = Vec::new();
        decoder.push(bytes, &mut samples)?;
        decoder.finish(&mut samples)?;
        encode_s16le(&samples, &mut pcm);
        Ok(Self {
            format: InputAudio {
                rate: heard,
                channels: 1,
            },
            duration: heard.duration(Samples::of(&samples)),
            pcm,
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

/// Message of the user; never empty.
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

    /// Adds it to the conversation and requests an answer.
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
