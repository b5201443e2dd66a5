//! `ChatMessage`s, checked.

use omni_audio::Samples;
use omni_proto::v1;
use omni_proto::v1::content_part::Part as Wire;

use super::Known;
use super::audio;
use crate::error::ServeError;
use crate::grpc::settings::invalid;
use crate::session::NewMessage;
use crate::stage::{ChatMessage, Clip, Part, Role};

/// Parts of one message.
const MAX_PARTS: usize = 64;

/// Checks a message; what the conversation makes of it is the session's business.
pub(super) fn message(message: v1::ChatMessage, known: &Known) -> Result<NewMessage, ServeError> {
    let role = match v1::Role::try_from(message.role) {
        Ok(v1::Role::System) => Role::System,
        Ok(v1::Role::User) => Role::User,
        Ok(v1::Role::Assistant) => Role::Assistant,
        Ok(v1::Role::Unspecified) | Err(_) => {
            return Err(invalid(
                "message.role",
                format!(
                    "is {}, expected ROLE_SYSTEM, ROLE_USER or ROLE_ASSISTANT",
                    message.role
                ),
            ));
        }
    };
    let count = message.parts.len();
    if count == 0 || count > MAX_PARTS {
        return Err(invalid(
            "message.parts",
            format!("has {count} parts, expected 1 to {MAX_PARTS}"),
        ));
    }
    let text = message.parts.iter().map(|content| match &content.part {
        Some(Wire::Text(text)) => text.len(),
        _ => 0,
    });
    check_text("message.parts.text", text.sum(), known)?;
    // Of what all of its clips may have, so much is left for the next: no more is decoded than is taken.
    let hearing = known.chat.hearing;
    let mut left = hearing.map(|hearing| hearing.sample_rate.samples(hearing.max_audio));
    let mut parts = Vec::with_capacity(count);
    for content in message.parts {
        let part = part(content, role, known, left.unwrap_or_default())?;
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
fn part(content: v1::ContentPart, role: Role, known: &Known, left: Samples) -> Result<Part, ServeError> {
    match content.part {
        None => Err(invalid(
            "message.parts",
            "has a part that is neither text nor audio",
        )),
        Some(Wire::Text(text)) if text.is_empty() => Err(invalid("message.parts.text", "is empty")),
        Some(Wire::Text(text)) => Ok(Part::Text(text.into())),
        Some(Wire::Audio(clip)) => {
            let field = "message.parts.audio";
            if role != Role::User {
                return Err(invalid(field, "is not said by ROLE_USER, expected text"));
            }
            let hearing = known.chat.hearing.ok_or(ServeError::CannotHear { field })?;
            Ok(Part::Audio(Clip::new(audio::clip(&clip, hearing, left)?)))
        }
    }
}

/// Checks the length of a text in bytes.
pub(super) fn check_text(field: &'static str, got: usize, known: &Known) -> Result<(), ServeError> {
    let limit = known.limits.max_text_bytes;
    match got > limit {
        true => Err(ServeError::MessageTooLong { field, got, limit }),
        false => Ok(()),
    }
}
