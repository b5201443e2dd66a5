//! Commands and events of a conversation, free of wire types.

use std::sync::Arc;
use std::time::Duration;

use omni_audio::Samples;
use omni_family::{ChatMessage, Role};

use super::record::{TurnTimings, TurnUsage};
use super::settings::{ChatSettings, Modalities};
use crate::error::ServeError;
use crate::id::{MessageId, SessionId};
use crate::session::limits::SessionLimits;
use crate::session::protocol::{AudioOut, Warning};
use crate::session::record::Outcome;

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
    /// The user is saying something: mono samples at the model's rate.
    Audio(Vec<f32>),
    /// The audio so far is what the user said.
    Commit {
        /// Answer it.
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
    /// Nothing is asked for, but the caller is there: the session is not idle.
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
    /// In place of those of the settings.
    pub modalities: Option<Modalities>,
    /// In place of those of the settings.
    pub instructions: Option<Arc<str>>,
    /// Conversation to answer, in place of the session's history. Nothing of the answer is added to the history then.
    pub given: Option<Box<GivenConversation>>,
}

/// A conversation that its caller keeps, and how to answer it.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenConversation {
    /// In place of those of the session; a system message takes the place of their instructions.
    pub settings: Arc<ChatSettings>,
    /// Oldest first. Only the first may say how the model shall behave.
    pub messages: Vec<ChatMessage>,
    /// Characters of it that no answer was asked for yet. If this one is refused, the next one pays for them.
    pub characters: usize,
    /// Characters that only this answer reads.
    pub own_characters: usize,
    /// It is not the caller's conversation but beside that: the answer before it may still be cut.
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
    /// The conversation has become longer.
    MessageAdded {
        /// Name of the message.
        id: MessageId,
        /// The side that said it.
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
    /// Something that stopped nothing.
    Warning {
        /// Stable, for programs.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// An answer that was done has become shorter.
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
