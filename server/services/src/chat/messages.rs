//! Messages of a conversation, checked.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use omni_audio::Samples;
use omni_core::error::{ErrorKind, ServeError};
use omni_family::{AudioInputError, ChatMessage, Part, Role, ToolPart};
use omni_json::repaired_text;
use omni_pipeline::request::Clip;
use omni_session::{IgnoredField, NewMessage, shortened};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::ChatModel;
use super::audio::{InputRequest, clip};
use super::other::OtherPart;
use crate::settings::{hint, invalid};

/// A message as a caller sends it.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageRequest {
    /// The caller's name for it; empty for none.
    pub id: String,
    pub role: Role,
    pub parts: Vec<PartRequest>,
}

/// A part of a message as a caller sends it.
#[derive(Debug, Clone, PartialEq)]
pub enum PartRequest {
    Text(String),
    /// A recording, encoded.
    Audio {
        layout: InputRequest,
        data: Bytes,
    },
    /// A tool that the model may call; its parameters are a JSON schema.
    Tool {
        name: String,
        description: String,
        parameters: String,
    },
    /// The model called a tool with a JSON object.
    ToolCall {
        name: String,
        arguments: String,
    },
    ToolResult(String),
    /// Part that no model takes, or not in this form.
    Other(OtherPart),
}

impl PartRequest {
    /// Bytes of its recording.
    pub(super) fn recorded(&self) -> usize {
        match self {
            Self::Audio { data, .. } => data.len(),
            _ => 0,
        }
    }

    /// Returns true if it is the result of a function.
    pub(super) fn is_result(&self) -> bool {
        matches!(self, Self::ToolResult(_))
    }

    /// Field of a part about functions, for errors.
    fn tool(&self) -> Option<&'static str> {
        match self {
            Self::Tool { .. } => Some(TOOL),
            Self::ToolCall { .. } => Some(TOOL_CALL),
            Self::ToolResult(_) => Some(TOOL_RESULT),
            Self::Text(_) | Self::Audio { .. } | Self::Other(_) => None,
        }
    }

    /// Returns true if a conversation can do without it: a recording, an image or the like, or a malformed call of a
    /// model.
    fn is_dispensable(&self) -> bool {
        matches!(self, Self::Audio { .. } | Self::Other(_) | Self::ToolCall { .. })
    }
}

/// Fields of messages in errors of the protocols.
pub const MESSAGE_PARTS: &str = "message.parts";
pub const ROLE: &str = "message.role";

/// Most parts of one message.
const MAX_PARTS: usize = 64;
/// Most tools of a conversation, and most bytes of all of them.
const MAX_TOOLS: usize = 128;
const MAX_TOOL_BYTES: usize = 256 << 10;

/// Fields of messages about functions.
const TOOL: &str = "message.parts.tool";
const TOOL_CALL: &str = "message.parts.tool_call";
const TOOL_RESULT: &str = "message.parts.tool_result";

/// Removes the tools from a message to a model that calls none: refused if the server is strict, else one more
/// `ignored` field. Returns true if anything is left.
pub(super) fn without_tools(
    message: &mut MessageRequest,
    known: &ChatModel,
    ignored: &mut Vec<IgnoredField>,
) -> Result<bool, ServeError> {
    let said = message.parts.len();
    if known.chat.tools {
        return Ok(true);
    }
    for field in [TOOL, TOOL_CALL, TOOL_RESULT] {
        let known_already = ignored.iter().any(|one| one.field == field);
        if !known_already && message.parts.iter().any(|part| part.tool() == Some(field)) {
            hint(field, NO_TOOLS, known.speech.terms.strict, ignored)?;
        }
    }
    message.parts.retain(|part| part.tool().is_none());
    // A message that was empty before is refused elsewhere.
    Ok(said == 0 || !message.parts.is_empty())
}

const NO_TOOLS: &str = "this model calls no tools";

/// Length to which each of these texts must be cut for all of them to have at most `most` bytes.
fn longest(mut lengths: Vec<usize>, most: usize) -> usize {
    lengths.sort_unstable();
    let mut left = most;
    for (at, length) in lengths.iter().enumerate() {
        let share = left / (lengths.len() - at);
        if *length > share {
            return share;
        }
        left -= length;
    }
    most
}

