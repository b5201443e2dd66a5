//! Chat template: from a conversation to the thinker's prompt, and to the part of it that the talker gets.
//!
//! In: messages of text and audio. Out: a [`ChatPrompt`]: tokens and places for audio, by the checkpoint's chat
//! template. Text of a caller never becomes a special token: only the template opens and closes turns.

mod prompt;
mod template;
mod tools;

use crate::tokenizer::TokenizeError;

pub use prompt::{ChatPiece, ChatPrompt, TalkerPrompt};
pub use template::ChatTemplate;

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions for the whole conversation.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Its name in chat templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessagePart {
    /// Something written.
    Text(String),
    /// Something said; what exactly is given with [`ChatPrompt::thinker_prompt`], in the order of the messages.
    Audio,
    /// A function that the model may ask for, as JSON: `{"type": "function", "function": {...}}`.
    Tool(String),
    /// The model asked for a function.
    ToolCall {
        /// Name of the function.
        name: String,
        /// Arguments as a JSON object.
        arguments: String,
    },
    /// Result of a call.
    ToolResult(String),
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its role.
    pub role: Role,
    /// Parts of the message, in order.
    pub parts: Vec<MessagePart>,
}

impl Message {
    /// A written message.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            parts: vec![MessagePart::Text(text.into())],
        }
    }
}

/// A conversation that cannot be made a prompt.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ChatError {
    /// The template refused it, or is broken.
    #[error("chat template: {0}")]
    Template(String),
    /// The template has other places for audio than the messages.
    #[error("chat template: {places} places for audio, but the messages have {parts} parts of audio")]
    AudioPlaces {
        /// Places in the rendered prompt.
        places: usize,
        /// Parts in the messages.
        parts: usize,
    },
    /// Rows for more or less audio than the prompt has.
    #[error("{found} pieces of audio given, but the prompt has {expected}")]
    AudioCount {
        /// Pieces given.
        found: usize,
        /// Places in the prompt.
        expected: usize,
    },
    /// Hidden rows that are not one per row of audio.
    #[error("{found} hidden rows given, but the prompt's audio has {expected}")]
    HiddenRows {
        /// Rows given.
        found: usize,
        /// Rows of audio in the prompt.
        expected: usize,
    },
    /// The prompt's turns are not in a form that a talker can continue.
    #[error("chat template: {0}, which cannot be spoken after")]
    Turns(String),
    /// A tool or its arguments are not valid.
    #[error("{what} is not JSON: {reason}")]
    ToolJson {
        /// Name of the missing item.
        what: &'static str,
        /// Position at which it is missing.
        reason: String,
    },
    /// A text that cannot be tokenized.
    #[error(transparent)]
    Tokenize(#[from] TokenizeError),
}
