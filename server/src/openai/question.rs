//! The body of `POST /v1/chat/completions`, checked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_audio::InputEncoding;
use omni_family::Role;
use serde::Deserialize;

use super::error::ApiError;
use super::json::JsonText;
use super::lean::{BoundedVec, IsSet, TextOr};
use super::sound::{AudioFormat, Voice, voice_name};
use crate::service::chat::audio::InputRequest;
use crate::service::settings::SamplingRequest;
use crate::service::{ChatRequest, MessageRequest, PartRequest};
use crate::session::Modalities;

/// Longest lists. The services allow less, or as much.
const MESSAGES: usize = 4_096;
const PARTS: usize = 64;
const SHORT: usize = 64;
const TOOLS: usize = 128;

/// What OpenAI's clients send. What stands here and cannot be honoured is refused, or ignored if it is a hint; whatever else they
/// send is not looked at.
/// `top_k` and `repetition_penalty` are additions that others know too.
#[derive(Debug, Deserialize)]
pub(super) struct ChatBody {
    model: Option<String>,
    messages: BoundedVec<Message, MESSAGES>,
    modalities: Option<BoundedVec<String, SHORT>>,
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
    stop: Option<TextOr<BoundedVec<String, SHORT>>>,
    n: Option<u32>,
    tools: Option<BoundedVec<Tool, TOOLS>>,
    tool_choice: Option<TextOr<Named>>,
    parallel_tool_calls: Option<bool>,
    #[serde(default)]
    functions: IsSet,
    response_format: Option<Format>,
    logprobs: Option<bool>,
    top_logprobs: Option<u32>,
    frequency_penalty: Option<f32>,
    presence_penalty: Option<f32>,
    #[serde(default)]
    logit_bias: IsSet,
}

#[derive(Debug, Deserialize)]
struct Format {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Tool {
    #[serde(rename = "type")]
    kind: Option<String>,
    function: Option<Function>,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    description: Option<String>,
    parameters: Option<JsonText>,
}

/// The function that must be asked for.
#[derive(Debug, Deserialize)]
struct Named {
    function: Option<FunctionName>,
}

#[derive(Debug, Deserialize)]
struct FunctionName {
    name: String,
}

#[derive(Debug, Deserialize)]
struct AskedFor {
    function: CalledWith,
}

#[derive(Debug, Deserialize)]
struct CalledWith {
    name: String,
    arguments: Option<String>,
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
    content: Option<TextOr<BoundedVec<ContentPart, PARTS>>>,
    #[serde(default)]
    audio: IsSet,
    tool_calls: Option<BoundedVec<AskedFor, TOOLS>>,
}

#[derive(Debug, Deserialize)]
struct ContentPart {
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

impl ChatBody {
    /// How the answer sounds, if it is to be heard.
    pub(super) fn sound(&self) -> Result<Option<AudioFormat>, ApiError> {
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
            (Some(spoken), true) => AudioFormat::named(&spoken.format, "audio.format").map(Some),
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

    /// Hints that are given and have no effect.
    ///
    /// # Errors
    /// The first of them, where the server is `strict`.
    pub(super) fn ignored(&self, strict: bool) -> Result<Vec<&'static str>, ApiError> {
        let other_than_zero = |value: Option<f32>| value.is_some_and(|value| value != 0.0);
        let penalty = "expected 0, there is repetition_penalty";
        let hints = [
            (
                "tool_choice",
                matches!(&self.tool_choice, Some(TextOr::Other(_)))
                    || matches!(&self.tool_choice, Some(TextOr::Text(choice)) if choice == "required"),
                "expected auto or none: the model decides whether it calls a tool",
            ),
            (
                "functions",
                self.functions.0,
                "expected none: the model calls no functions",
            ),
            (
                "frequency_penalty",
                other_than_zero(self.frequency_penalty),
                penalty,
            ),
            (
                "presence_penalty",
                other_than_zero(self.presence_penalty),
                penalty,
            ),
            ("logit_bias", self.logit_bias.0, "expected none"),
        ];
        let given: Vec<_> = hints.into_iter().filter(|(_, is_given, _)| *is_given).collect();
        match given.first() {
            Some((name, _, expected)) if strict => Err(refused(name, expected)),
            _ => {
                let names: Vec<_> = given.into_iter().map(|(name, ..)| name).collect();
                if !names.is_empty() {
                    tracing::info!(fields = names.join(", "), "ignored hints");
                }
                Ok(names)
            }
        }
    }

