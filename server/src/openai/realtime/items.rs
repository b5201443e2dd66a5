//! Items of a conversation: as they come, as the model reads them, and as the client is told of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use super::formats::AudioFormat;
use super::settings::named;
use crate::error::excerpt;
use crate::model::{ChatMessage, Part, Role, ToolPart};
use crate::openai::error::ApiError;
use crate::openai::lean::BoundedVec;
use crate::service::chat::audio::InputRequest;
use crate::service::{ChatModel, MessageRequest, PartRequest};

/// Longest list of parts, and longest name of an item in bytes.
const PARTS: usize = 64;
const MAX_ID: usize = 128;

/// An item as a client sends it.
#[derive(Debug, Deserialize)]
pub(super) struct ItemBody {
    #[serde(rename = "type")]
    kind: Option<String>,
    pub(super) id: Option<String>,
    role: Option<String>,
    content: Option<BoundedVec<ContentBody, PARTS>>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ContentBody {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
    transcript: Option<String>,
    audio: Option<String>,
}

/// An item.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) id: String,
    /// As clients are told, without its audio.
    pub(super) told: Value,
    /// As the model reads it; without parts if there is nothing to read.
    pub(super) said: ChatMessage,
    /// The model asked for a function with it.
    pub(super) is_call: bool,
    /// The user's speech, of a model that cannot hear.
    pub(super) unheard: bool,
    /// Playing time of its audio in milliseconds, if it was spoken by the model.
    pub(super) spoken_ms: Option<u64>,
    /// Whether an answer was asked for since it came: its characters are paid for.
    pub(super) counted: bool,
}

fn refuse<T>(param: &str, problem: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::invalid(Some(param), problem))
}

impl ItemBody {
    /// The id of the item that it only refers to.
    pub(super) fn reference(&self) -> Option<&str> {
        let refers = self.kind.as_deref() == Some("item_reference");
        self.id.as_deref().filter(|_| refers)
    }

    /// Checks it; audio in it is in `format`.
    pub(super) fn item(self, id: String, format: AudioFormat, model: &ChatModel) -> Result<Item, ApiError> {
        if id.len() > MAX_ID {
            return refuse(
                "item.id",
                format!("item.id has {} bytes, expected at most {MAX_ID}", id.len()),
            );
        }
        match self.kind.as_deref() {
            Some("message") | None => self.message(id, format, model),
            Some("function_call") => self.call(id, model),
            Some("function_call_output") => self.output(id, model),
            Some(other) => refuse(
                "item.type",
                format!(
                    "item.type is {:?}, expected message, function_call or function_call_output",
                    excerpt(other)
                ),
            ),
        }
    }

    fn message(self, id: String, format: AudioFormat, model: &ChatModel) -> Result<Item, ApiError> {
        let role = match self.role.as_deref() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("system" | "developer") => Role::System,
            other => {
                let other = excerpt(other.unwrap_or_default());
                let problem = format!("item.role is {other:?}, expected user, assistant or system");
                return refuse("item.role", problem);
            }
        };
        let content = self.content.unwrap_or_default().0;
        let mut told = Vec::with_capacity(content.len());
        let mut parts = Vec::with_capacity(content.len());
        for part in content {
            let (one, shown) = part.part(role, format)?;
            told.push(shown);
            parts.extend(one);
        }
        let said = match parts.is_empty() {
            // What was not heard of an answer is sent so.
            true if role == Role::Assistant && !told.is_empty() => ChatMessage {
                role,
                parts: Vec::new(),
            },
            _ => checked(role, parts, model)?,
        };
        let role = self.role.unwrap_or_default();
        let told = json!({
            "id": id, "object": "realtime.item", "type": "message", "status": "completed", "role": role, "content": told,
        });
        Ok(Item::new(id, told, said))
    }

    fn call(self, id: String, model: &ChatModel) -> Result<Item, ApiError> {
        let (name, arguments) = (self.name.unwrap_or_default(), self.arguments.unwrap_or_default());
        let call = PartRequest::ToolCall {
            name: name.clone(),
            arguments: arguments.clone(),
        };
        let said = checked(Role::Assistant, vec![call], model)?;
        let call_id = self.call_id.unwrap_or_else(|| format!("call_{id}"));
        let told = call_json(&id, &call_id, &name, &arguments, "completed");
        Ok(Item {
            is_call: true,
            ..Item::new(id, told, said)
        })
    }

    fn output(self, id: String, model: &ChatModel) -> Result<Item, ApiError> {
        let Some(call_id) = self.call_id else {
            return refuse(
                "item.call_id",
                "item.call_id is missing, expected that of the function_call",
            );
        };
        let output = self.output.unwrap_or_default();
        let result = PartRequest::ToolResult(output.clone());
        let said = checked(Role::User, vec![result], model)?;
        let told = json!({
            "id": id, "object": "realtime.item", "type": "function_call_output", "status": "completed", "call_id": call_id,
            "output": output,
        });
        Ok(Item::new(id, told, said))
    }
}

