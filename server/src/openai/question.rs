//! The body of `POST /v1/chat/completions`, checked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_proto::v1;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::error::ApiError;
use super::lean::{Few, Given, TextOr};
use super::sound::{Sound, Voice, voice_name};

/// Longest lists. The services allow less, or as much.
const MESSAGES: usize = 4_096;
const PARTS: usize = 64;
const SHORT: usize = 64;

/// What OpenAI's clients send. What stands here and cannot be honoured is refused; whatever else they send is not looked at.
/// `top_k` and `repetition_penalty` are additions that others know too.
#[derive(Debug, Deserialize)]
pub(super) struct Question {
    pub(super) model: String,
    messages: Few<Message, MESSAGES>,
    modalities: Option<Few<String, SHORT>>,
    audio: Option<Spoken>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_completion_tokens: Option<u32>,
    max_tokens: Option<u32>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<i32>,
    repetition_penalty: Option<f32>,
    seed: Option<i64>,
    stop: Option<TextOr<Few<String, SHORT>>>,
    n: Option<u32>,
    #[serde(default)]
    tools: Given,
    #[serde(default)]
    functions: Given,
    response_format: Option<Format>,
    logprobs: Option<bool>,
    frequency_penalty: Option<f32>,
    presence_penalty: Option<f32>,
    #[serde(default)]
    logit_bias: Given,
}

#[derive(Debug, Deserialize)]
struct Format {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Spoken {
    voice: Option<Voice>,
    format: String,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    content: Option<TextOr<Few<Part, PARTS>>>,
    audio: Option<IgnoredAny>,
    #[serde(default)]
    tool_calls: Given,
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    input_audio: Option<Recording>,
}

#[derive(Debug, Deserialize)]
struct Recording {
    data: String,
    format: String,
}

impl Question {
    /// How the answer sounds, if it is to be heard.
    pub(super) fn sound(&self) -> Result<Option<Sound>, ApiError> {
        let modalities = self.modalities.as_ref().map_or(&[][..], |few| &few.0);
        if let Some(other) = modalities
            .iter()
            .find(|name| !matches!(name.as_str(), "text" | "audio"))
        {
            let problem = format!("modalities has {other:?}, expected text and audio");
            return Err(ApiError::invalid(Some("modalities"), problem));
        }
        match (&self.audio, modalities.iter().any(|name| name == "audio")) {
            (_, false) => Ok(None),
            (None, true) => Err(ApiError::invalid(
                Some("audio"),
                "audio is missing, expected voice and format because modalities has audio",
            )),
            (Some(spoken), true) => Sound::named(&spoken.format, "audio.format").map(Some),
        }
    }

    /// Whether the answer is sent while it is made.
    pub(super) fn streams(&self) -> bool {
        self.stream == Some(true)
    }

    /// Whether the last event of a stream says what was used.
    pub(super) fn wants_usage(&self) -> bool {
        self.stream_options
            .as_ref()
            .is_some_and(|options| options.include_usage == Some(true))
    }

    fn check(&self) -> Result<(), ApiError> {
        let other_than_zero = |value: Option<f32>| value.is_some_and(|value| value != 0.0);
        let plain = |format: &Format| format.kind.as_deref() == Some("text");
        let refused = [
            (
                "n",
                self.n.is_some_and(|n| n != 1),
                "expected 1: one answer is given",
            ),
            ("tools", self.tools.0, "expected none: no tools are called"),
            (
                "functions",
                self.functions.0,
                "expected none: no functions are called",
            ),
            (
                "response_format",
                self.response_format.as_ref().is_some_and(|format| !plain(format)),
                "expected type text",
            ),
            ("logprobs", self.logprobs == Some(true), "expected false"),
            (
                "frequency_penalty",
                other_than_zero(self.frequency_penalty),
                "expected 0, there is repetition_penalty",
            ),
            (
                "presence_penalty",
                other_than_zero(self.presence_penalty),
                "expected 0, there is repetition_penalty",
            ),
            ("logit_bias", self.logit_bias.0, "expected none"),
        ];
        match refused.into_iter().find(|(_, is_set, _)| *is_set) {
            Some((name, _, expected)) => Err(ApiError::invalid(
                Some(name),
                format!("{name} is not offered, {expected}"),
            )),
            None => Ok(()),
        }
    }

