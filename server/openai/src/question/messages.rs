//! Messages of a conversation in every form that OpenAI's API accepts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_audio::InputEncoding;
use omni_core::error::excerpt;
use omni_family::Role;
use omni_services::chat::audio::InputRequest;
use omni_services::{MessageRequest, OtherPart, PartRequest};
use serde::Deserialize;

use super::{PARTS, TOOLS};
use crate::error::ApiError;
use crate::lean::{BoundedVec, IsSet, TextOr};

/// Text in place of the last words of a user who sent none.
const NO_WORDS: &str = " ";

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    role: String,
    content: Option<TextOr<BoundedVec<ContentPart, PARTS>>>,
    refusal: Option<String>,
    /// The id of the audio of an earlier answer.
    #[serde(default)]
    audio: IsSet,
    tool_calls: Option<BoundedVec<AskedFor, TOOLS>>,
    /// Call in the form before several were possible.
    function_call: Option<CalledWith>,
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
struct ContentPart {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    refusal: Option<String>,
    input_audio: Option<Recording>,
}

#[derive(Debug, Deserialize)]
struct Recording {
    data: Option<String>,
    format: Option<String>,
}

/// A conversation as templates take it: messages of system and developer come first and are one message, and empty
/// messages are left out, except the last of the user. `tools` are parts of the system message.
pub(super) fn history(
    messages: Vec<Message>,
    tools: Vec<PartRequest>,
) -> Result<Vec<MessageRequest>, ApiError> {
    if messages.is_empty() {
        let problem = "messages is empty; expected one at least";
        return Err(ApiError::invalid(Some("messages"), problem));
    }
    let last = messages.len() - 1;
    let mut system = Vec::new();
    let mut said = Vec::new();
    for (at, message) in messages.into_iter().enumerate() {
        let MessageRequest { role, mut parts, .. } = message.request(at)?;
        if parts.is_empty() && role == Role::User && at == last {
            parts.push(PartRequest::Text(NO_WORDS.to_owned()));
        }
        match role {
            _ if parts.is_empty() => {}
            Role::System if system.is_empty() => system = parts,
            Role::System => {
                system.push(PartRequest::Text("\n\n".to_owned()));
                system.extend(parts);
            }
            Role::User | Role::Assistant => said.push(message_of(role, parts)),
        }
    }
    let mut system = joined(system);
    system.extend(tools);
    if system.is_empty() {
        if said.is_empty() {
            said.push(message_of(
                Role::User,
                vec![PartRequest::Text(NO_WORDS.to_owned())],
            ));
        }
        return Ok(said);
    }
    said.insert(0, message_of(Role::System, system));
    Ok(said)
}

/// Joins neighbouring texts to one part.
fn joined(parts: Vec<PartRequest>) -> Vec<PartRequest> {
    let mut joined: Vec<PartRequest> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(PartRequest::Text(before)), PartRequest::Text(text)) => before.push_str(&text),
            (_, part) => joined.push(part),
        }
    }
    joined
}

fn message_of(role: Role, parts: Vec<PartRequest>) -> MessageRequest {
    MessageRequest {
        id: String::new(),
        role,
        parts,
    }
}

impl Message {
    /// The message without empty parts; none if nothing is left. It is number `at` of the list.
    fn request(self, at: usize) -> Result<MessageRequest, ApiError> {
        let role = match self.role.as_str() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" | "function" => return Ok(message_of(Role::User, self.result())),
            other => {
                let problem = format!(
                    "unsupported messages[{at}].role '{}'; expected system, developer, user, assistant, tool or function",
                    excerpt(other)
                );
                return Err(ApiError::invalid(Some("messages"), problem));
            }
        };
        let calls = self.tool_calls.unwrap_or_default().0.into_iter();
        let calls = calls.map(|call| call.function).chain(self.function_call);
        let calls: Vec<_> = calls.map(CalledWith::part).collect();
        let mut parts = parts(self.content);
        if parts.is_empty() {
            parts.extend(words(self.refusal));
        }
        if parts.is_empty() && calls.is_empty() && self.audio.0 {
            parts.push(PartRequest::Other(OtherPart::EarlierAudio));
        }
        parts.extend(calls);
        Ok(message_of(role, parts))
    }

    /// Result of a function: its texts as one, and the other parts beside them.
    fn result(self) -> Vec<PartRequest> {
        let mut texts = String::new();
        let mut others = Vec::new();
        for part in parts(self.content) {
            match part {
                PartRequest::Text(text) => texts.push_str(&text),
                other => others.push(other),
            }
        }
        others.insert(0, PartRequest::ToolResult(texts));
        others
    }
}

fn parts(content: Option<TextOr<BoundedVec<ContentPart, PARTS>>>) -> Vec<PartRequest> {
    match content {
        Some(TextOr::Text(text)) => words(Some(text)).into_iter().collect(),
        Some(TextOr::Other(BoundedVec(parts))) => parts.into_iter().filter_map(ContentPart::part).collect(),
        None => Vec::new(),
    }
}

fn words(text: Option<String>) -> Option<PartRequest> {
    text.filter(|text| !text.is_empty()).map(PartRequest::Text)
}

impl CalledWith {
    fn part(self) -> PartRequest {
        PartRequest::ToolCall {
            name: self.name,
            arguments: self.arguments.unwrap_or_default(),
        }
    }
}

impl ContentPart {
    /// The part; none if it is empty.
    fn part(self) -> Option<PartRequest> {
        match self.kind.as_str() {
            "text" | "input_text" | "output_text" => words(self.text),
            "refusal" => words(self.refusal),
            "input_audio" => Some(self.input_audio.map_or_else(
                || unreadable("input_audio is missing; expected its data and format"),
                Recording::part,
            )),
            other => Some(PartRequest::Other(OtherPart::named(other))),
        }
    }
}

fn unreadable(problem: impl Into<String>) -> PartRequest {
    PartRequest::Other(OtherPart::Recording(problem.into()))
}

impl Recording {
    fn part(self) -> PartRequest {
        let format = self.format.unwrap_or_default();
        let (encoding, sample_rate_hz) = match format.as_str() {
            "wav" => (InputEncoding::Wav, 0),
            "pcm16" => (InputEncoding::Pcm16, 24_000),
            other => {
                let other = excerpt(other);
                return unreadable(format!(
                    "unsupported input_audio.format '{other}'; expected wav or pcm16"
                ));
            }
        };
        let Ok(data) = BASE64.decode(self.data.unwrap_or_default()) else {
            return unreadable("input_audio.data is not base64");
        };
        PartRequest::Audio {
            layout: InputRequest {
                encoding,
                sample_rate_hz,
                channels: 0,
            },
            data: data.into(),
        }
    }
}
