//! What clients say.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::items::ItemBody;
use super::settings::SettingsPatch;
use crate::error::excerpt;
use crate::openai::error::ApiError;
use crate::openai::lean::BoundedVec;

/// Items that an answer is asked for with.
const INPUT: usize = 256;
/// Bounds of what a client attaches to a response.
const METADATA: usize = 16;
const METADATA_KEY: usize = 64;
const METADATA_VALUE: usize = 512;

/// The head of every event.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Head {
    #[serde(rename = "type", default)]
    kind: String,
    /// The client's name for it, by which errors refer to it.
    pub(super) event_id: Option<String>,
}

/// What a client asks for.
#[derive(Debug)]
pub(super) enum ClientEvent {
    UpdateSession(Box<SettingsPatch>),
    /// Audio, decoded from base64.
    Append(Vec<u8>),
    Commit,
    Clear,
    CreateItem {
        previous: Option<String>,
        item: Box<ItemBody>,
    },
    RetrieveItem(String),
    DeleteItem(String),
    TruncateItem(Truncation),
    CreateResponse {
        response: Box<ResponseBody>,
        settings: Box<SettingsPatch>,
    },
    CancelResponse {
        /// Which; the one in progress if unset.
        response: Option<String>,
    },
}

/// How much of an answer was heard.
#[derive(Debug, Deserialize)]
pub(super) struct Truncation {
    pub(super) item_id: String,
    pub(super) content_index: Option<u32>,
    pub(super) audio_end_ms: u64,
}

/// What `response.create` says besides settings.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResponseBody {
    pub(super) conversation: Option<String>,
    pub(super) input: Option<BoundedVec<ItemBody, INPUT>>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Update {
    session: SettingsPatch,
}

#[derive(Deserialize)]
struct Append<'a> {
    #[serde(borrow)]
    audio: std::borrow::Cow<'a, str>,
}

#[derive(Deserialize)]
struct CreateItem {
    previous_item_id: Option<String>,
    item: ItemBody,
}

#[derive(Deserialize)]
struct OfItem {
    item_id: String,
}

#[derive(Deserialize)]
struct CreateResponse<T> {
    response: Option<T>,
}

#[derive(Deserialize)]
struct CancelResponse {
    response_id: Option<String>,
}

/// Events that are taken.
const KNOWN: &str = "session.update, input_audio_buffer.append, input_audio_buffer.commit, input_audio_buffer.clear, \
                     conversation.item.create, conversation.item.retrieve, conversation.item.delete, \
                     conversation.item.truncate, response.create or response.cancel";

fn read<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    serde_json::from_str(text).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> ApiError {
    ApiError::coded("invalid_event", None, format!("the event: {error}"))
}

impl ClientEvent {
    /// Reads an event; the head is there whenever it could be read.
    pub(super) fn parse(text: &str) -> (Head, Result<Self, ApiError>) {
        match read::<Head>(text) {
            Ok(head) => {
                let event = Self::of(&head.kind, text);
                (head, event)
            }
            Err(error) => (Head::default(), Err(error)),
        }
    }

