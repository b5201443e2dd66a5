//! Items as clients send them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_core::error::excerpt;
use omni_family::{ChatMessage, Role};
use omni_services::chat::audio::InputRequest;
use omni_services::{ChatModel, OtherPart, PartRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Item, call_json, checked};
use crate::error::ApiError;
use crate::lean::BoundedVec;
use crate::realtime::formats::AudioFormat;

/// Longest list of parts, and longest id of an item or of a call in bytes.
const PARTS: usize = 64;
const MAX_ID: usize = 128;

/// An item as a client sends it.
#[derive(Debug, Deserialize)]
pub(in crate::realtime) struct ItemBody {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
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

fn refuse<T>(param: &str, problem: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::invalid(Some(param), problem))
}

/// Checks the length of an id that the conversation keeps.
fn bounded(param: &str, name: Option<String>) -> Result<Option<String>, ApiError> {
    match &name {
        Some(name) if name.len() > MAX_ID => {
            let problem = format!("{param} has {} bytes; expected at most {MAX_ID}", name.len());
            refuse(param, problem)
        }
        _ => Ok(name.filter(|name| !name.is_empty())),
    }
}

impl ItemBody {
    /// Id of the item that it only refers to.
    pub(in crate::realtime) fn reference(&self) -> Option<&str> {
        let refers = self.kind.as_deref() == Some("item_reference");
        self.id.as_deref().filter(|_| refers)
    }

    /// Checks it and decodes its recordings, which are in `format`. An item without an id of the client has none yet.
    pub(in crate::realtime) fn item(
        mut self,
        format: AudioFormat,
        model: &ChatModel,
    ) -> Result<Item, ApiError> {
        let id = bounded("item.id", self.id.take())?;
        let mut item = match self.kind.as_deref() {
            Some("message") | None => self.message(format, model),
            Some("function_call") => self.call(model),
            Some("function_call_output") => self.output(model),
            Some(other) => refuse(
                "item.type",
                format!(
                    "unsupported item.type '{}'; expected message, function_call or function_call_output",
                    excerpt(other)
                ),
            ),
        }?;
        if let Some(id) = id {
            item.name(id);
        }
        Ok(item)
    }

    fn message(self, format: AudioFormat, model: &ChatModel) -> Result<Item, ApiError> {
        let role = match self.role.as_deref() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("system" | "developer") => Role::System,
            other => {
                let other = excerpt(other.unwrap_or_default());
                let problem = format!("unsupported item.role '{other}'; expected user, assistant or system");
                return refuse("item.role", problem);
            }
        };
        let content = self.content.unwrap_or_default().0;
        let mut told = Vec::with_capacity(content.len());
        let mut parts = Vec::with_capacity(content.len());
        for part in content {
            let (one, shown) = part.part(role, format, model)?;
            told.push(shown);
            parts.extend(one);
        }
        let said = match parts.is_empty() {
            // An answer of which nothing was heard comes so, and a turn without text.
            true if !told.is_empty() => ChatMessage {
                role,
                parts: Vec::new(),
            },
            _ => checked(role, parts, model)?,
        };
        let role = self.role.unwrap_or_default();
        let told = json!({
            "object": "realtime.item", "type": "message", "status": "completed", "role": role, "content": told,
        });
        Ok(Item::new(told, said))
    }

    fn call(self, model: &ChatModel) -> Result<Item, ApiError> {
        let call_id = bounded("item.call_id", self.call_id)?;
        let name = self.name.unwrap_or_default();
        let arguments = self.arguments.unwrap_or_default();
        let call = PartRequest::ToolCall {
            name: name.clone(),
            arguments: arguments.clone(),
        };
        let said = checked(Role::Assistant, vec![call], model)?;
        let told = call_json(call_id.as_deref(), &name, &arguments);
        Ok(Item {
            is_call: true,
            ..Item::new(told, said)
        })
    }

    fn output(self, model: &ChatModel) -> Result<Item, ApiError> {
        let Some(call_id) = bounded("item.call_id", self.call_id)? else {
            return refuse(
                "item.call_id",
                "missing item.call_id; expected that of the function_call",
            );
        };
        let output = self.output.unwrap_or_default();
        let result = PartRequest::ToolResult(output.clone());
        let said = checked(Role::User, vec![result], model)?;
        let told = json!({
            "object": "realtime.item", "type": "function_call_output", "status": "completed", "call_id": call_id,
            "output": output,
        });
        Ok(Item::new(told, said))
    }
}

impl ContentBody {
    /// The part as the model reads it, and as clients see it.
    fn part(
        self,
        role: Role,
        format: AudioFormat,
        model: &ChatModel,
    ) -> Result<(Option<PartRequest>, Value), ApiError> {
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
                    return refuse("item.content.audio", "item.content.audio is not base64");
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
            (other, _) => match OtherPart::named(other) {
                OtherPart::Unknown(_) | OtherPart::AudioAddress => {
                    let heard = model.chat.hearing.map_or("", |_| " or input_audio");
                    let problem = format!(
                        "unsupported item.content.type '{}'; expected input_text{heard} of the user, input_text of the system, \
                         output_text or output_audio of the assistant",
                        excerpt(other)
                    );
                    refuse("item.content.type", problem)
                }
                lacked => {
                    let param = "item.content.type";
                    refuse(param, lacked.refused(model).message_about(param))
                }
            },
        }
    }
}
