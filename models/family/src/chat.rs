//! Chat models as their callers see them, in plain data.

use std::sync::Arc;
use std::time::Duration;

use omni_audio::Samples;
use omni_pipeline::request::{Clip, ContextRow, PromptPiece, Sampling};

use super::speech::PromptError;

/// Chat properties of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatInfo {
    /// Most positions of a conversation and its answer together: text tokens and rows of audio.
    pub max_context: u32,
    /// Most tokens of an answer where a caller sets nothing.
    pub default_max_tokens: u32,
    /// Sampling where a caller sets nothing.
    pub default_sampling: Sampling,
    /// Audio input of the model; `None` if it takes none.
    pub hearing: Option<Hearing>,
    /// Path of its answers to the stage that speaks them.
    pub voicing: Voicing,
    /// `true` if the stage that speaks reads the conversation besides the answer.
    pub speech_context: bool,
    /// `true` if it calls functions that a conversation offers.
    pub tools: bool,
}

/// Audio input of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hearing {
    /// Samples per second.
    pub sample_rate: omni_audio::SampleRate,
    /// Shortest audio accepted.
    pub min_audio: Duration,
    /// Longest audio of one message.
    pub max_audio: Duration,
    /// Positions that a second of audio takes.
    pub rows_per_second: u32,
    /// Bytes of the embedding of one such position.
    pub row_bytes: u32,
}

impl Hearing {
    /// Positions of `samples` samples, at most one too few.
    pub fn rows(&self, samples: usize) -> usize {
        let rows = samples as u64 * u64::from(self.rows_per_second) / u64::from(self.sample_rate.hz());
        usize::try_from(rows).unwrap_or(usize::MAX)
    }

    /// Bytes of the embedding of `samples` samples, at most.
    pub fn row_bytes(&self, samples: usize) -> usize {
        (self.rows(samples) + 1) * self.row_bytes as usize
    }

    /// Checks that `samples` samples, which came as `field`, are enough.
    ///
    /// # Errors
    /// If they are not.
    pub fn check_short(&self, samples: usize, field: &'static str) -> Result<(), AudioInputError> {
        if samples < self.sample_rate.samples(self.min_audio).len() {
            Err(AudioInputError::TooShort {
                field,
                got: self.sample_rate.duration(Samples(samples as u64)),
                limit: self.min_audio,
            })
        } else {
            Ok(())
        }
    }
}

/// Audio that the model does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AudioInputError {
    /// The model takes no audio.
    #[error("{field}: this model takes no audio, expected text")]
    NotSupported {
        /// The field that it came in.
        field: &'static str,
    },
    /// It is shorter than the model accepts.
    #[error("{field} has {} ms of audio, expected at least {} ms", millis(.got), millis(.limit))]
    TooShort {
        /// The field that it came in.
        field: &'static str,
        /// Its length.
        got: Duration,
        /// The shortest accepted.
        limit: Duration,
    },
    /// It is longer than one message may be.
    #[error("the audio of the message is longer than {:.0} s, which is the limit", .limit.as_secs_f64())]
    TooLong {
        /// The longest of one message.
        limit: Duration,
    },
}

fn millis(time: &Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Path of an answer to the stage that speaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voicing {
    /// The answer's tokens as they are, in one sequence behind the user's turns: as the model was trained.
    Tokens,
    /// Its text, through the text front end, sentence by sentence: for a voice that was trained on words alone.
    Words,
}

/// The speaker of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// System prompt.
    System,
    /// The caller's side.
    User,
    /// The model.
    Assistant,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(Arc<str>),
    /// Speech or other sound, at [`Hearing::sample_rate`]. A conversation is read again for every answer, but every
    /// recording is encoded once.
    Audio(Clip),
    /// A part about functions that the model may call.
    Tool(ToolPart),
}

/// A part of a message that is about functions.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolPart {
    /// A function that the model may call, as JSON.
    Offer(Arc<str>),
    /// A call of the model.
    Call {
        /// Name of the function.
        name: Arc<str>,
        /// Arguments as a JSON object.
        arguments: Arc<str>,
    },
    /// Result of a call.
    Result(Arc<str>),
}

impl ToolPart {
    /// Its text, in characters.
    pub fn characters(&self) -> usize {
        match self {
            Self::Offer(text) | Self::Result(text) => text.chars().count(),
            Self::Call { name, arguments } => name.chars().count() + arguments.chars().count(),
        }
    }

    /// Its text, in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Offer(text) | Self::Result(text) => text.len(),
            Self::Call { name, arguments } => name.len() + arguments.len(),
        }
    }
}

/// Marks around a call in a model's text: between them stands JSON with `name` and `arguments`.
pub const TOOL_CALL: [&str; 2] = ["<tool_call>", "</tool_call>"];

/// Message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMessage {
    /// The speaker.
    pub role: Role,
    /// Parts of the message, in order.
    pub parts: Vec<Part>,
}

/// A conversation as the model reads it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prompt {
    /// For the stage that answers, up to where the answer begins.
    pub pieces: Vec<PromptPiece>,
    /// For the stage that speaks: the user's turns, one after another.
    pub context: Vec<Vec<ContextRow>>,
    /// Tokens of the answer that the template has already written; they are spoken first.
    pub opening: Vec<u32>,
}

impl Prompt {
    /// Text tokens in it.
    pub fn text_tokens(&self) -> usize {
        let tokens = |piece: &PromptPiece| match piece {
            PromptPiece::Tokens(tokens) => tokens.len(),
            PromptPiece::Audio { .. } => 0,
        };
        self.pieces.iter().map(tokens).sum()
    }

    /// Rows of audio in it.
    pub fn audio_rows(&self) -> usize {
        let rows = |piece: &PromptPiece| match piece {
            PromptPiece::Tokens(_) => 0,
            PromptPiece::Audio { rows, .. } => *rows as usize,
        };
        self.pieces.iter().map(rows).sum()
    }

    /// Positions that it takes.
    pub fn positions(&self) -> usize {
        self.text_tokens() + self.audio_rows()
    }
}

/// Turns the tokens of one answer into text.
pub trait Detokenizer: Send {
    /// Adds a token; returns the text that is certain with it: whole characters, often none.
    fn push(&mut self, token: u32) -> String;

    /// Returns the rest of the text once no more tokens come.
    fn finish(&mut self) -> String;
}

/// Turns conversations into prompts.
pub type PromptBuilder = Arc<dyn Fn(&[ChatMessage]) -> Result<Prompt, PromptError> + Send + Sync>;

/// Makes a [`Detokenizer`] for one answer.
pub type DetokenizerMaker = Arc<dyn Fn() -> Box<dyn Detokenizer> + Send + Sync>;