impl ContentBody {
    /// What the model reads of it, and what clients are told.
    fn part(self, role: Role, format: AudioFormat) -> Result<(Option<PartRequest>, Value), ApiError> {
        let kind = self.kind.unwrap_or_default();
        let text = |text: Option<String>| text.filter(|text| !text.is_empty()).map(PartRequest::Text);
        match (kind.as_str(), role) {
            ("input_text", Role::User | Role::System) | ("output_text" | "text", _) => {
                let told = json!({"type": kind, "text": self.text});
                Ok((text(self.text), told))
            }
            ("output_audio" | "audio", Role::Assistant) => {
                let told = json!({"type": "output_audio", "transcript": self.transcript});
                Ok((text(self.transcript), told))
            }
            ("input_audio", Role::User) => {
                let told = json!({"type": kind, "transcript": self.transcript});
                let Ok(data) = BASE64.decode(self.audio.unwrap_or_default()) else {
                    return refuse("item.content.audio", "item.content.audio is no base64");
                };
                let layout = format.input().map(|format| InputRequest {
                    encoding: format.encoding,
                    sample_rate_hz: format.rate.hz(),
                    channels: 1,
                });
                let audio = PartRequest::Audio {
                    layout: layout.unwrap_or_default(),
                    data: data.into(),
                };
                Ok((Some(audio), told))
            }
            (other, _) => refuse(
                "item.content.type",
                format!(
                    "item.content.type is {:?}, expected input_text or input_audio of the user, input_text of the system, \
                     output_text or output_audio of the assistant",
                    excerpt(other)
                ),
            ),
        }
    }
}

/// Has the service check a message.
pub(super) fn checked(
    role: Role,
    parts: Vec<PartRequest>,
    model: &ChatModel,
) -> Result<ChatMessage, ApiError> {
    let id = String::new();
    let message = model.message(MessageRequest { id, role, parts });
    Ok(message.map_err(|error| named(&error))?.message)
}

/// A function that is asked for.
pub(super) fn call_json(id: &str, call_id: &str, name: &str, arguments: &str, status: &str) -> Value {
    json!({
        "id": id, "object": "realtime.item", "type": "function_call", "status": status, "call_id": call_id, "name": name,
        "arguments": arguments,
    })
}

impl Item {
    fn new(id: String, told: Value, said: ChatMessage) -> Self {
        Self {
            id,
            told,
            said,
            is_call: false,
            unheard: false,
            spoken_ms: None,
            counted: false,
        }
    }

    /// What the user said; `clip` is missing where the model cannot hear.
    pub(super) fn recording(id: String, clip: Option<Part>) -> Self {
        let told = json!({
            "id": id, "object": "realtime.item", "type": "message", "status": "completed", "role": "user",
            "content": [{"type": "input_audio", "transcript": null}],
        });
        let unheard = clip.is_none();
        let said = ChatMessage {
            role: Role::User,
            parts: clip.into_iter().collect(),
        };
        Self {
            unheard,
            ..Self::new(id, told, said)
        }
    }

    /// An answer before its first word.
    pub(super) fn answer(id: String) -> Self {
        let told = json!({
            "id": id, "object": "realtime.item", "type": "message", "status": "in_progress", "role": "assistant",
            "content": [],
        });
        let said = ChatMessage {
            role: Role::Assistant,
            parts: Vec::new(),
        };
        Self {
            counted: true,
            ..Self::new(id, told, said)
        }
    }

    /// A function that the model asks for.
    pub(super) fn asked(id: String, call_id: &str, name: &str, arguments: &str) -> Self {
        let told = call_json(&id, call_id, name, arguments, "completed");
        let call = ToolPart::Call {
            name: name.into(),
            arguments: arguments.into(),
        };
        let said = ChatMessage {
            role: Role::Assistant,
            parts: vec![Part::Tool(call)],
        };
        Self {
            is_call: true,
            counted: true,
            ..Self::new(id, told, said)
        }
    }

    /// The answer says this, and has come to an end.
    pub(super) fn finish(&mut self, text: &str, spoken_ms: Option<u64>, status: &str) {
        self.told["status"] = json!(status);
        self.told["content"] = json!([content(text, spoken_ms.is_some())]);
        self.spoken_ms = spoken_ms;
        self.say(text);
    }

    /// Only this much of an answer was heard.
    pub(super) fn cut(&mut self, text: &str, heard_ms: u64) {
        self.told["content"] = json!([content(text, true)]);
        self.spoken_ms = Some(heard_ms);
        self.say(text);
    }

    fn say(&mut self, text: &str) {
        let text = (!text.is_empty()).then(|| Part::Text(text.into()));
        self.said.parts = text.into_iter().collect();
    }

    /// Its text, if it is an answer.
    pub(super) fn text(&self) -> &str {
        match self.said.parts.first() {
            Some(Part::Text(text)) => text,
            _ => "",
        }
    }

    /// Characters of it.
    pub(super) fn characters(&self) -> usize {
        let parts = self.said.parts.iter().map(|part| match part {
            Part::Text(text) => text.chars().count(),
            Part::Tool(tool) => tool.characters(),
            Part::Audio(_) => 0,
        });
        parts.sum()
    }
}

/// Content of an answer as an item has it.
fn content(text: &str, spoken: bool) -> Value {
    match spoken {
        true => json!({"type": "output_audio", "transcript": text}),
        false => json!({"type": "output_text", "text": text}),
    }
}
