//! Pieces, which the front end hands to a voice.

use core::time::Duration;

use crate::{CharRange, EndKind, Span};

/// Text to be spoken in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The text to speak. If it was normalised: only speakable characters, ending in `.`, `?` or `!` unless it is `open`.
    pub text: String,
    /// The text it stands for, in Unicode scalar values from the start of the utterance.
    pub source: CharRange,
    /// A mark stands before it: nothing goes on from the piece before.
    pub marked: bool,
    /// The pause before it that marks of the text ask for, in place of the usual one.
    pub pause: Option<Duration>,
    /// The reason for its end, which decides how long a pause belongs after it.
    pub end: EndKind,
    /// The next piece goes on in mid sentence: this one was wanted early ([`Buffering::Eager`](crate::Buffering::Eager)).
    pub open: bool,
    /// The part of the utterance that each part of `text` says, for alignment. One per word or number.
    pub spans: Vec<Span>,
}

/// A word, a number or an address: what is spoken as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its spoken form, up to the next word: with marks and white space behind it.
    pub spoken: String,
    /// The text it stands for, in Unicode scalar values from the start of the utterance.
    pub source: CharRange,
}

impl Piece {
    /// The words of `text` in order.
    pub fn words(&self) -> Vec<Word> {
        let starts = self.spans.iter().skip(1).map(|span| span.spoken.start);
        let ends = starts.chain([usize::MAX]);
        let mut chars = self.text.chars();
        let mut at = self.spans.first().map_or(0, |span| span.spoken.start);
        chars.by_ref().take(at).for_each(drop);
        let words = self.spans.iter().zip(ends).map(|(span, end)| {
            let spoken = chars.by_ref().take(end - at).collect();
            at = end;
            Word {
                spoken,
                source: span.source,
            }
        });
        words.collect()
    }
}

/// True if a character stands for a syllable or a word, without spaces between: Kana, Han, Hangul.
pub fn is_syllable(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{20000}'..='\u{3FFFF}')
}
