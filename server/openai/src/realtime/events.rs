//! Events of clients.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_core::error::excerpt;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::hints;
use super::items::{Item, ItemBody};
use super::settings::SettingsPatch;
use crate::error::ApiError;
use crate::lean::BoundedVec;
use crate::unknown;

/// Most items of a response's own input.
const INPUT: usize = 256;
/// Bounds of the metadata of a response.
const METADATA: usize = 16;
const METADATA_KEY: usize = 64;
const METADATA_VALUE: usize = 512;

/// The head of every event.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Head {
    #[serde(rename = "type", default)]
    kind: String,
    /// The client's id for it, by which errors refer to it.
    pub(super) event_id: Option<String>,
}

/// An event, checked as far as possible without its session.
#[derive(Debug)]
pub(super) enum ClientEvent {
    UpdateSession(Box<SettingsPatch>),
    /// Audio, decoded from base64.
    Append(Vec<u8>),
    Commit,
    Clear,
    CreateItem {
        previous: Option<String>,
        item: Box<Item>,
    },
    RetrieveItem(String),
    DeleteItem(String),
    TruncateItem(Truncation),
    CreateResponse(Box<ResponseRequest>),
    CancelResponse {
        /// Id of the response; the one in progress if unset.
        response: Option<String>,
    },
}

/// Length of an answer that was heard.
#[derive(Debug, Deserialize)]
pub(super) struct Truncation {
    pub(super) item_id: String,
    pub(super) content_index: Option<u32>,
    pub(super) audio_end_ms: u64,
}

/// A response that is asked for.
#[derive(Debug, Default)]
pub(super) struct ResponseRequest {
    /// `true` outside of the conversation: its items are not added to that.
    pub(super) beside: bool,
    /// Items to answer instead of the conversation.
    pub(super) input: Option<Vec<InputItem>>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    /// Settings of this response alone.
    pub(super) settings: SettingsPatch,
}

/// An item to answer.
#[derive(Debug)]
pub(super) enum InputItem {
    /// Id of an item of the conversation.
    Reference(String),
    Item(Item),
}

/// `response.create` besides its settings.
#[derive(Debug, Default, Deserialize)]
struct ResponseBody {
    conversation: Option<String>,
    input: Option<BoundedVec<ItemBody, INPUT>>,
    metadata: Option<BTreeMap<String, String>>,
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

/// Supported events.
const KNOWN: &str = "session.update, input_audio_buffer.append, input_audio_buffer.commit, input_audio_buffer.clear, \
                     conversation.item.create, conversation.item.retrieve, conversation.item.delete, \
                     conversation.item.truncate, response.create or response.cancel";

fn read<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    omni_json::read(text.as_bytes()).map_err(|error| unreadable(&error))
}