    /// Most functions that the answer may ask for; `None` where it is offered none.
    pub(super) fn most_calls(&self) -> Option<usize> {
        let refused = matches!(&self.tool_choice, Some(TextOr::Text(choice)) if choice == "none");
        let offered = self.tools.as_ref().is_some_and(|tools| !tools.0.is_empty());
        let most = match self.parallel_tool_calls {
            Some(false) => 1,
            _ => TOOLS,
        };
        (offered && !refused).then_some(most)
    }

    /// The tools that are offered, as parts of the system's message: those of the choice, if it names one.
    fn offered(&mut self) -> Result<Vec<PartRequest>, ApiError> {
        if self.most_calls().is_none() {
            return Ok(Vec::new());
        }
        let named = match self.tool_choice.take() {
            Some(TextOr::Other(choice)) => choice.function.map(|function| function.name),
            _ => None,
        };
        let tools = self.tools.take().unwrap_or_default().0;
        let meant = |tool: &Tool| match (&named, &tool.function) {
            (Some(name), Some(function)) => function.name == *name,
            _ => true,
        };
        tools.into_iter().filter(meant).map(Tool::part).collect()
    }

    fn check(&self) -> Result<(), ApiError> {
        let plain = |format: &Format| format.kind.as_deref() == Some("text");
        let promises = [
            (
                "n",
                self.n.is_some_and(|n| n != 1),
                "expected 1: one answer is given",
            ),
            (
                "response_format",
                self.response_format.as_ref().is_some_and(|format| !plain(format)),
                "expected type text",
            ),
            ("logprobs", self.logprobs == Some(true), "expected false"),
            (
                "top_logprobs",
                self.top_logprobs.is_some_and(|most| most > 0),
                "expected 0",
            ),
        ];
        match promises.into_iter().find(|(_, is_set, _)| *is_set) {
            Some((name, _, expected)) => Err(refused(name, expected)),
            None => Ok(()),
        }
    }

