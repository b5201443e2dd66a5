//! The text of one utterance: gathered, cut, written as words, and turned into tokens.
//!
//! In: text in any chunking. Out: [`Piece`]s in order, each the tokens of one sequence or of a part of one. With eager
//! buffering a sentence goes to the model word by word as one sequence: it sounds as if it had been known from the start.

use std::collections::VecDeque;
use std::time::Duration;

use omni_core::error::{InvalidField, ServeError};
use omni_core::orchestrator::TextEncoder;
use omni_family::SpeechInfo;
use omni_text::{EndKind, Explained, FrontEnd, FrontEndOptions, TextError, Warning};

use super::alignment::Word;
use super::error::UtteranceError;
use super::settings::Buffering;

/// Most warnings per utterance.
const MAX_WARNINGS: usize = 8;

/// Relation of a piece to the sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// It begins one.
    First,
    /// It continues the sequence of the piece before it; if the model has ended that, it begins another.
    Next,
    /// It continues the sequence of the piece before it and no other: if the model has ended that, it is dropped.
    Only,
}

impl Position {
    /// Returns true if it continues the sequence of the piece before it.
    pub(super) fn continues(self) -> bool {
        self != Self::First
    }
}

/// Tokens to speak.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) tokens: Vec<u32>,
    /// Characters of its text.
    pub(super) chars: usize,
    pub(super) position: Position,
    /// `true` if its sequence ends with it.
    pub(super) ends: bool,
    /// Silence before it, if it begins a sequence.
    pub(super) pause: Duration,
    /// End of its text, in characters of the utterance's text.
    pub(super) source_end: usize,
    /// Words of that text, each with its spoken form.
    pub(super) words: Vec<Word>,
    bytes: usize,
}

/// The text of one utterance.
#[derive(derive_more::Debug)]
// Never prints the text itself.
#[debug("TextFront {{ pieces: {:?}, .. }}", self.pieces.len())]
pub(super) struct TextFront {
    front: FrontEnd,
    encode: TextEncoder,
    pieces: VecDeque<Piece>,
    max_chars: usize,
    gathering: bool,
    spoke: bool,
    /// End of the last piece.
    last_end: Option<EndKind>,
    /// Characters in the sequence that the last piece left open.
    open_chars: Option<usize>,
    /// End of the last piece's text in the source.
    source_end: usize,
    warnings: Vec<(&'static str, String)>,
    warned: usize,
    /// `true` if text came, even if it was empty.
    given: bool,
    /// True if any of it was more than white space.
    visible: bool,
    unspeakable: Unspeakable,
    /// Languages of the model, for errors.
    languages: String,
}

/// Treatment of text with nothing to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Unspeakable {
    /// A short silence and a warning: more may follow it.
    #[default]
    Silence,
    /// The text is the whole request: text without anything to speak, and text in letters that the model does not
    /// know, are refused.
    Whole,
    /// Refused.
    Refused,
}

/// Options of the front end of this model's sessions.
fn options(info: &SpeechInfo, buffering: Buffering, max_buffered_bytes: usize) -> FrontEndOptions {
    FrontEndOptions {
        buffering: match buffering {
            Buffering::Sentence => omni_text::Buffering::Sentence,
            Buffering::Clause => omni_text::Buffering::Clause,
            Buffering::Eager => omni_text::Buffering::Eager,
            Buffering::Manual => omni_text::Buffering::Manual,
        },
        max_chars: info.max_characters,
        max_buffered_bytes,
        normalizer: info.normalizer.clone(),
    }
}

/// Explains `text`: the input of this model in a session.
///
/// # Errors
/// As for speaking it; but text without anything to speak is no error.
pub fn explain(info: &SpeechInfo, buffering: Buffering, text: &str) -> Result<Explained, ServeError> {
    let options = options(info, buffering, text.len().max(1));
    omni_text::explain(options, text).map_err(|error| refused(&error).into())
}

