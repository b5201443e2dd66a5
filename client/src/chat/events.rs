//! What a server says in a conversation, as a stream of typed events.

use std::fmt;
use std::time::Duration;

use omni_audio::SampleRate;
use omni_proto::v1;

use super::message::{Message, Role};
use super::protocol::Checker;
use super::settings::Outputs;
use crate::audio::Audio;
use crate::call::{Call, Hearing, Opening};
use crate::done::{Outcome, duration};
use crate::endpoint::Endpoint;
use crate::error::ClientError;

/// The name of a response within its conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResponseId(pub String);

impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatEvent {
    /// The conversation is open, or new settings are in force.
    Ready(ChatReady),
    /// The conversation has become longer.
    MessageAdded(MessageAdded),
    /// A response began.
    Started(ResponseId),
    /// Text of a response; pieces joined as they are make the whole. Never empty.
    Text(ResponseId, String),
    /// Audio of a response; pieces are contiguous.
    Audio(ResponseId, Audio),
    /// A response ended; nothing of it follows.
    Done(ResponseId, ChatDone),
    /// What an interruption left of a response that was done before; `None`: nothing.
    MessageCut(ResponseId, Option<Message>),
    /// Something worth knowing that stopped nothing.
    Warning {
        /// The response concerned; `None` for the session as a whole.
        response: Option<ResponseId>,
        /// For programs: stable, UPPER_SNAKE_CASE.
        reason: String,
        /// For people.
        message: String,
    },
}

/// The settings in force and what the server accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatReady {
    /// Names the session in the server's log.
    pub session_id: String,
    /// The model that answers.
    pub model: String,
    /// The instructions it follows.
    pub instructions: String,
    /// The voice it speaks with; empty if it cannot.
    pub voice: String,
    /// The language it speaks.
    pub language: String,
    /// Forms of its answers.
    pub outputs: Outputs,
    /// The rate of all audio that follows; absent if the model cannot speak.
    pub rate: Option<SampleRate>,
    /// What the server accepts.
    pub limits: ChatLimits,
}

/// What a server accepts in a conversation. Zero and absent: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChatLimits {
    /// Longest text of a message and of the instructions, in UTF-8 bytes.
    pub max_text_bytes_per_message: u32,
    /// Longest audio of a message.
    pub max_input_audio: Option<Duration>,
    /// Room for the conversation and its next answer together, in tokens.
    pub max_context_tokens: u32,
    /// Longest audio of a response.
    pub max_audio_per_response: Option<Duration>,
    /// An idle session is ended after this.
    pub idle_timeout: Option<Duration>,
    /// Any session is ended after this.
    pub max_session: Option<Duration>,
}

/// A message was added to the end of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageAdded {
    /// Its name.
    pub id: String,
    /// Who said it.
    pub role: Role,
    /// Playing time of the audio in it, if there is any.
    pub audio: Option<Duration>,
}

/// The end of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatDone {
    /// How it ended.
    pub outcome: Outcome,
    /// What the conversation keeps of it: cut to what was heard if it was interrupted; `None`: nothing.
    pub message: Option<Message>,
}

/// The receiving half of a conversation. Dropping it ends the call: the server stops answering at once.
#[derive(Debug)]
pub struct ChatEvents {
    endpoint: Endpoint,
    source: Source,
    checker: Checker,
    /// None where there is no sending half.
    _hearing: Option<Hearing>,
}

#[derive(Debug)]
enum Source {
    Converse(Call<v1::ConverseResponse>),
    Generate(Call<v1::GenerateResponse>),
}

impl ChatEvents {
    pub(crate) fn converse(
        endpoint: Endpoint,
        opening: Opening<v1::ConverseResponse>,
        hearing: Hearing,
    ) -> Self {
        Self {
            endpoint,
            source: Source::Converse(Call::Opening(opening)),
            checker: Checker::conversation(),
            _hearing: Some(hearing),
        }
    }

