//! The body of `POST /v1/chat/completions`, checked.

mod drawing;
mod messages;

use omni_core::error::excerpt;
use omni_services::delivery::OutputRequest;
use omni_services::{ChatRequest, PartRequest};
use omni_session::Modalities;
use serde::Deserialize;

use self::drawing::{Drawing, Number};
use self::messages::Message;
use super::error::ApiError;
use super::json::JsonText;
use super::lean::{BoundedVec, IsSet, TextOr, scalar};
use super::sound::{AudioFormat, Voice, voice_name};

/// Longest lists. The limits of the services are as low, or lower.
const MESSAGES: usize = 4_096;
const PARTS: usize = 64;
const SHORT: usize = 64;
const TOOLS: usize = 128;

/// Body of a client: the fields that have an effect, and those that would change the answer and cannot be honoured.
/// Any other is [unknown](super::unknown).
#[derive(Debug, Deserialize)]
pub(super) struct ChatBody {
    model: Option<String>,
    messages: BoundedVec<Message, MESSAGES>,
    modalities: Option<BoundedVec<String, SHORT>>,
    audio: Option<Spoken>,
    #[serde(default, deserialize_with = "scalar")]
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    #[serde(default, deserialize_with = "scalar")]
    max_completion_tokens: Option<Number>,
    #[serde(default, deserialize_with = "scalar")]
    max_tokens: Option<Number>,
    #[serde(default, deserialize_with = "scalar")]
    temperature: Option<f32>,
    #[serde(default, deserialize_with = "scalar")]
    top_p: Option<f32>,
    #[serde(default, deserialize_with = "scalar")]
    top_k: Option<Number>,
    #[serde(default, deserialize_with = "scalar")]
    min_p: Option<f32>,
    #[serde(default, deserialize_with = "scalar")]
    frequency_penalty: Option<f32>,
    #[serde(default, deserialize_with = "scalar")]
    presence_penalty: Option<f32>,
    #[serde(default, deserialize_with = "scalar")]
    repetition_penalty: Option<f32>,
    #[serde(default, deserialize_with = "scalar")]
    repeat_penalty: Option<f32>,
    #[serde(default, deserialize_with = "scalar")]
    seed: Option<Number>,
    stop: Option<TextOr<BoundedVec<String, SHORT>>>,
    #[serde(default, deserialize_with = "scalar")]
    n: Option<Number>,
    tools: Option<BoundedVec<Tool, TOOLS>>,
    tool_choice: Option<TextOr<Named>>,
    #[serde(default, deserialize_with = "scalar")]
    parallel_tool_calls: Option<bool>,
    response_format: Option<Format>,
    #[serde(default, deserialize_with = "scalar")]
    logprobs: Option<bool>,
    #[serde(default, deserialize_with = "scalar")]
    top_logprobs: Option<Number>,
    #[serde(default)]
    functions: IsSet,
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

/// Function that must be called.
#[derive(Debug, Deserialize)]
struct Named {
    function: Option<FunctionName>,
}

#[derive(Debug, Deserialize)]
struct FunctionName {
    name: String,
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

impl ChatBody {
    /// Audio format of the answer, if it is to be heard.
    pub(super) fn sound(&self) -> Result<Option<AudioFormat>, ApiError> {
        let modalities = self.modalities.as_ref().map_or(&[][..], |few| &few.0);
        if let Some(other) = modalities
            .iter()
            .find(|name| !matches!(name.as_str(), "text" | "audio"))
        {
            let problem = format!(
                "unsupported modality '{}'; expected text or audio",
                excerpt(other)
            );
            return Err(ApiError::invalid(Some("modalities"), problem));
        }
        match (&self.audio, modalities.iter().any(|name| name == "audio")) {
            (_, false) => Ok(None),
            (None, true) => Err(ApiError::invalid(
                Some("audio"),
                "audio is missing; expected voice and format because modalities has audio",
            )),
            (Some(spoken), true) => AudioFormat::named(&spoken.format, "audio.format").map(Some),
        }
    }

    /// Returns true if the answer is sent while it is made.
    pub(super) fn streams(&self) -> bool {
        self.stream == Some(true)
    }

