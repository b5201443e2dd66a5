//! The messages of a stream, as JSON.

use omni_core::error::excerpt;
use omni_json::TextPiece;
use omni_services::SpeechRequest;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::lean::scalar;
use crate::notes::ignored;
use crate::sound::AudioFormat;
use crate::speech::SpeechBody;
use crate::unknown;

/// A message of a client.
#[derive(Debug)]
pub(super) enum ClientMessage {
    Config(Box<Configured>),
    Text(TextPiece),
    /// End of the utterance's text.
    Done,
    /// End of all text.
    Close,
}

/// Settings of speech and of its delivery.
#[derive(Debug)]
pub(super) struct Configured {
    pub(super) request: SpeechRequest,
    pub(super) delivery: Delivery,
}

/// Delivery of audio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) sound: AudioFormat,
    /// `true` to send audio as it is made, and not as one frame.
    pub(super) streamed: bool,
    /// Unknown fields of the config.
    pub(super) unknown: Vec<String>,
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Text {
    text: TextPiece,
}

/// Fields of a config that are not in a request for speech.
#[derive(Deserialize)]
struct ConfigFields {
    #[serde(default, deserialize_with = "scalar")]
    stream_audio: Option<bool>,
    response_format: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    word_timestamps: Option<bool>,
}

impl ConfigFields {
    /// Their names, and that of the message's type.
    const NAMES: [&str; 3] = ["type", "stream_audio", "word_timestamps"];
}

impl ClientMessage {
    /// Parses a message. A `strict` server refuses unknown fields of a config.
    pub(super) fn parse(text: &str, strict: bool) -> Result<Self, ApiError> {
        let Head { kind } = read(text)?;
        match kind.as_str() {
            "session.config" => config(text, strict).map(|config| Self::Config(Box::new(config))),
            "input.text" => {
                let piece = omni_json::read_pieces(text.as_bytes());
                piece
                    .map(|Text { text }| Self::Text(text))
                    .map_err(|error| unreadable(&error))
            }
            "input.done" => Ok(Self::Done),
            "session.close" => Ok(Self::Close),
            other => {
                let problem = format!(
                    "unknown type '{}'; expected session.config, input.text, input.done or session.close",
                    excerpt(other)
                );
                Err(ApiError::invalid(Some("type"), problem))
            }
        }
    }
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    omni_json::read(text.as_bytes()).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> ApiError {
    ApiError::invalid(None, format!("invalid message: {}", omni_json::problem(error)))
}

fn config(text: &str, strict: bool) -> Result<Configured, ApiError> {
    let fields: ConfigFields = read(text)?;
    if fields.word_timestamps == Some(true) {
        let problem =
            "unsupported word_timestamps 'true'; expected false: SpeechService.Speak has word times";
        return Err(ApiError::invalid(Some("word_timestamps"), problem));
    }
    let streamed = fields.stream_audio.unwrap_or(false);
    let default = if streamed { "pcm" } else { "wav" };
    let name = fields.response_format.as_deref().unwrap_or(default);
    let sound = AudioFormat::named(name, "response_format")?;
    let (body, mut names) =
        unknown::read::<SpeechBody>(text.as_bytes()).map_err(|error| unreadable(&error))?;
    names.retain(|name| !ConfigFields::NAMES.contains(&name.as_str()));
    let (mut request, input) = body.request(sound)?;
    request.output.whole = !streamed;
    // Text comes in messages of its own.
    names.extend(input.is_some().then(|| "input".to_owned()));
    let delivery = Delivery {
        sound,
        streamed,
        unknown: ignored(names, strict)?,
    };
    Ok(Configured { request, delivery })
}

/// Parses any message; for tests.
pub(crate) fn take(text: &str) {
    let _ = ClientMessage::parse(text, false);
}

/// Message before the audio of an utterance. Every utterance counts as one sentence: the unit that clients flush.
pub(super) fn audio_start(utterance: u64, text: &str, format: &str, rate: u32) -> Value {
    json!({
        "type": "audio.start",
        "utterance_index": utterance,
        "sentence_index": 0,
        "sentence_text": text,
        "format": format,
        "sample_rate": rate,
    })
}

pub(super) fn audio_done(utterance: u64, bytes: u64, failed: bool) -> Value {
    json!({
        "type": "audio.done",
        "utterance_index": utterance,
        "sentence_index": 0,
        "total_bytes": bytes,
        "error": failed,
    })
}

pub(super) fn session_done(utterance: u64, sentences: u64, warnings: &[String], ignored: &[String]) -> Value {
    let mut told =
        json!({"type": "session.done", "utterance_index": utterance, "total_sentences": sentences});
    for (name, words) in [("warnings", warnings), ("ignored", ignored)] {
        if !words.is_empty() {
            told[name] = json!(words);
        }
    }
    told
}

pub(super) fn error(error: &ApiError, utterance: Option<u64>) -> Value {
    error.log();
    let mut told = error.json();
    // The type of the message stands where OpenAI has that of the error.
    told["type"] = json!("error");
    if let Some(utterance) = utterance {
        told["utterance_index"] = json!(utterance);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_is_one_file_unless_a_stream_is_asked_for() {
        for (more, expected) in [
            ("", (AudioFormat::Wav, false)),
            (r#","stream_audio":true"#, (AudioFormat::Pcm, true)),
            (
                r#","stream_audio":true,"response_format":"opus""#,
                (AudioFormat::Opus, true),
            ),
            (r#","response_format":"mp3""#, (AudioFormat::Mp3, false)),
        ] {
            let text = format!(r#"{{"type":"session.config","voice":"alloy","task_type":"Base"{more}}}"#);
            let ClientMessage::Config(config) = ClientMessage::parse(&text, false).unwrap() else {
                panic!("{text}");
            };
            let (sound, streamed) = expected;
            let delivery = Delivery {
                sound,
                streamed,
                unknown: vec!["task_type".to_owned()],
            };
            assert_eq!(config.delivery, delivery, "{text}");
            assert_eq!(config.request.output.whole, !streamed, "{text}");
            let refused = ClientMessage::parse(&text, true).expect_err("a strict server");
            assert_eq!(refused.json()["param"], "task_type");
            assert_eq!(config.request.voice, "alloy");
            assert_eq!(config.request.non_streaming_mode, None);
        }
        let text = r#"{"type":"session.config","non_streaming_mode":true}"#;
        let ClientMessage::Config(config) = ClientMessage::parse(text, false).unwrap() else {
            panic!("{text}");
        };
        assert_eq!(config.request.non_streaming_mode, Some(true));
    }

    #[test]
    fn what_is_no_message_is_told_why() {
        for (text, param) in [
            ("", None),
            ("[]", None),
            (r#"{"text":"a"}"#, None),
            (r#"{"type":"input.text"}"#, None),
            (r#"{"type":"input.text","text":1}"#, None),
            (r#"{"type":"smoke"}"#, Some("type")),
            (
                r#"{"type":"session.config","response_format":"midi"}"#,
                Some("response_format"),
            ),
            (
                r#"{"type":"session.config","word_timestamps":true}"#,
                Some("word_timestamps"),
            ),
        ] {
            let told = error(&ClientMessage::parse(text, false).unwrap_err(), None);
            assert_eq!(told["type"], "error");
            assert_eq!(told["param"].as_str(), param, "{text}");
        }
    }
}