/// Cuts the longest texts of a message that has more than `most` bytes of text; returns the number of characters
/// removed.
pub(super) fn shorten(message: &mut MessageRequest, most: usize) -> usize {
    let lengths = message.parts.iter().filter_map(|part| match part {
        PartRequest::Text(text) | PartRequest::ToolResult(text) => Some(text.len()),
        _ => None,
    });
    let limit = longest(lengths.collect(), most);
    let mut cut = 0;
    for part in &mut message.parts {
        let (PartRequest::Text(text) | PartRequest::ToolResult(text)) = part else {
            continue;
        };
        if text.len() > limit {
            let shorter = shortened(text, limit);
            // The mark of a cut may have more characters than the removed text.
            cut += text
                .chars()
                .count()
                .saturating_sub(shorter.chars().count())
                .max(1);
            *text = shorter;
        }
    }
    if cut > 0 {
        message
            .parts
            .retain(|part| !matches!(part, PartRequest::Text(text) if text.is_empty()));
    }
    cut
}

/// Checks a message from before the user's last one: recordings, images and the like that the model does not take are
/// left out, and so are malformed calls, and the message if nothing else is in it.
pub(super) fn earlier(
    message: MessageRequest,
    known: &ChatModel,
    ignored: &mut Vec<IgnoredField>,
) -> Result<Option<NewMessage>, ServeError> {
    let strict = known.speech.terms.strict;
    let checked = checked(message, known, &mut |error| {
        if strict {
            Err(error)
        } else {
            let field = error.field().unwrap_or(MESSAGE_PARTS);
            if !ignored.iter().any(|one| one.field == field) {
                let problem = error.message_about("");
                let problem = problem.trim_start_matches([':', ' ']).to_owned();
                ignored.push(IgnoredField { field, problem });
            }
            Ok(())
        }
    })?;
    Ok((!checked.message.parts.is_empty()).then_some(checked))
}

/// Checks a message; the session adds it to the conversation.
pub(super) fn message(message: MessageRequest, known: &ChatModel) -> Result<NewMessage, ServeError> {
    checked(message, known, &mut Err)
}

