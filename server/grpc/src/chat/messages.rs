//! `ChatMessage`s to requests.

use omni_core::error::ServeError;
use omni_family::Role;
use omni_proto::v1;
use omni_proto::v1::content_part::Part;
use omni_services::chat::audio::CLIP;
use omni_services::chat::{MESSAGE_PARTS, ROLE};
use omni_services::settings::invalid;
use omni_services::{MessageRequest, PartRequest};

use super::audio;

pub(super) fn requests(messages: Vec<v1::ChatMessage>) -> Result<Vec<MessageRequest>, ServeError> {
    messages.into_iter().map(request).collect()
}

pub(super) fn request(message: v1::ChatMessage) -> Result<MessageRequest, ServeError> {
    let role = match v1::Role::try_from(message.role) {
        Ok(v1::Role::System) => Role::System,
        Ok(v1::Role::User) => Role::User,
        Ok(v1::Role::Assistant) => Role::Assistant,
        Ok(v1::Role::Unspecified) | Err(_) => {
            let expected = "expected ROLE_SYSTEM, ROLE_USER or ROLE_ASSISTANT";
            return Err(invalid(ROLE, format!("is {}, {expected}", message.role)));
        }
    };
    let parts = message.parts.into_iter().map(part);
    Ok(MessageRequest {
        id: message.id,
        role,
        parts: parts.collect::<Result<_, _>>()?,
    })
}

fn part(content: v1::ContentPart) -> Result<PartRequest, ServeError> {
    Ok(match content.part {
        None => {
            let problem = "has a part that is neither text nor audio";
            return Err(invalid(MESSAGE_PARTS, problem));
        }
        Some(Part::Text(text)) => PartRequest::Text(text),
        Some(Part::Audio(clip)) => PartRequest::Audio {
            layout: audio::request(&clip.format.unwrap_or_default(), &CLIP)?,
            data: clip.data,
        },
        Some(Part::Tool(tool)) => PartRequest::Tool {
            name: tool.name,
            description: tool.description,
            parameters: tool.parameters,
        },
        Some(Part::ToolCall(call)) => PartRequest::ToolCall {
            name: call.name,
            arguments: call.arguments,
        },
        Some(Part::ToolResult(result)) => PartRequest::ToolResult(result.content),
    })
}