/// The same with the names of unknown fields.
fn read_noting<T: DeserializeOwned>(text: &str) -> Result<(T, Vec<String>), ApiError> {
    unknown::read(text.as_bytes()).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> ApiError {
    let problem = format!("invalid event: {}", omni_json::problem(error));
    ApiError::coded("invalid_event", None, problem)
}

/// Converts an item of a client, which may take the time to decode a recording.
pub(super) type ReadItem<'a> = &'a dyn Fn(ItemBody) -> Result<Item, ApiError>;

impl ClientEvent {
    /// Parses an event; the head is returned whenever it could be read.
    pub(super) fn parse(text: &str, item: ReadItem<'_>) -> (Head, Result<Self, ApiError>) {
        match read::<Head>(text) {
            Ok(head) => {
                let event = Self::of(&head.kind, text, item);
                (head, event)
            }
            Err(error) => (Head::default(), Err(error)),
        }
    }

    fn of(kind: &str, text: &str, read_item: ReadItem<'_>) -> Result<Self, ApiError> {
        match kind {
            "session.update" => {
                let (Update { mut session }, names) = read_noting(text)?;
                session.unknown = hints::settings(names, "session");
                Ok(Self::UpdateSession(Box::new(session)))
            }
            "input_audio_buffer.append" => {
                let Append { audio } = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
                let audio = BASE64.decode(audio.as_bytes()).map_err(|error| {
                    let problem = format!("invalid audio: {error}; expected base64");
                    ApiError::coded("invalid_value", Some("audio"), problem)
                });
                audio.map(Self::Append)
            }
            "input_audio_buffer.commit" => Ok(Self::Commit),
            "input_audio_buffer.clear" => Ok(Self::Clear),
            "conversation.item.create" => {
                let create: CreateItem = read(text)?;
                Ok(Self::CreateItem {
                    previous: create.previous_item_id,
                    item: Box::new(read_item(create.item)?),
                })
            }
            "conversation.item.retrieve" => read(text).map(|OfItem { item_id }| Self::RetrieveItem(item_id)),
            "conversation.item.delete" => read(text).map(|OfItem { item_id }| Self::DeleteItem(item_id)),
            "conversation.item.truncate" => read(text).map(Self::TruncateItem),
            "response.create" => {
                let (body, others) = read_noting::<CreateResponse<ResponseBody>>(text)?;
                // Parsed again instead of keeping the fields that both have.
                let (patch, mut names) = read_noting::<CreateResponse<SettingsPatch>>(text)?;
                names.retain(|name| others.iter().any(|other| unknown::is_within(name, other)));
                let asked = body.response.unwrap_or_default().checked(read_item)?;
                let mut settings = patch.response.unwrap_or_default();
                settings.unknown = hints::settings(names, "response");
                Ok(Self::CreateResponse(Box::new(ResponseRequest {
                    settings,
                    ..asked
                })))
            }
            "response.cancel" => read(text).map(|CancelResponse { response_id }| Self::CancelResponse {
                response: response_id,
            }),
            "output_audio_buffer.clear" => Err(ApiError::coded(
                "unsupported_event",
                Some("type"),
                "unsupported type 'output_audio_buffer.clear', which is for WebRTC: the audio is in the client's own buffer; expected \
                 response.cancel and conversation.item.truncate",
            )),
            other => {
                let problem = format!("unknown type '{}'; expected {KNOWN}", excerpt(other));
                Err(ApiError::coded("unknown_event", Some("type"), problem))
            }
        }
    }
}

impl ResponseBody {
    /// Checks it, without its settings.
    fn checked(self, read_item: ReadItem<'_>) -> Result<ResponseRequest, ApiError> {
        let refuse = |param: &str, problem: String| Err(ApiError::invalid(Some(param), problem));
        let beside = match self.conversation.as_deref() {
            None | Some("auto") => false,
            Some("none") => true,
            Some(other) => {
                let param = "response.conversation";
                let other = excerpt(other);
                return refuse(
                    param,
                    format!("unsupported {param} '{other}'; expected auto or none"),
                );
            }
        };
        let long =
            |(key, value): (&String, &String)| key.len() > METADATA_KEY || value.len() > METADATA_VALUE;
        let pairs = self.metadata.iter().flatten();
        let count = pairs.clone().count();
        let is_long = pairs.clone().any(long);
        if count > METADATA || is_long {
            let param = "response.metadata";
            return refuse(
                param,
                format!(
                    "{param} is too long; expected at most {METADATA} pairs, keys of {METADATA_KEY} bytes and values of \
                     {METADATA_VALUE}"
                ),
            );
        }
        let input = self.input.map(|BoundedVec(items)| {
            let items = items.into_iter().map(|item| match item.reference() {
                Some(id) => Ok(InputItem::Reference(id.to_owned())),
                None => read_item(item).map(InputItem::Item),
            });
            items.collect::<Result<_, ApiError>>()
        });
        Ok(ResponseRequest {
            beside,
            input: input.transpose()?,
            metadata: self.metadata,
            settings: SettingsPatch::default(),
        })
    }
}

/// Parses any event; for tests. Its items are read, and not checked against a model.
pub(crate) fn take(text: &str) {
    let _ = ClientEvent::parse(text, &|_| {
        Err(ApiError::invalid(Some("item"), "item is not checked here"))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Head, Result<ClientEvent, ApiError>) {
        ClientEvent::parse(text, &|_| Ok(Item::answer("item".to_owned())))
    }

    #[test]
    fn what_cannot_be_read_is_told_why_and_by_its_name() {
        for (text, code, param) in [
            ("", "invalid_event", None),
            ("[]", "invalid_event", None),
            (r#"{"type":"smoke"}"#, "unknown_event", Some("type")),
            (r#"{"type":"session.update"}"#, "invalid_event", None),
            (r#"{"type":["response.create"]}"#, "invalid_event", None),
            (r#"{"type":"response.smoke"}"#, "unknown_event", Some("type")),
            (
                r#"{"type":"conversation.item.smoke"}"#,
                "unknown_event",
                Some("type"),
            ),
            (
                r#"{"type":"input_audio_buffer.smoke"}"#,
                "unknown_event",
                Some("type"),
            ),
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
            let (_, event) = parse(text);
            let told = event.unwrap_err().json();
            assert_eq!(
                (told["code"].as_str(), told["param"].as_str()),
                (Some(code), param),
                "{text}"
            );
        }
        let (head, _) = parse(r#"{"event_id":"e1","type":"smoke"}"#);
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
            assert!(parse(text).1.is_ok(), "{text}");
        }
    }
}
