//! Messages of a conversation.

use omni_audio::SampleRate;
use omni_proto::v1;
use omni_proto::v1::content_part;
use prost::bytes::Bytes;

/// The side that says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions for the model: only as the first message, in place of [`crate::ChatSettings::instructions`].
    System,
    /// The caller's side.
    User,
    /// The model.
    Assistant,
}

/// Encoding of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClipFormat {
    /// A WAV file.
    Wav,
    /// Bare 16-bit little-endian samples.
    Pcm {
        /// Samples per second and channel.
        rate: SampleRate,
        /// Interleaved channels.
        channels: u32,
    },
}

/// A whole recording. Servers take about a megabyte of them in one message; [`crate::ChatSender::audio`] has no such
/// limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clip {
    /// Encoding.
    pub format: ClipFormat,
    /// The bytes.
    pub data: Bytes,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Written.
    Text(String),
    /// Spoken; by the user only.
    Audio(Clip),
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its name, unused before in the conversation; empty: the server names it.
    pub id: String,
    /// The side that says it.
    pub role: Role,
    /// The content, in this order.
    pub parts: Vec<Part>,
}

impl Message {
    /// Text of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::text_by(Role::User, text)
    }

    /// Text of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::text_by(Role::Assistant, text)
    }

    /// Instructions for the model.
    pub fn system(text: impl Into<String>) -> Self {
        Self::text_by(Role::System, text)
    }

    fn text_by(role: Role, text: impl Into<String>) -> Self {
        Self {
            id: String::new(),
            role,
            parts: vec![Part::Text(text.into())],
        }
    }

    /// Its written parts, joined.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Audio(_) => None,
        });
        texts.collect()
    }

    pub(crate) fn to_proto(&self) -> v1::ChatMessage {
        v1::ChatMessage {
            id: self.id.clone(),
            role: self.role.to_proto().into(),
            parts: self.parts.iter().map(Part::to_proto).collect(),
        }
    }

    /// Message that a response left in the conversation; `None`: none. The error names what the server may not send.
    pub(crate) fn of_response(message: Option<v1::ChatMessage>) -> Result<Option<Self>, &'static str> {
        let Some(message) = message.filter(|message| !message.parts.is_empty()) else {
            return Ok(None);
        };
        if message.role() != v1::Role::Assistant {
            return Err("the message of a response is not the assistant's");
        }
        let parts = message.parts.into_iter().map(|part| match part.part {
            Some(content_part::Part::Text(text)) => Ok(Part::Text(text)),
            _ => Err("the message of a response has parts that are no text"),
        });
        Ok(Some(Self {
            id: message.id,
            role: Role::Assistant,
            parts: parts.collect::<Result<_, _>>()?,
        }))
    }
}

impl Role {
    pub(crate) fn to_proto(self) -> v1::Role {
        match self {
            Self::System => v1::Role::System,
            Self::User => v1::Role::User,
            Self::Assistant => v1::Role::Assistant,
        }
    }

    pub(crate) fn from_proto(role: v1::Role) -> Option<Self> {
        match role {
            v1::Role::System => Some(Self::System),
            v1::Role::User => Some(Self::User),
            v1::Role::Assistant => Some(Self::Assistant),
            v1::Role::Unspecified => None,
        }
    }
}

impl Part {
    fn to_proto(&self) -> v1::ContentPart {
        let part = match self {
            Self::Text(text) => content_part::Part::Text(text.clone()),
            Self::Audio(clip) => content_part::Part::Audio(clip.to_proto()),
        };
        v1::ContentPart { part: Some(part) }
    }
}

impl Clip {
    fn to_proto(&self) -> v1::AudioClip {
        let format = match self.format {
            ClipFormat::Wav => v1::AudioFormat {
                encoding: v1::AudioEncoding::Wav.into(),
                ..v1::AudioFormat::default()
            },
            ClipFormat::Pcm { rate, channels } => v1::AudioFormat {
                encoding: v1::AudioEncoding::PcmS16le.into(),
                sample_rate_hz: rate.hz(),
                channels,
            },
        };
        v1::AudioClip {
            format: Some(format),
            data: self.data.clone(),
        }
    }
}
