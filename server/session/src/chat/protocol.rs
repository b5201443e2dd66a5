//! Commands and events of a conversation, free of wire types.

use std::sync::Arc;
use std::time::Duration;

use omni_audio::Samples;
use omni_core::error::ServeError;
use omni_core::id::{MessageId, SessionId};
use omni_family::{ChatMessage, Role};

use super::record::{TurnTimings, TurnUsage};
use super::settings::{ChatSettings, Modalities};
use crate::limits::SessionLimits;
use crate::protocol::{AudioOut, Warning};
use crate::record::Outcome;

/// Command of a caller.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatCommand {
    /// Settings for the answers that follow; with the conversation so far, the first time.
    Configure {
        /// Settings.
        settings: Box<ChatSettings>,
        /// Oldest first.
        history: Vec<NewMessage>,
        /// Characters that were left out of its messages, because they were too long.
        cut: usize,
    },
    /// A message of either side.
    Message(NewMessage),
    /// Audio of the user: mono samples at the model's rate.
    Audio(Vec<f32>),
    /// Ends the user's message in audio.
    Commit {
        /// `true` to answer it.
        respond: bool,
    },
    /// Answer the conversation.
    Respond(Respond),
    /// Stop answering.
    Interrupt {
        /// Id of the answer; empty for the one in progress, else the last one.
        response: String,
        /// Length that the listener heard; all that was sent if unset.
        played: Option<Samples>,
    },
    /// A sign that the caller is there: the session is not idle.
    Present,
}

/// A message to add.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// The caller's name for it; empty for none.
    pub id: String,
    /// The message.
    pub message: ChatMessage,
}

/// An answer to give.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Respond {
    /// The caller's name for it; empty for none.
    pub id: String,
    /// Replaces those of the settings.
    pub modalities: Option<Modalities>,
    /// Replaces those of the settings.
    pub instructions: Option<Arc<str>>,
    /// Conversation to answer, in place of the session's history. Nothing of the answer is added to the history then.
    pub given: Option<Box<GivenConversation>>,
}

/// A conversation that its caller keeps, with the settings of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenConversation {
    /// Replaces the settings of the session; a system message replaces their instructions.
    pub settings: Arc<ChatSettings>,
    /// Messages, oldest first. Only the first may be a system message.
    pub messages: Vec<ChatMessage>,
    /// Characters in it that were not charged to an answer yet. If this one is refused, the next one is charged for
    /// them.
    pub characters: usize,
    /// Characters in it that only this answer reads.
    pub own_characters: usize,
    /// `true` if it is a side conversation: the answer before it may still be cut.
    pub beside: bool,
}

/// Event of a conversation.
#[derive(Debug, Clone)]
pub struct ChatEvent {
    /// The answer concerned; none for the session itself.
    pub response: Option<MessageId>,
    /// Content.
    pub body: ChatEventBody,
}

/// See the messages of the same names in `chat.proto`.
#[derive(Debug, Clone)]
pub enum ChatEventBody {
    /// Settings are in force.
    Ready(Box<ChatReady>),
    /// A message was added to the conversation.
    MessageAdded {
        /// Name of the message.
        id: MessageId,
        /// Speaker of the message.
        role: Role,
        /// Playing time of the audio in it.
        audio: Option<Duration>,
    },
    /// An answer has begun.
    Started,
    /// Text of it.
    Text(String),
    /// Audio of it.
    Audio(AudioOut),
    /// Its end.
    Done(Box<ResponseDone>),
    /// A problem that stopped nothing.
    Warning {
        /// Stable, for programs.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// A finished answer was cut.
    Cut(Said),
}

/// Settings in force.
#[derive(Debug, Clone)]
pub struct ChatReady {
    /// The session.
    pub session: SessionId,
    /// Settings in force.
    pub settings: ChatSettings,
    /// Limits.
    pub limits: SessionLimits,
}

/// Message that the conversation keeps of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The answer's name.
    pub id: MessageId,
    /// Empty if the conversation has no such message.
    pub text: String,
}

/// The end of an answer.
#[derive(Debug, Clone)]
pub struct ResponseDone {
    /// Outcome.
    pub outcome: Outcome,
    /// Usage.
    pub usage: TurnUsage,
    /// Times.
    pub timings: TurnTimings,
    /// The seed that was used.
    pub seed: u64,
    /// Set if it failed.
    pub error: Option<ServeError>,
    /// Message added to the conversation.
    pub said: Said,
    /// Warnings since it began.
    pub warnings: Vec<Warning>,
}