impl TextFront {
    pub(super) fn new(
        info: &SpeechInfo,
        encode: TextEncoder,
        buffering: Buffering,
        max_buffered_bytes: usize,
    ) -> Self {
        Self {
            front: FrontEnd::new(options(info, buffering, max_buffered_bytes)),
            encode,
            pieces: VecDeque::new(),
            max_chars: info.max_characters,
            gathering: false,
            spoke: false,
            given: false,
            last_end: None,
            open_chars: None,
            source_end: 0,
            warnings: Vec::new(),
            warned: 0,
            visible: false,
            unspeakable: if info.terms.strict {
                Unspeakable::Refused
            } else {
                Unspeakable::Silence
            },
            languages: info.languages.join(", "),
        }
    }

    /// Marks the text as the whole request. A strict server refuses more than other sessions do.
    pub(super) fn set_whole(&mut self) {
        if self.unspeakable == Unspeakable::Silence {
            self.unspeakable = Unspeakable::Whole;
        }
    }

    /// Takes more text.
    pub(super) fn push(&mut self, text: &str) -> Result<(), ServeError> {
        self.given = true;
        let visible = !text.trim().is_empty();
        self.visible |= visible;
        self.gathering |= visible;
        let pieces = self.front.push(text).map_err(|error| refused(&error))?;
        self.add(pieces)
    }

    /// Speaks what is gathered.
    pub(super) fn flush(&mut self) -> Result<(), ServeError> {
        self.gathering = false;
        let pieces = self.front.flush().map_err(|error| refused(&error))?;
        self.add(pieces)?;
        // If nothing speakable was left, the sequence would wait for an end for ever.
        self.end_sequence();
        Ok(())
    }

    /// Ends the sequence that the last piece left open, if it did. Later text begins another; an incomplete word
    /// stays gathered.
    pub(super) fn end_sequence(&mut self) {
        if self.open_chars.take().is_none() {
            return;
        }
        self.last_end = Some(EndKind::Flush);
        self.pieces.push_back(Piece {
            tokens: Vec::new(),
            chars: 0,
            position: Position::Next,
            ends: true,
            pause: Duration::ZERO,
            source_end: self.source_end,
            words: Vec::new(),
            bytes: 0,
        });
    }

    /// Takes tokens as they are, for `text`; they continue one sequence until it is ended. Not to be mixed with text.
    pub(super) fn push_tokens(&mut self, tokens: Vec<u32>, text: &str) {
        let chars = text.chars().count();
        let open = self.open_chars;
        self.open_chars = Some(open.unwrap_or(0) + chars);
        let source = self.source_end..self.source_end + chars;
        self.source_end = source.end;
        // A token may be half a word: ends of words are found later, where words are requested.
        let words = match chars {
            0 => Vec::new(),
            _ => vec![Word {
                source,
                spoken: text.to_owned(),
            }],
        };
        self.spoke |= !tokens.is_empty();
        self.pieces.push_back(Piece {
            tokens,
            chars,
            position: match open {
                None => Position::First,
                Some(_) => Position::Only,
            },
            ends: false,
            pause: Duration::ZERO,
            source_end: self.source_end,
            words,
            bytes: text.len(),
        });
    }

    /// Ends the text. An utterance without any text is fine; one with nothing that can be spoken gets a warning.
    pub(super) fn finish(&mut self) -> Result<(), ServeError> {
        self.gathering = false;
        match self.front.finish() {
            Ok(pieces) => self.add(pieces),
            Err(error @ TextError::Markup { .. }) => Err(refused(&error).into()),
            Err(_) if self.spoke || !self.given => Ok(()),
            Err(error) => self.unspeakable(&error),
        }
    }

    /// Handles text with nothing to speak in it.
    fn unspeakable(&mut self, error: &TextError) -> Result<(), ServeError> {
        let in_other_letters = match error {
            TextError::NothingSpeakable { skipped } => {
                let mut characters = skipped.characters().iter();
                characters.any(|(character, _)| character.is_alphanumeric())
            }
            _ => false,
        };
        let languages = &self.languages;
        match self.unspeakable {
            Unspeakable::Whole if !self.visible => return Err(UtteranceError::Empty.into()),
            Unspeakable::Whole if !in_other_letters => {}
            Unspeakable::Whole | Unspeakable::Refused => {
                let problem = format!("nothing in the text can be spoken; the voice speaks: {languages}");
                return Err(UtteranceError::NothingSpeakable(problem).into());
            }
            Unspeakable::Silence => {}
        }
        let warning = Warning::NothingSpeakable;
        let message = format!("{warning}; the voice speaks: {languages}");
        self.add(Vec::new())?;
        self.warnings.push((warning.reason(), message));
        Ok(())
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.gathering = false;
        self.front.clear();
        self.pieces.clear();
    }