    pub(crate) fn generate(endpoint: Endpoint, opening: Opening<v1::GenerateResponse>) -> Self {
        Self {
            endpoint,
            source: Source::Generate(Call::Opening(opening)),
            checker: Checker::single(),
            _hearing: None,
        }
    }

    /// The next event; `None` when the conversation has ended well. May be dropped and called again without losing
    /// events.
    ///
    /// # Errors
    /// Why the conversation has ended; it is over then.
    pub async fn next(&mut self) -> Result<Option<ChatEvent>, ClientError> {
        loop {
            let message = match &mut self.source {
                Source::Converse(call) => call.message().await.map(|message| message.map(from_converse)),
                Source::Generate(call) => call.message().await.map(|message| message.map(from_generate)),
            };
            let message = message.map_err(|status| ClientError::from_status(&self.endpoint, &status))?;
            let Some(message) = message else {
                return self.checked(|checker| checker.end()).map(|()| None);
            };
            if let Some(event) = self.checked(|checker| checker.event(message))? {
                return Ok(Some(event));
            }
        }
    }

    fn checked<T>(
        &mut self,
        check: impl FnOnce(&mut Checker) -> Result<T, String>,
    ) -> Result<T, ClientError> {
        check(&mut self.checker).map_err(|what| ClientError::protocol(&self.endpoint, what))
    }
}

/// A message of either call, before it is checked.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Absent where the call does not number its messages.
    pub(super) seq: Option<u64>,
    pub(super) response: String,
    pub(super) event: Option<v1::converse_response::Event>,
}

/// Takes messages of a conversation up to the first that breaks the protocol, whatever they say.
pub(crate) fn take(messages: impl Iterator<Item = v1::ConverseResponse>) {
    let mut checker = Checker::conversation();
    let mut passed = messages.map(|message| checker.event(from_converse(message)).is_ok());
    while passed.next() == Some(true) {}
}

fn from_converse(message: v1::ConverseResponse) -> Incoming {
    Incoming {
        seq: Some(message.seq),
        response: message.response_id,
        event: message.event,
    }
}

fn from_generate(message: v1::GenerateResponse) -> Incoming {
    use v1::converse_response::Event as Converse;
    use v1::generate_response::Event;
    let event = message.event.map(|event| match event {
        Event::Ready(ready) => Converse::Ready(ready),
        Event::Text(text) => Converse::Text(text),
        Event::Audio(audio) => Converse::Audio(audio),
        Event::Done(done) => Converse::ResponseDone(done),
        Event::Warning(warning) => Converse::Warning(warning),
    });
    Incoming {
        seq: None,
        response: String::new(),
        event,
    }
}

impl ChatLimits {
    pub(super) fn from_proto(limits: &v1::ChatLimits) -> Self {
        Self {
            max_text_bytes_per_message: limits.max_text_bytes_per_message,
            max_input_audio: duration(limits.max_input_audio),
            max_context_tokens: limits.max_context_tokens,
            max_audio_per_response: duration(limits.max_audio_per_response),
            idle_timeout: duration(limits.idle_timeout),
            max_session: duration(limits.max_session),
        }
    }
}

impl MessageAdded {
    /// `Err` says what the server left out.
    pub(super) fn from_proto(added: v1::MessageAdded) -> Result<Self, &'static str> {
        let message = added.message.ok_or("it added a message without saying which")?;
        Ok(Self {
            role: Role::from_proto(message.role()).ok_or("it added a message of nobody")?,
            id: message.id,
            audio: duration(added.audio_duration),
        })
    }
}

impl ChatDone {
    /// `Err` says what the server left out.
    pub(super) fn from_proto(done: v1::ResponseDone) -> Result<Self, &'static str> {
        Ok(Self {
            outcome: Outcome::from_proto(done.outcome)?,
            message: Message::of_response(done.message)?,
        })
    }
}