/// Checks a message. `refused` decides on parts that are refused and dispensable: they are left out unless it returns
/// an error.
fn checked(
    message: MessageRequest,
    known: &ChatModel,
    refused: &mut dyn FnMut(ServeError) -> Result<(), ServeError>,
) -> Result<NewMessage, ServeError> {
    let role = message.role;
    let tools = message.parts.iter().filter_map(|part| match part {
        PartRequest::Tool {
            name,
            description,
            parameters,
        } => Some(name.len() + description.len() + parameters.len()),
        _ => None,
    });
    let (tools, bytes) = tools.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size));
    if tools > MAX_TOOLS || bytes > MAX_TOOL_BYTES {
        return Err(invalid(
            TOOL,
            format!(
                "there are {tools} of {bytes} bytes; expected at most {MAX_TOOLS} of {MAX_TOOL_BYTES} bytes"
            ),
        ));
    }
    let count = message.parts.len();
    if count == 0 || count - tools > MAX_PARTS {
        return Err(invalid(
            MESSAGE_PARTS,
            format!("has {count} parts; expected 1 to {MAX_PARTS}"),
        ));
    }
    let text = message.parts.iter().map(|part| match part {
        PartRequest::Text(text) => text.len(),
        PartRequest::ToolResult(content) => content.len(),
        // Checked one by one: a long one is left out of a history.
        PartRequest::ToolCall { .. } => 0,
        PartRequest::Audio { .. } | PartRequest::Tool { .. } | PartRequest::Other(_) => 0,
    });
    check_text("message.parts.text", text.sum(), known)?;
    // Samples left for the next clip, of the limit for all of them: no more is decoded than is accepted.
    let hearing = known.chat.hearing;
    let mut left = hearing.map(|hearing| hearing.sample_rate.samples(hearing.max_audio));
    let mut parts = Vec::with_capacity(count);
    for content in message.parts {
        let is_dispensable = content.is_dispensable();
        let part = match part(content, role, known, left.unwrap_or_default()) {
            Ok(part) => part,
            Err(error) if is_dispensable => {
                refused(error)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        if let (Part::Audio(clip), Some(left)) = (&part, &mut left) {
            *left = Samples(left.0.saturating_sub(clip.samples().len() as u64));
        }
        parts.push(part);
    }
    Ok(NewMessage {
        id: message.id,
        message: ChatMessage { role, parts },
    })
}

/// A part, whose audio has at most `left` samples.
fn part(part: PartRequest, role: Role, known: &ChatModel, left: Samples) -> Result<Part, ServeError> {
    match part {
        PartRequest::Text(text) if text.is_empty() => Err(invalid("message.parts.text", "is empty")),
        PartRequest::Text(text) => Ok(Part::Text(text.into())),
        PartRequest::Audio { layout, data } => {
            let field = "message.parts.audio";
            if role != Role::User {
                return Err(invalid(field, "is not said by ROLE_USER; expected text"));
            }
            let hearing = known
                .chat
                .hearing
                .ok_or(AudioInputError::NotSupported { field })?;
            Ok(Part::Audio(Clip::new(clip(&layout, &data, hearing, left)?)))
        }
        PartRequest::Tool {
            name,
            description,
            parameters,
        } => {
            said_by(role, Role::System, TOOL, "ROLE_SYSTEM", known)?;
            offer(&name, &description, &parameters).map(|json| Part::Tool(ToolPart::Offer(json.into())))
        }
        PartRequest::ToolCall { name, arguments } => {
            said_by(role, Role::Assistant, TOOL_CALL, "ROLE_ASSISTANT", known)?;
            named(&name, TOOL_CALL)?;
            check_text(TOOL_CALL, name.len() + arguments.len(), known)?;
            Ok(Part::Tool(ToolPart::Call {
                arguments: object(&arguments, TOOL_CALL)?.into(),
                name: name.into(),
            }))
        }
        PartRequest::ToolResult(content) => {
            said_by(role, Role::User, TOOL_RESULT, "ROLE_USER", known)?;
            Ok(Part::Tool(ToolPart::Result(content.into())))
        }
        PartRequest::Other(other) => Err(other.refused(known)),
    }
}

fn said_by(
    got: Role,
    expected: Role,
    field: &'static str,
    name: &str,
    known: &ChatModel,
) -> Result<(), ServeError> {
    if !known.chat.tools {
        return Err(invalid(field, format!("{NO_TOOLS}; expected text")));
    }
    if got == expected {
        Ok(())
    } else {
        Err(invalid(field, format!("is not said by {name}; expected text")))
    }
}

fn named(name: &str, field: &'static str) -> Result<(), ServeError> {
    if name.is_empty() {
        Err(invalid(field, "has no name"))
    } else {
        Ok(())
    }
}

/// A tool as templates print it, fields in the order in which models were trained to read them.
fn offer(name: &str, description: &str, parameters: &str) -> Result<String, ServeError> {
    named(name, TOOL)?;
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let mut function = format!("\"name\": {}", text(name));
    if !description.is_empty() {
        function += &format!(", \"description\": {}", text(description));
    }
    function += &format!(", \"parameters\": {}", object(parameters, TOOL)?);
    Ok(format!(
        "{{\"type\": \"function\", \"function\": {{{function}}}}}"
    ))
}

/// Any JSON object; its content is discarded.
struct Object;

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self)
    }
}

impl<'de> Visitor<'de> for Object {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self)
    }
}

/// A JSON object as it was written, except for unpaired surrogates; an empty text is an empty object.
fn object<'a>(json: &'a str, field: &'static str) -> Result<Cow<'a, str>, ServeError> {
    if json.trim().is_empty() {
        return Ok("{}".into());
    }
    let json = repaired_text(json);
    match serde_json::from_str::<Object>(&json) {
        Ok(_) => Ok(json),
        // Such errors quote the caller's text, which must not be logged.
        Err(error) if error.is_data() => Err(invalid(field, "is JSON, but no object")),
        Err(error) => Err(invalid(field, format!("is no JSON object: {error}"))),
    }
}

/// A message has more text than is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} has {got} bytes of text, the limit is {limit}")]
struct TextTooLong {
    field: &'static str,
    got: usize,
    limit: usize,
}

impl From<TextTooLong> for ServeError {
    fn from(error: TextTooLong) -> Self {
        Self::new(ErrorKind::InvalidArgument, "TEXT_TOO_LONG", error.to_string())
            .about(error.field)
            .with_got(error.got)
            .with_limit(error.limit)
    }
}

/// Checks the length of a text in bytes.
pub(super) fn check_text(field: &'static str, got: usize, known: &ChatModel) -> Result<(), ServeError> {
    let limit = known.limits.max_text_bytes;
    if got > limit {
        Err(TextTooLong { field, got, limit }.into())
    } else {
        Ok(())
    }
}