    /// What the service is asked.
    pub(super) fn request(mut self, sound: Option<AudioFormat>) -> Result<ChatRequest, ApiError> {
        self.check()?;
        let offered = self.offered()?;
        let stop = match self.stop {
            None => Vec::new(),
            Some(TextOr::Text(stop)) => vec![stop],
            Some(TextOr::Other(BoundedVec(stops))) => stops,
        };
        let voice = self.audio.and_then(|spoken| spoken.voice).map(voice_name);
        let messages = self.messages.0.into_iter().map(Message::message);
        let mut history = messages.collect::<Result<Vec<_>, _>>()?;
        offer(offered, &mut history);
        Ok(ChatRequest {
            model: self.model.unwrap_or_default(),
            modalities: Some(Modalities {
                text: true,
                audio: sound.is_some(),
            }),
            voice: voice.unwrap_or_default(),
            output: sound.map(AudioFormat::output).unwrap_or_default(),
            text_sampling: SamplingRequest {
                temperature: self.temperature,
                top_p: self.top_p,
                top_k: self.top_k,
                repetition_penalty: self.repetition_penalty,
                // Any number is a seed; which one does not matter as long as the same means the same.
                seed: self.seed.map(i64::cast_unsigned),
                max_tokens: self.max_completion_tokens.or(self.max_tokens),
            },
            stop,
            history,
            ..ChatRequest::default()
        })
    }
}

/// Puts tools into the system's message, which is made if there is none.
fn offer(tools: Vec<PartRequest>, messages: &mut Vec<MessageRequest>) {
    if tools.is_empty() {
        return;
    }
    if messages.first().is_none_or(|first| first.role != Role::System) {
        messages.insert(0, said(Role::System, Vec::new()));
    }
    if let Some(system) = messages.first_mut() {
        system.parts.extend(tools);
    }
}

fn said(role: Role, parts: Vec<PartRequest>) -> MessageRequest {
    MessageRequest {
        id: String::new(),
        role,
        parts,
    }
}

impl Tool {
    fn part(self) -> Result<PartRequest, ApiError> {
        let kind = self.kind.unwrap_or_default();
        match self.function {
            Some(function) if kind == "function" => Ok(PartRequest::Tool {
                name: function.name,
                description: function.description.unwrap_or_default(),
                parameters: function
                    .parameters
                    .map(|JsonText(text)| text)
                    .filter(|text| text != "null")
                    .unwrap_or_default(),
            }),
            _ => Err(ApiError::invalid(
                Some("tools"),
                format!("tools has one of type {kind:?}, expected function with its definition"),
            )),
        }
    }
}

fn refused(name: &str, expected: &str) -> ApiError {
    ApiError::invalid(Some(name), format!("{name} is not offered, {expected}"))
}

impl Message {
    fn message(self) -> Result<MessageRequest, ApiError> {
        let refuse = |problem: &str| Err(ApiError::invalid(Some("messages"), problem));
        let role = match self.role.as_str() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => return self.result(),
            other => {
                return refuse(&format!(
                    "messages has the role {other:?}, expected system, user, assistant or tool"
                ));
            }
        };
        let calls = self.tool_calls.unwrap_or_default().0;
        let mut parts = match self.content {
            // What clients write beside calls.
            Some(TextOr::Text(text)) if text.is_empty() && !calls.is_empty() => Vec::new(),
            Some(TextOr::Text(text)) => vec![PartRequest::Text(text)],
            Some(TextOr::Other(BoundedVec(parts))) => parts
                .into_iter()
                .map(ContentPart::part)
                .collect::<Result<_, _>>()?,
            None if !calls.is_empty() => Vec::new(),
            None if self.audio.0 => {
                return refuse(
                    "messages has audio of an earlier answer, which is not kept: send its transcript as content",
                );
            }
            None => return refuse("messages has one without content"),
        };
        parts.extend(calls.into_iter().map(|call| PartRequest::ToolCall {
            name: call.function.name,
            arguments: call.function.arguments.unwrap_or_default(),
        }));
        Ok(said(role, parts))
    }

    /// What a function gave.
    fn result(self) -> Result<MessageRequest, ApiError> {
        let texts = match self.content {
            Some(TextOr::Text(text)) => text,
            Some(TextOr::Other(BoundedVec(parts))) => {
                parts.into_iter().filter_map(|part| part.text).collect()
            }
            None => String::new(),
        };
        Ok(said(Role::User, vec![PartRequest::ToolResult(texts)]))
    }
}

impl ContentPart {
    fn part(self) -> Result<PartRequest, ApiError> {
        let refuse = |problem: String| Err(ApiError::invalid(Some("messages"), problem));
        match (self.kind.as_str(), self.text, self.input_audio) {
            ("text", Some(text), _) => Ok(PartRequest::Text(text)),
            ("input_audio", _, Some(recording)) => recording.part(),
            (kind, ..) => refuse(format!(
                "messages has a part of type {kind:?}, expected text or input_audio with their content"
            )),
        }
    }
}

impl Recording {
    fn part(self) -> Result<PartRequest, ApiError> {
        let refuse = |problem: &str| Err(ApiError::invalid(Some("messages"), problem));
        let (encoding, sample_rate_hz) = match self.format.as_str() {
            "wav" => (InputEncoding::Wav, 0),
            "pcm16" => (InputEncoding::Pcm16, 24_000),
            other => return refuse(&format!("input_audio.format is {other:?}, expected wav or pcm16")),
        };
        let Ok(data) = BASE64.decode(&self.data) else {
            return refuse("input_audio.data is not base64");
        };
        Ok(PartRequest::Audio {
            layout: InputRequest {
                encoding,
                sample_rate_hz,
                channels: 0,
            },
            data: data.into(),
        })
    }
}
