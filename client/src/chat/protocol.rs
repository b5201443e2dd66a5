//! Holds a server to the protocol of conversations: messages come in, events go out, or what was wrong.
//!
//! Checked: consecutive numbers, `ready` first, everything of a response between its one start and its one end, text
//! that is never empty, contiguous audio in whole samples that is never empty and ends with the last, nothing about the
//! conversation while a response is in progress, no response left open at the end. Kinds of events this version does
//! not know are skipped, as the protocol only ever grows.

use omni_audio::SampleRate;
use omni_proto::v1;
use omni_proto::v1::converse_response::Event;

use super::events::{ChatDone, ChatEvent, ChatLimits, ChatReady, Incoming, MessageAdded, ResponseId};
use super::message::Message;
use super::settings::Outputs;
use crate::audio::{Audio, Track, rate_of};

/// What has been heard of one conversation.
#[derive(Debug)]
pub(super) struct Checker {
    seq: u64,
    ready: bool,
    rate: Option<SampleRate>,
    responses: Responses,
}

/// Where the call is among its responses.
#[derive(Debug)]
enum Responses {
    Between,
    Within(Open),
    /// The only response of the call is over.
    Over,
}

#[derive(Debug)]
struct Open {
    id: ResponseId,
    /// The response is the whole call: it began with it and has no name.
    single: bool,
    track: Track,
    /// The last audio was there.
    ended: bool,
}

impl Open {
    fn new(id: ResponseId, single: bool) -> Self {
        Self {
            id,
            single,
            track: Track::default(),
            ended: false,
        }
    }
}

impl Checker {
    /// For calls of many responses, each with its start.
    pub(super) fn conversation() -> Self {
        Self {
            seq: 0,
            ready: false,
            rate: None,
            responses: Responses::Between,
        }
    }

    /// For calls of one response, which starts with the call.
    pub(super) fn single() -> Self {
        Self {
            responses: Responses::Within(Open::new(ResponseId(String::new()), true)),
            ..Self::conversation()
        }
    }

    /// The next message; `None` if it says nothing to this version.
    pub(super) fn event(&mut self, message: Incoming) -> Result<Option<ChatEvent>, String> {
        self.count(message.seq)?;
        let id = ResponseId(message.response);
        let Some(event) = message.event else {
            return Ok(None);
        };
        if !self.ready && !matches!(event, Event::Ready(_)) {
            return Err("it sent something else before ready".into());
        }
        match event {
            Event::Ready(ready) => self.settings(ready).map(ChatEvent::Ready),
            Event::MessageAdded(added) => self.added(added).map(ChatEvent::MessageAdded),
            Event::ResponseStarted(_) => self.started(id).map(ChatEvent::Started),
            Event::Text(delta) => self.text(&id, delta.text).map(|text| ChatEvent::Text(id, text)),
            Event::Audio(chunk) => self.audio(&id, chunk).map(|audio| ChatEvent::Audio(id, audio)),
            Event::ResponseDone(done) => self.done(&id, done).map(|done| ChatEvent::Done(id, done)),
            Event::MessageCut(cut) => self.cut(cut).map(|message| ChatEvent::MessageCut(id, message)),
            Event::Warning(warning) => Ok(ChatEvent::Warning {
                response: (!id.0.is_empty()).then_some(id),
                reason: warning.reason,
                message: warning.message,
            }),
        }
        .map(Some)
    }

    /// The server ended the call with OK.
    pub(super) fn end(&self) -> Result<(), String> {
        match &self.responses {
            Responses::Within(open) if open.single => Err("it ended the stream before the response".into()),
            Responses::Within(open) => Err(format!("it ended the stream inside response {}", open.id)),
            Responses::Between | Responses::Over => Ok(()),
        }
    }

    fn count(&mut self, seq: Option<u64>) -> Result<(), String> {
        match seq {
            Some(seq) if seq != self.seq + 1 => Err(format!("message {seq} came after message {}", self.seq)),
            Some(seq) => {
                self.seq = seq;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn settings(&mut self, ready: v1::ChatSessionReady) -> Result<ChatReady, String> {
        match &self.responses {
            Responses::Within(open) if open.single && !self.ready => {}
            _ => self.between("new settings")?,
        }
        let config = ready.resolved.ok_or("ready does not say the settings in force")?;
        let outputs = Outputs::from_proto(&config.output_modalities)
            .ok_or("ready does not say the forms of answers")?;
        let format = config.output_audio.and_then(|output| output.format);
        let rate = match format {
            None if !outputs.audio() => None,
            format => Some(rate_of(&format.unwrap_or_default())?),
        };
        self.ready = true;
        self.rate = rate;
        Ok(ChatReady {
            session_id: ready.session_id,
            model: config.model,
            instructions: config.instructions,
            voice: config.voice,
            language: config.language,
            outputs,
            rate,
            limits: ready
                .limits
                .as_ref()
                .map(ChatLimits::from_proto)
                .unwrap_or_default(),
        })
    }

    fn added(&self, added: v1::MessageAdded) -> Result<MessageAdded, String> {
        self.between("a message")?;
        Ok(MessageAdded::from_proto(added)?)
    }

    fn cut(&self, cut: v1::MessageCut) -> Result<Option<Message>, String> {
        self.between("a cut message")?;
        Ok(Message::of_response(cut.message)?)
    }

    fn started(&mut self, id: ResponseId) -> Result<ResponseId, String> {
        self.between(&format!("response {id}"))?;
        self.responses = Responses::Within(Open::new(id.clone(), false));
        Ok(id)
    }

    fn text(&mut self, id: &ResponseId, text: String) -> Result<String, String> {
        self.within("text", id)?;
        if text.is_empty() {
            return Err(format!("it sent text of response {id} that is empty"));
        }
        Ok(text)
    }

    fn audio(&mut self, id: &ResponseId, chunk: v1::AudioChunk) -> Result<Audio, String> {
        let rate = self.rate.ok_or("it sent audio without having said its rate")?;
        let open = self.within("audio", id)?;
        if open.ended {
            return Err("it sent audio after the last".into());
        }
        let audio = open.track.piece(rate, chunk)?;
        open.ended = audio.last;
        Ok(audio)
    }

    fn done(&mut self, id: &ResponseId, done: v1::ResponseDone) -> Result<ChatDone, String> {
        let single = self.within("the end", id)?.single;
        self.responses = if single {
            Responses::Over
        } else {
            Responses::Between
        };
        Ok(ChatDone::from_proto(done)?)
    }

    /// The open response, if it is this one.
    fn within(&mut self, what: &str, id: &ResponseId) -> Result<&mut Open, String> {
        match &mut self.responses {
            Responses::Within(open) if open.id == *id => Ok(open),
            Responses::Over => Err(format!("it sent {what} of the response after its end")),
            Responses::Between | Responses::Within(_) => Err(format!(
                "it sent {what} of response {id}, which is not the open one"
            )),
        }
    }

    /// Whether `what` may come now.
    fn between(&self, what: &str) -> Result<(), String> {
        match &self.responses {
            Responses::Between => Ok(()),
            Responses::Within(open) if !open.single => {
                Err(format!("{what} came inside response {}", open.id))
            }
            Responses::Within(_) | Responses::Over => Err(format!("{what} came in a call of one response")),
        }
    }
}

#[cfg(test)]
mod tests;
