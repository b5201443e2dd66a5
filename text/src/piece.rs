//! What the front end hands to a voice.

use core::time::Duration;

use crate::{CharRange, EndKind, Span};

/// Text to be spoken in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// What to speak. If it was normalised: only speakable characters, ending in `.`, `?` or `!`.
    pub text: String,
    /// The text it stands for, in Unicode scalar values from the start of the utterance.
    pub source: CharRange,
    /// A mark stands before it: nothing goes on from the piece before.
    pub marked: bool,
    /// The pause before it that marks of the text ask for, in place of the usual one.
    pub pause: Option<Duration>,
    /// Why it ends where it does: how long a pause belongs after it.
    pub end: EndKind,
    /// Which part of the utterance each part of `text` says, for alignment. One per word or number.
    pub spans: Vec<Span>,
}
