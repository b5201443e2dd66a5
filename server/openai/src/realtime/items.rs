//! Items of a conversation: as they come, as the model reads them, and as the client sees them.

mod body;

use omni_family::{ChatMessage, Hearing, Part, Role, ToolPart};
use omni_services::{ChatModel, MessageRequest, PartRequest};
use serde_json::{Value, json};

pub(super) use self::body::ItemBody;
use super::settings::named;
use crate::error::ApiError;

/// Approximate bytes of a JSON object besides its fields.
const OBJECT: usize = 640;

/// An item.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Empty until it has an id.
    pub(super) id: String,
    /// The item as clients see it, without its audio.
    pub(super) told: Value,
    /// The item as the model reads it; without parts if there is nothing to read.
    pub(super) said: ChatMessage,
    /// `true` for a function call of the model.
    pub(super) is_call: bool,
    /// `true` for the user's speech to a model without audio input.
    pub(super) unheard: bool,
    /// Playing time of its audio in milliseconds, if the model spoke it.
    pub(super) spoken_ms: Option<u64>,
    /// `true` if an answer was requested since it came: its characters are paid for.
    pub(super) counted: bool,
}

/// Checks a message by the service.
pub(super) fn checked(
    role: Role,
    parts: Vec<PartRequest>,
    model: &ChatModel,
) -> Result<ChatMessage, ApiError> {
    let id = String::new();
    let message = model.message(MessageRequest { id, role, parts });
    Ok(message.map_err(|error| named(&error))?.message)
}

/// A function call as clients see it.
fn call_json(call_id: Option<&str>, name: &str, arguments: &str) -> Value {
    json!({
        "object": "realtime.item", "type": "function_call", "status": "completed", "call_id": call_id, "name": name,
        "arguments": arguments,
    })
}

/// Approximate bytes of memory of a JSON value besides its own size.
fn held(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(|value| size_of_val(value) + held(value)).sum(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| name.len() + held(value));
            OBJECT + fields.sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

impl Item {
    fn new(told: Value, said: ChatMessage) -> Self {
        Self {
            id: String::new(),
            told,
            said,
            is_call: false,
            unheard: false,
            spoken_ms: None,
            counted: false,
        }
    }

    /// Sets its id, and that of its call, derived from it, if that has none.
    pub(super) fn name(&mut self, id: String) {
        if self.is_call && self.told["call_id"].is_null() {
            self.told["call_id"] = json!(format!("call_{id}"));
        }
        self.told["id"] = json!(id);
        self.id = id;
    }

    fn named(mut self, id: String) -> Self {
        self.name(id);
        self
    }

    /// Recording of the user; `clip` is missing for a model without audio input.
    pub(super) fn recording(id: String, clip: Option<Part>) -> Self {
        let told = json!({
            "object": "realtime.item", "type": "message", "status": "completed", "role": "user",
            "content": [{"type": "input_audio", "transcript": null}],
        });
        let unheard = clip.is_none();
        let said = ChatMessage {
            role: Role::User,
            parts: clip.into_iter().collect(),
        };
        let item = Self::new(told, said);
        Self { unheard, ..item }.named(id)
    }

    /// An answer before its first text.
    pub(super) fn answer(id: String) -> Self {
        let told = json!({
            "object": "realtime.item", "type": "message", "status": "in_progress", "role": "assistant",
            "content": [],
        });
        let said = ChatMessage {
            role: Role::Assistant,
            parts: Vec::new(),
        };
        let item = Self::new(told, said);
        let counted = true;
        Self { counted, ..item }.named(id)
    }

    /// A function call of the model.
    pub(super) fn asked(id: String, call_id: &str, name: &str, arguments: &str) -> Self {
        let told = call_json(Some(call_id), name, arguments);
        let call = ToolPart::Call {
            name: name.into(),
            arguments: arguments.into(),
        };
        let said = ChatMessage {
            role: Role::Assistant,
            parts: vec![Part::Tool(call)],
        };
        let item = Self {
            is_call: true,
            counted: true,
            ..Self::new(told, said)
        };
        item.named(id)
    }

    /// The call without its arguments, as clients see it at its beginning.
    pub(super) fn begun(&self) -> Value {
        let mut told = self.told.clone();
        if self.is_call {
            told["status"] = json!("in_progress");
            told["arguments"] = json!("");
        }
        told
    }

    /// Ends the answer with this text.
    pub(super) fn finish(&mut self, text: &str, spoken_ms: Option<u64>, status: &str) {
        self.told["status"] = json!(status);
        self.told["content"] = json!([content(text, spoken_ms.is_some())]);
        self.spoken_ms = spoken_ms;
        self.say(text);
    }

    /// Cuts the answer to the part that was heard.
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

    /// Approximate bytes of memory: its form for clients, and its form for the model with embeddings.
    pub(super) fn size(&self, hearing: Option<Hearing>) -> usize {
        let parts = self.said.parts.iter().map(|part| {
            let content = match part {
                Part::Text(text) => text.len(),
                Part::Tool(tool) => tool.size(),
                Part::Audio(clip) => {
                    let samples = clip.samples();
                    let rows = hearing.map_or(0, |hearing| hearing.row_bytes(samples.len()));
                    size_of_val(samples) + rows
                }
            };
            size_of_val(part) + content
        });
        size_of_val(self) + self.id.len() + held(&self.told) + parts.sum::<usize>()
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
    if spoken {
        json!({"type": "output_audio", "transcript": text})
    } else {
        json!({"type": "output_text", "text": text})
    }
}
