//! Parts of messages that no model accepts here, or not in this form.

use omni_core::error::{ServeError, excerpt};
use omni_family::AudioInputError;

use super::ChatModel;
use super::messages::MESSAGE_PARTS;
use crate::settings::invalid;

/// A part that is not a text, a tool or a readable recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtherPart {
    Image,
    Video,
    File,
    /// The address of a recording.
    AudioAddress,
    /// A recording that cannot be read, with the reason.
    Recording(String),
    /// The id of the audio of an earlier answer.
    EarlierAudio,
    /// The name of its type.
    Unknown(String),
}

const AUDIO: &str = "message.parts.audio";

impl OtherPart {
    /// The part of a type that is neither text nor a recording.
    pub fn named(kind: &str) -> Self {
        match kind {
            "image_url" | "input_image" | "image_file" | "image" => Self::Image,
            "video_url" | "input_video" | "video" => Self::Video,
            "file" | "input_file" | "file_url" | "document" => Self::File,
            "audio_url" | "audio" => Self::AudioAddress,
            other => Self::Unknown(excerpt(other)),
        }
    }

    fn field(&self) -> &'static str {
        match self {
            Self::Image => "message.parts.image",
            Self::Video => "message.parts.video",
            Self::File => "message.parts.file",
            Self::AudioAddress | Self::Recording(_) | Self::EarlierAudio => AUDIO,
            Self::Unknown(_) => MESSAGE_PARTS,
        }
    }

    /// Error for a caller that wants the model to read it.
    pub fn refused(&self, known: &ChatModel) -> ServeError {
        let hears = known.chat.hearing.is_some();
        let taken = if hears { "text or input_audio" } else { "text" };
        let lacks = |what: &str| format!("{} does not {what}; expected {taken}", known.speech.id);
        let problem = match self {
            Self::AudioAddress | Self::Recording(_) if !hears => {
                return AudioInputError::NotSupported { field: AUDIO }.into();
            }
            Self::Image => lacks("see images"),
            Self::Video => lacks("see videos"),
            Self::File => lacks("read files"),
            Self::AudioAddress => "recordings are not fetched; expected input_audio with its data".to_owned(),
            Self::Recording(problem) => problem.clone(),
            Self::EarlierAudio => {
                "the audio of an earlier answer is not kept; expected its transcript as content".to_owned()
            }
            Self::Unknown(kind) => format!("unsupported type of a part '{kind}'; expected {taken}"),
        };
        invalid(self.field(), problem)
    }
}