    fn add(&mut self, pieces: Vec<omni_text::Piece>) -> Result<(), ServeError> {
        for warning in self.front.take_warnings() {
            if self.warned < MAX_WARNINGS {
                self.warned += 1;
                self.warn(&warning);
            }
        }
        pieces.into_iter().try_for_each(|piece| self.add_piece(&piece))
    }

    fn warn(&mut self, warning: &Warning) {
        self.warnings.push((warning.reason(), warning.to_string()));
    }

    fn add_piece(&mut self, piece: &omni_text::Piece) -> Result<(), ServeError> {
        if piece.marked {
            // Eager text may have left a sequence open before the mark.
            self.end_sequence();
        }
        let text = piece.text.trim();
        let chars = text.chars().count();
        let open = self
            .open_chars
            .take()
            .filter(|open| open + 1 + chars <= self.max_chars);
        let spaced = open.map(|_| format!(" {text}"));
        let tokens = (self.encode)(spaced.as_deref().unwrap_or(text))
            .map_err(|error| InvalidField::new("text", error.to_string()))?;
        let usual = || self.last_end.map_or(Duration::ZERO, pause_after);
        let pause = piece.pause.unwrap_or_else(usual);
        self.last_end = Some(piece.end);
        if piece.open {
            self.open_chars = Some(open.map_or(0, |open| open + 1) + chars);
        }
        self.spoke |= !tokens.is_empty();
        self.source_end = piece.source.end;
        let words = piece.words().into_iter().map(|word| Word {
            source: word.source.start..word.source.end,
            spoken: word.spoken,
        });
        let words = words.collect();
        self.pieces.push_back(Piece {
            tokens,
            chars,
            position: match open {
                None => Position::First,
                Some(_) => Position::Next,
            },
            ends: !piece.open,
            pause,
            source_end: self.source_end,
            words,
            bytes: piece.text.len(),
        });
        Ok(())
    }

    /// Bytes of text that wait.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.front.buffered_bytes() + self.pieces.iter().map(|piece| piece.bytes).sum::<usize>()
    }

    /// Returns true if text waits for more text.
    pub(super) fn is_gathering(&self) -> bool {
        self.gathering && self.front.buffered_bytes() > 0
    }

    /// The next piece.
    pub(super) fn peek(&self) -> Option<&Piece> {
        self.pieces.front()
    }

    /// Takes the next piece.
    pub(super) fn next_piece(&mut self) -> Option<Piece> {
        self.pieces.pop_front()
    }

    /// Returns true if text came, even if it was empty.
    pub(super) fn was_given(&self) -> bool {
        self.given
    }

    /// Returns true if there was anything to speak so far.
    pub(super) fn spoke(&self) -> bool {
        self.spoke
    }

    /// Takes the warnings that were not taken yet: reason and message.
    pub(super) fn take_warnings(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.warnings)
    }
}

fn refused(error: &TextError) -> UtteranceError {
    match error {
        TextError::BufferFull { buffered, limit } => UtteranceError::TextBufferFull {
            got: *buffered,
            limit: *limit,
        },
        TextError::Markup { .. } => UtteranceError::Markup(error.to_string()),
        TextError::NothingSpeakable { .. } | TextError::Alphabet { .. } => {
            UtteranceError::NothingSpeakable(error.to_string())
        }
    }
}

/// Silence after a piece, in addition to the silence that trimming leaves at both sides of the cut.
fn pause_after(end: EndKind) -> Duration {
    Duration::from_millis(match end {
        EndKind::Forced => 0,
        EndKind::Flush | EndKind::Clause => 40,
        EndKind::Sentence => 120,
        EndKind::Paragraph => 350,
    })
}

#[cfg(test)]
mod tests;
