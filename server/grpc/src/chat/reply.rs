//! Events to response messages.

use omni_family::Role;
use omni_proto::v1;
use omni_proto::v1::{content_part, converse_response, generate_response};
use omni_services::ChatModel;
use omni_session::{
    ChatEvent, ChatEventBody, ChatReady, Outcome, ResponseDone, Said, TurnTimings, TurnUsage,
};
use tonic::Status;

use super::settings::{limits, resolved};
use crate::outcome::{finish_reason, stage, warnings, wire};
use crate::reply::{chunk, warning};
use crate::status::{rpc_status, status};

/// A message of `Converse`.
pub(super) fn converse(event: ChatEvent, seq: u64, known: &ChatModel) -> v1::ConverseResponse {
    use converse_response::Event as E;
    let body = match event.body {
        ChatEventBody::Ready(ready) => E::Ready(self::ready(&ready, known)),
        ChatEventBody::MessageAdded { id, role, audio } => E::MessageAdded(v1::MessageAdded {
            message: Some(message(id.as_str(), role, "")),
            audio_duration: audio.and_then(wire),
        }),
        ChatEventBody::Started => E::ResponseStarted(v1::ResponseStarted {}),
        ChatEventBody::Text(text) => E::Text(v1::TextDelta { text }),
        ChatEventBody::Audio(audio) => E::Audio(chunk(audio)),
        ChatEventBody::Done(done) => E::ResponseDone(self::done(&done)),
        ChatEventBody::Warning { reason, message } => E::Warning(warning(reason, message)),
        ChatEventBody::Cut(said) => E::MessageCut(v1::MessageCut {
            message: Some(self::said(&said)),
        }),
    };
    v1::ConverseResponse {
        seq,
        response_id: event
            .response
            .map(|id| id.as_str().to_owned())
            .unwrap_or_default(),
        event: Some(body),
    }
}

/// A message of `Generate`, where a failed answer is a failed call; `None` for an event without a message there.
pub(super) fn generate(event: ChatEvent, known: &ChatModel) -> Option<Result<v1::GenerateResponse, Status>> {
    use generate_response::Event as E;
    let body = match event.body {
        ChatEventBody::Started | ChatEventBody::MessageAdded { .. } | ChatEventBody::Cut(_) => return None,
        ChatEventBody::Ready(ready) => E::Ready(self::ready(&ready, known)),
        ChatEventBody::Text(text) => E::Text(v1::TextDelta { text }),
        ChatEventBody::Audio(audio) => E::Audio(chunk(audio)),
        ChatEventBody::Warning { reason, message } => E::Warning(warning(reason, message)),
        ChatEventBody::Done(done) => match (&done.error, done.outcome) {
            (Some(error), Outcome::Error) => return Some(Err(status(error))),
            _ => E::Done(self::done(&done)),
        },
    };
    Some(Ok(v1::GenerateResponse { event: Some(body) }))
}

fn ready(ready: &ChatReady, known: &ChatModel) -> v1::ChatSessionReady {
    v1::ChatSessionReady {
        session_id: ready.session.to_string(),
        resolved: Some(resolved(&ready.settings, known)),
        limits: Some(limits(known)),
    }
}

fn done(done: &ResponseDone) -> v1::ResponseDone {
    let outcome = v1::Outcome {
        finish_reason: finish_reason(done.outcome).into(),
        usage: Some(usage(&done.usage)),
        timings: Some(timings(&done.timings)),
        error: done.error.as_ref().map(rpc_status),
        seed: Some(done.seed),
        warnings: warnings(&done.warnings),
    };
    v1::ResponseDone {
        outcome: Some(outcome),
        message: Some(said(&done.said)),
    }
}

fn usage(usage: &TurnUsage) -> v1::Usage {
    v1::Usage {
        input_characters: usage.characters,
        input_text_tokens: usage.prompt_tokens,
        input_audio_tokens: usage.prompt_audio,
        output_text_tokens: usage.reply_tokens,
        output_audio_tokens: usage.frames,
        output_audio_duration: wire(usage.audio),
    }
}

fn timings(timings: &TurnTimings) -> v1::Timings {
    let speech = timings.speech.as_ref();
    let spoken = speech.into_iter().flat_map(|speech| &speech.stages);
    let stages = std::iter::once(&timings.answer)
        .chain(spoken)
        .chain(&timings.encoder);
    v1::Timings {
        queue: timings.queue.and_then(wire),
        time_to_first_text: timings.first_text.and_then(wire),
        time_to_first_audio: speech.and_then(|speech| speech.first_audio).and_then(wire),
        leading_silence: speech.and_then(|speech| wire(speech.leading_silence)),
        total: wire(timings.total),
        real_time_factor: timings.real_time_factor,
        worst_underrun: speech.and_then(|speech| wire(speech.worst_underrun)),
        stages: stages.map(stage).collect(),
    }
}

/// Message that the conversation keeps; without parts if it keeps none.
fn said(said: &Said) -> v1::ChatMessage {
    message(said.id.as_str(), Role::Assistant, &said.text)
}

fn message(id: &str, role: Role, text: &str) -> v1::ChatMessage {
    let role = match role {
        Role::System => v1::Role::System,
        Role::User => v1::Role::User,
        Role::Assistant => v1::Role::Assistant,
    };
    let part = (!text.is_empty()).then(|| v1::ContentPart {
        part: Some(content_part::Part::Text(text.to_owned())),
    });
    v1::ChatMessage {
        id: id.to_owned(),
        role: role.into(),
        parts: part.into_iter().collect(),
    }
}
