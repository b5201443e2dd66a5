//! The protocol of conversations, beyond what all calls share: text that is never empty, nothing about the
//! conversation while a response is in progress.

use omni_proto::v1;
use omni_proto::v1::converse_response::Event;

use super::events::{ChatDone, ChatEvent, ChatLimits, ChatReady, MessageAdded, ResponseId};
use super::message::Message;
use super::settings::Outputs;
use crate::audio::rate_of;
use crate::checker::{CallState, Incoming, Rules};

/// A conversation has no state beyond that of every call.
#[derive(Debug)]
pub(crate) struct ChatRules;

impl Rules for ChatRules {
    const ITEM: &'static str = "response";
    type Wire = Event;
    type Event = ChatEvent;

    fn is_ready(wire: &Event) -> bool {
        matches!(wire, Event::Ready(_))
    }

    fn event(&mut self, call: &mut CallState, id: String, wire: Event) -> Result<ChatEvent, String> {
        let response = ResponseId(id);
        let id = &response.0;
        Ok(match wire {
            Event::Ready(settings) => ChatEvent::Ready(ready(call, settings)?),
            Event::MessageAdded(added) => {
                call.between("a message")?;
                ChatEvent::MessageAdded(MessageAdded::from_proto(added)?)
            }
            Event::ResponseStarted(_) => {
                call.start(id)?;
                ChatEvent::Started(response)
            }
            Event::Text(delta) => {
                call.within("text", id)?;
                if delta.text.is_empty() {
                    return Err(format!("it sent text of response {id} that is empty"));
                }
                ChatEvent::Text(response, delta.text)
            }
            Event::Audio(chunk) => ChatEvent::Audio(response.clone(), call.audio(id, chunk)?),
            Event::ResponseDone(done) => {
                call.finish(id)?;
                ChatEvent::Done(response, ChatDone::from_proto(done)?)
            }
            Event::MessageCut(cut) => {
                call.between("a cut message")?;
                ChatEvent::MessageCut(response, Message::of_response(cut.message)?)
            }
            Event::Warning(warning) => ChatEvent::Warning {
                response: (!id.is_empty()).then_some(response),
                reason: warning.reason,
                message: warning.message,
            },
        })
    }
}

fn ready(call: &mut CallState, ready: v1::ChatSessionReady) -> Result<ChatReady, String> {
    call.may_settle()?;
    let config = ready.resolved.ok_or("ready does not say the settings in force")?;
    let outputs =
        Outputs::from_proto(&config.output_modalities).ok_or("ready does not say the forms of answers")?;
    let format = config.output_audio.and_then(|output| output.format);
    let rate = match format {
        None if !outputs.audio() => None,
        format => Some(rate_of(&format.unwrap_or_default())?),
    };
    call.ready(rate);
    let limits = ready.limits.as_ref().map(ChatLimits::from_proto);
    Ok(ChatReady {
        session_id: ready.session_id,
        model: config.model,
        instructions: config.instructions,
        voice: config.voice,
        language: config.language,
        outputs,
        rate,
        limits: limits.unwrap_or_default(),
    })
}

pub(crate) fn from_converse(message: v1::ConverseResponse) -> Incoming<Event> {
    Incoming {
        seq: Some(message.seq),
        id: message.response_id,
        event: message.event,
    }
}

pub(crate) fn from_generate(message: v1::GenerateResponse) -> Incoming<Event> {
    use v1::generate_response::Event as Single;
    let event = message.event.map(|event| match event {
        Single::Ready(ready) => Event::Ready(ready),
        Single::Text(text) => Event::Text(text),
        Single::Audio(audio) => Event::Audio(audio),
        Single::Done(done) => Event::ResponseDone(done),
        Single::Warning(warning) => Event::Warning(warning),
    });
    Incoming {
        seq: None,
        id: String::new(),
        event,
    }
}

#[cfg(test)]
mod tests;