    /// What the service is asked.
    pub(super) fn request(self, sound: Option<Sound>) -> Result<v1::GenerateRequest, ApiError> {
        self.check()?;
        let mut modalities = vec![v1::Modality::Text.into()];
        modalities.extend(sound.map(|_| i32::from(v1::Modality::Audio)));
        let stop = match self.stop {
            None => Vec::new(),
            Some(TextOr::Text(stop)) => vec![stop],
            Some(TextOr::Other(Few(stops))) => stops,
        };
        let voice = self.audio.and_then(|spoken| spoken.voice).map(voice_name);
        let config = v1::ChatConfig {
            model: self.model,
            output_modalities: modalities,
            voice: voice.unwrap_or_default(),
            output_audio: sound.map(Sound::delivery),
            text_sampling: Some(v1::SamplingParams {
                temperature: self.temperature,
                top_p: self.top_p,
                top_k: self.top_k,
                repetition_penalty: self.repetition_penalty,
                // Any number is a seed; which one does not matter as long as the same means the same.
                seed: self.seed.map(i64::cast_unsigned),
                max_tokens: self.max_completion_tokens.or(self.max_tokens),
            }),
            stop,
            ..v1::ChatConfig::default()
        };
        let messages = self.messages.0.into_iter().map(Message::message);
        Ok(v1::GenerateRequest {
            config: Some(config),
            messages: messages.collect::<Result<_, _>>()?,
        })
    }
}

impl Message {
    fn message(self) -> Result<v1::ChatMessage, ApiError> {
        let refuse = |problem: &str| Err(ApiError::invalid(Some("messages"), problem));
        let role = match self.role.as_str() {
            "system" | "developer" => v1::Role::System,
            "user" => v1::Role::User,
            "assistant" => v1::Role::Assistant,
            other => {
                return refuse(&format!(
                    "messages has the role {other:?}, expected system, user or assistant"
                ));
            }
        };
        if self.tool_calls.0 {
            return refuse("messages has tool_calls, no tools are called here");
        }
        let parts = match self.content {
            Some(TextOr::Text(text)) => vec![text_part(text)],
            Some(TextOr::Other(Few(parts))) => parts.into_iter().map(Part::part).collect::<Result<_, _>>()?,
            None if self.audio.is_some() => {
                return refuse(
                    "messages has audio of an earlier answer, which is not kept: send its transcript as content",
                );
            }
            None => return refuse("messages has one without content"),
        };
        Ok(v1::ChatMessage {
            id: String::new(),
            role: role.into(),
            parts,
        })
    }
}

impl Part {
    fn part(self) -> Result<v1::ContentPart, ApiError> {
        let refuse = |problem: String| Err(ApiError::invalid(Some("messages"), problem));
        match (self.kind.as_str(), self.text, self.input_audio) {
            ("text", Some(text), _) => Ok(text_part(text)),
            ("input_audio", _, Some(recording)) => recording.part(),
            (kind, ..) => refuse(format!(
                "messages has a part of type {kind:?}, expected text or input_audio with their content"
            )),
        }
    }
}

impl Recording {
    fn part(self) -> Result<v1::ContentPart, ApiError> {
        let refuse = |problem: &str| Err(ApiError::invalid(Some("messages"), problem));
        let (encoding, sample_rate_hz) = match self.format.as_str() {
            "wav" => (v1::AudioEncoding::Wav, 0),
            "pcm16" => (v1::AudioEncoding::PcmS16le, 24_000),
            other => return refuse(&format!("input_audio.format is {other:?}, expected wav or pcm16")),
        };
        let Ok(data) = BASE64.decode(&self.data) else {
            return refuse("input_audio.data is no base64");
        };
        let clip = v1::AudioClip {
            format: Some(v1::AudioFormat {
                encoding: encoding.into(),
                sample_rate_hz,
                channels: 0,
            }),
            data: data.into(),
        };
        Ok(v1::ContentPart {
            part: Some(v1::content_part::Part::Audio(clip)),
        })
    }
}

fn text_part(text: String) -> v1::ContentPart {
    v1::ContentPart {
        part: Some(v1::content_part::Part::Text(text)),
    }
}
