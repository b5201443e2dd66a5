//! Messages of a server in a conversation, as typed events.

use std::fmt;
use std::time::Duration;

use omni_audio::SampleRate;
use omni_proto::v1;

use super::message::{Message, Role};
use super::settings::Outputs;
use crate::audio::Audio;
use crate::done::{Outcome, duration};

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
    /// A message was added to the conversation.
    MessageAdded(MessageAdded),
    /// A response began.
    Started(ResponseId),
    /// Text of a response; pieces joined as they are make the whole. Never empty.
    Text(ResponseId, String),
    /// Audio of a response; pieces are contiguous.
    Audio(ResponseId, Audio),
    /// A response ended; nothing of it follows.
    Done(ResponseId, ChatDone),
    /// An interruption cut a finished response; `None`: nothing of it is left.
    MessageCut(ResponseId, Option<Message>),
    /// A problem that stopped nothing.
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
    /// Limits of the server.
    pub limits: ChatLimits,
}

/// Limits of a conversation. Zero and absent: no limit.
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
    /// The side that said it.
    pub role: Role,
    /// Playing time of the audio in it, if there is any.
    pub audio: Option<Duration>,
}

/// The end of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatDone {
    /// The outcome.
    pub outcome: Outcome,
    /// The message that the conversation keeps, cut to the part that was heard after an interruption; `None`: nothing.
    pub message: Option<Message>,
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
    /// Converts the message; the error names the missing field.
    pub(super) fn from_proto(added: v1::MessageAdded) -> Result<Self, &'static str> {
        let message = added.message.ok_or("it added a message without saying which")?;
        Ok(Self {
            role: Role::from_proto(message.role()).ok_or("it added a message without a role")?,
            id: message.id,
            audio: duration(added.audio_duration),
        })
    }
}

impl ChatDone {
    /// Converts the message; the error names the missing field.
    pub(super) fn from_proto(done: v1::ResponseDone) -> Result<Self, &'static str> {
        Ok(Self {
            outcome: Outcome::from_proto(done.outcome)?,
            message: Message::of_response(done.message)?,
        })
    }
}