    fn of(kind: &str, text: &str) -> Result<Self, ApiError> {
        match kind {
            "session.update" => read(text).map(|Update { session }| Self::UpdateSession(Box::new(session))),
            "input_audio_buffer.append" => {
                let Append { audio } = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
                let audio = BASE64
                    .decode(audio.as_bytes())
                    .map_err(|_| ApiError::coded("invalid_value", Some("audio"), "audio is no base64"));
                audio.map(Self::Append)
            }
            "input_audio_buffer.commit" => Ok(Self::Commit),
            "input_audio_buffer.clear" => Ok(Self::Clear),
            "conversation.item.create" => read(text).map(|create: CreateItem| Self::CreateItem {
                previous: create.previous_item_id,
                item: Box::new(create.item),
            }),
            "conversation.item.retrieve" => read(text).map(|OfItem { item_id }| Self::RetrieveItem(item_id)),
            "conversation.item.delete" => read(text).map(|OfItem { item_id }| Self::DeleteItem(item_id)),
            "conversation.item.truncate" => read(text).map(Self::TruncateItem),
            "response.create" => {
                let response = read::<CreateResponse<ResponseBody>>(text)?
                    .response
                    .unwrap_or_default();
                response.check()?;
                // Read again instead of keeping what both have.
                let settings = read::<CreateResponse<SettingsPatch>>(text)?.response;
                Ok(Self::CreateResponse {
                    response: Box::new(response),
                    settings: Box::new(settings.unwrap_or_default()),
                })
            }
            "response.cancel" => read(text).map(|CancelResponse { response_id }| Self::CancelResponse {
                response: response_id,
            }),
            "output_audio_buffer.clear" => Err(ApiError::coded(
                "unsupported_event",
                Some("type"),
                "type is output_audio_buffer.clear, which is for WebRTC: the audio is in the client's own buffer, expected \
                 response.cancel and conversation.item.truncate",
            )),
            other => {
                let problem = format!("type is {:?}, expected {KNOWN}", excerpt(other));
                Err(ApiError::coded("unknown_event", Some("type"), problem))
            }
        }
    }
}

impl ResponseBody {
    fn check(&self) -> Result<(), ApiError> {
        let refuse = |param: &str, problem: String| Err(ApiError::invalid(Some(param), problem));
        if let Some(other) = &self.conversation
            && !matches!(other.as_str(), "auto" | "none")
        {
            let problem = format!(
                "response.conversation is {:?}, expected auto or none",
                excerpt(other)
            );
            return refuse("response.conversation", problem);
        }
        let Some(pairs) = &self.metadata else {
            return Ok(());
        };
        let long =
            |(key, value): (&String, &String)| key.len() > METADATA_KEY || value.len() > METADATA_VALUE;
        match pairs.len() > METADATA || pairs.iter().any(long) {
            true => refuse(
                "response.metadata",
                format!(
                    "response.metadata is too long, expected at most {METADATA} pairs, keys of {METADATA_KEY} bytes and values of \
                     {METADATA_VALUE}"
                ),
            ),
            false => Ok(()),
        }
    }
}

/// Takes any event.
pub(in crate::openai) fn take(text: &str) {
    let _ = ClientEvent::parse(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_told_why_and_by_its_name() {
        for (text, code, param) in [
            ("", "invalid_event", None),
            ("[]", "invalid_event", None),
            (r#"{"type":"smoke"}"#, "unknown_event", Some("type")),
            (r#"{"type":"session.update"}"#, "invalid_event", None),
            (
                r#"{"type":"input_audio_buffer.append","audio":"&"}"#,
                "invalid_value",
                Some("audio"),
            ),
            (
                r#"{"type":"output_audio_buffer.clear"}"#,
                "unsupported_event",
                Some("type"),
            ),
            (
                r#"{"type":"response.create","response":{"conversation":"conv_1"}}"#,
                "invalid_field",
                Some("response.conversation"),
            ),
        ] {
            let (_, event) = ClientEvent::parse(text);
            let told = event.unwrap_err().json();
            assert_eq!(
                (told["code"].as_str(), told["param"].as_str()),
                (Some(code), param),
                "{text}"
            );
        }
        let (head, _) = ClientEvent::parse(r#"{"event_id":"e1","type":"smoke"}"#);
        assert_eq!(head.event_id.as_deref(), Some("e1"));
    }

    #[test]
    fn what_clients_leave_out_is_left_out() {
        for text in [
            r#"{"type":"response.create"}"#,
            r#"{"type":"response.create","response":null}"#,
            r#"{"type":"response.create","response":{"output_modalities":["text"],"instructions":null}}"#,
            r#"{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}"#,
            r#"{"type":"response.cancel"}"#,
            r#"{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[]}}"#,
        ] {
            assert!(ClientEvent::parse(text).1.is_ok(), "{text}");
        }
    }
}