    /// Returns true if the last event of a stream has the usage.
    pub(super) fn wants_usage(&self) -> bool {
        self.stream_options
            .as_ref()
            .is_some_and(|options| options.include_usage == Some(true))
    }

    /// Ignored hints.
    ///
    /// # Errors
    /// The first of them, if the server is `strict`.
    pub(super) fn ignored(&self, strict: bool) -> Result<Vec<&'static str>, ApiError> {
        let forces_a_call = match &self.tool_choice {
            Some(TextOr::Other(_)) => true,
            Some(TextOr::Text(choice)) => choice == "required",
            None => false,
        };
        let hints = [
            (
                "tool_choice",
                forces_a_call,
                "the model decides whether it calls a tool; expected auto or none",
            ),
            (
                "functions",
                self.functions.0,
                "functions are offered as tools; expected none",
            ),
            (
                "logit_bias",
                self.logit_bias.0,
                "single tokens are not made likelier; expected none",
            ),
        ];
        let mut given = hints.into_iter().filter(|(_, is_given, _)| *is_given).peekable();
        match given.peek() {
            Some((name, _, problem)) if strict => Err(refused(name, problem)),
            _ => Ok(given.map(|(name, ..)| name).collect()),
        }
    }

    /// Most function calls of the answer; `None` if it is offered none.
    pub(super) fn most_calls(&self) -> Option<usize> {
        let refused = matches!(&self.tool_choice, Some(TextOr::Text(choice)) if choice == "none");
        let offered = self.tools.as_ref().is_some_and(|tools| !tools.0.is_empty());
        let most = match self.parallel_tool_calls {
            Some(false) => 1,
            _ => TOOLS,
        };
        (offered && !refused).then_some(most)
    }

    /// Offered tools, as parts of the system message: only those of the choice, if it names one.
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
        let plain = |format: &Format| matches!(format.kind.as_deref(), None | Some("text"));
        let promises = [
            (
                "n",
                self.n.is_some_and(|n| n.value() != 1),
                "one answer is given; expected 1",
            ),
            (
                "response_format",
                self.response_format.as_ref().is_some_and(|format| !plain(format)),
                "answers are not held to a format; expected type text",
            ),
            (
                "logprobs",
                self.logprobs == Some(true),
                "probabilities are not told; expected false",
            ),
            (
                "top_logprobs",
                self.top_logprobs.is_some_and(|most| most.value() > 0),
                "probabilities are not told; expected 0",
            ),
        ];
        match promises.into_iter().find(|(_, is_set, _)| *is_set) {
            Some((name, _, problem)) => Err(refused(name, problem)),
            None => Ok(()),
        }
    }

    fn drawing(&self) -> Drawing {
        Drawing {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            repetition_penalty: self.repetition_penalty,
            repeat_penalty: self.repeat_penalty,
            seed: self.seed,
            max_completion_tokens: self.max_completion_tokens,
            max_tokens: self.max_tokens,
        }
    }

    /// Request to the service.
    pub(super) fn request(mut self, sound: Option<AudioFormat>) -> Result<ChatRequest, ApiError> {
        self.check()?;
        let text_sampling = self.drawing().request()?;
        let whole = !self.streams();
        let offered = self.offered()?;
        let stops = match self.stop {
            None => Vec::new(),
            Some(TextOr::Text(stop)) => vec![stop],
            Some(TextOr::Other(BoundedVec(stops))) => stops,
        };
        let voice = self.audio.and_then(|spoken| spoken.voice).map(voice_name);
        Ok(ChatRequest {
            model: self.model.unwrap_or_default(),
            modalities: Some(Modalities {
                text: true,
                audio: sound.is_some(),
            }),
            voice: voice.unwrap_or_default(),
            output: OutputRequest {
                whole,
                ..sound.map(AudioFormat::output).unwrap_or_default()
            },
            text_sampling,
            // A form also sends fields that were left empty.
            stop: stops.into_iter().filter(|stop| !stop.is_empty()).collect(),
            history: messages::history(self.messages.0, offered)?,
            ..ChatRequest::default()
        })
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
                format!(
                    "unsupported type '{}' of a tool; expected function with its definition",
                    excerpt(&kind)
                ),
            )),
        }
    }
}

fn refused(name: &str, problem: &str) -> ApiError {
    ApiError::invalid(Some(name), format!("{name}: {problem}"))
}
