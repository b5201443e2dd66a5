//! The text of one utterance: gathered, cut, written as words, and turned into tokens.
//!
//! In: text in any chunking. Out: [`Piece`]s in order, each the tokens of one sequence or of a part of one. With eager
//! buffering a sentence goes to the model word by word as one sequence: it sounds as if it had been known from the start.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use omni_text::{EndKind, FrontEnd, FrontEndOptions, TextError};

use super::alignment::{Word, is_syllable};
use super::error::UtteranceError;
use super::settings::Buffering;
use crate::error::{InvalidField, ServeError};
use crate::model::SpeechInfo;
use crate::orchestrator::TextEncoder;

/// Warnings per utterance; more say nothing new.
const MAX_WARNINGS: usize = 8;

/// Tokens to speak.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) tokens: Vec<u32>,
    /// Characters that the tokens stand for.
    pub(super) chars: usize,
    /// Whether it goes on in the sequence of the piece before it.
    pub(super) continues: bool,
    /// Whether it belongs to no other sequence than that one: when the model has ended it, nothing comes after.
    pub(super) verbatim: bool,
    /// Whether its sequence ends with it.
    pub(super) ends: bool,
    /// Silence before it, if it begins a sequence.
    pub(super) pause: Duration,
    /// Characters of the utterance's text up to the end of what it stands for.
    pub(super) source_end: usize,
    /// The parts of that text that are spoken as one, each with how it is.
    pub(super) words: Vec<Word>,
    bytes: usize,
}

/// The text of one utterance.
pub(super) struct TextFront {
    front: FrontEnd,
    encode: TextEncoder,
    pieces: VecDeque<Piece>,
    eager: bool,
    normalized: bool,
    max_chars: usize,
    gathering: bool,
    spoke: bool,
    /// How the last piece ended.
    last_end: Option<EndKind>,
    /// Characters in the sequence that the last piece left open.
    open_chars: Option<usize>,
    /// Where the text of the last piece ends.
    source_end: usize,
    warnings: Vec<(&'static str, String)>,
    warned: usize,
    /// Whether text came, be it empty.
    given: bool,
    /// Whether text with nothing to speak is refused.
    strict: bool,
}

impl fmt::Debug for TextFront {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the text itself.
        f.debug_struct("TextFront")
            .field("pieces", &self.pieces.len())
            .finish_non_exhaustive()
    }
}

impl TextFront {
    pub(super) fn new(
        info: &SpeechInfo,
        encode: TextEncoder,
        buffering: Buffering,
        max_buffered_bytes: usize,
    ) -> Self {
        let options = FrontEndOptions {
            buffering: match buffering {
                Buffering::Sentence => omni_text::Buffering::Sentence,
                Buffering::Clause => omni_text::Buffering::Clause,
                Buffering::Eager => omni_text::Buffering::Eager,
                Buffering::Manual => omni_text::Buffering::Manual,
            },
            max_chars: info.max_characters,
            max_buffered_bytes,
            normalizer: info.normalizer.clone(),
        };
        Self {
            front: FrontEnd::new(options),
            encode,
            pieces: VecDeque::new(),
            eager: buffering == Buffering::Eager,
            normalized: info.normalizer.is_some(),
            max_chars: info.max_characters,
            gathering: false,
            spoke: false,
            last_end: None,
            open_chars: None,
            source_end: 0,
            warnings: Vec::new(),
            warned: 0,
            given: false,
            strict: info.terms.strict,
        }
    }

    /// Takes more text.
    pub(super) fn push(&mut self, text: &str) -> Result<(), ServeError> {
        self.given = true;
        let visible = !text.trim().is_empty();
        self.gathering |= visible;
        let pieces = self.front.push(text).map_err(|error| refused(&error))?;
        self.add(pieces)
    }

    /// Speaks what is gathered.
    pub(super) fn flush(&mut self) -> Result<(), ServeError> {
        self.gathering = false;
        let pieces = self.front.flush().map_err(|error| refused(&error))?;
        self.add(pieces)?;
        // If nothing was left that could be spoken, the sequence would wait for an end for ever.
        self.end_sequence();
        Ok(())
    }

    /// Ends the sequence that the last piece left open, if it did. Text that comes later begins another; a word that is not
    /// complete stays gathered.
    pub(super) fn end_sequence(&mut self) {
        if self.open_chars.take().is_none() {
            return;
        }
        self.last_end = Some(EndKind::Flush);
        self.pieces.push_back(Piece {
            tokens: Vec::new(),
            chars: 0,
            continues: true,
            verbatim: false,
            ends: true,
            pause: Duration::ZERO,
            source_end: self.source_end,
            words: Vec::new(),
            bytes: 0,
        });
    }

    /// Takes tokens as they are, for `text`; they go on in one sequence until it is ended. Not to be mixed with text.
    pub(super) fn push_tokens(&mut self, tokens: Vec<u32>, text: &str) {
        let chars = text.chars().count();
        let open = self.open_chars;
        self.open_chars = Some(open.unwrap_or(0) + chars);
        let source = self.source_end..self.source_end + chars;
        self.source_end = source.end;
        // Half a word may be a token: ends of words are found later, where words are asked for.
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
            continues: open.is_some(),
            verbatim: true,
            ends: false,
            pause: Duration::ZERO,
            source_end: self.source_end,
            words,
            bytes: text.len(),
        });
    }

    /// No more text will come. An utterance without any text is fine; one with nothing that can be spoken is warned of.
    pub(super) fn finish(&mut self) -> Result<(), ServeError> {
        self.gathering = false;
        match self.front.finish() {
            Ok(pieces) => self.add(pieces),
            Err(error @ TextError::Markup { .. }) => Err(refused(&error).into()),
            Err(_) if self.spoke || !self.given => Ok(()),
            Err(error) if self.strict => Err(refused(&error).into()),
            Err(_) => {
                let message = "the text has nothing to speak, its audio is a short silence".to_owned();
                self.add(Vec::new())?;
                self.warnings.push(("NOTHING_SPEAKABLE", message));
                Ok(())
            }
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.gathering = false;
        self.front.clear();
        self.pieces.clear();
    }

    fn add(&mut self, pieces: Vec<omni_text::Piece>) -> Result<(), ServeError> {
        if let Some(skipped) = self.front.take_skipped()
            && self.warned < MAX_WARNINGS
        {
            self.warned += 1;
            self.warnings.push(("CHARACTERS_SKIPPED", skipped.to_string()));
        }
        pieces.into_iter().try_for_each(|piece| self.add_piece(&piece))
    }

    fn add_piece(&mut self, piece: &omni_text::Piece) -> Result<(), ServeError> {
        let ends = !(self.eager && piece.end == EndKind::Forced);
        if piece.marked {
            // Eager text may have left a sequence open before the mark.
            self.end_sequence();
        }
        let mut text = piece.text.trim();
        if !ends && self.normalized {
            // Every normalised piece is closed by a full stop; this one goes on.
            text = text.trim_end_matches('.').trim_end();
        }
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
        if !ends {
            self.open_chars = Some(open.map_or(0, |open| open + 1) + chars);
        }
        self.spoke |= !tokens.is_empty();
        let continues = open.is_some();
        self.source_end = piece.source.end;
        let mut words = words(piece, self.normalized);
        if !ends
            && self.normalized
            && let Some(last) = words.last_mut()
        {
            let kept = last.spoken.trim_end_matches('.').len();
            last.spoken.truncate(kept);
        }
        self.pieces.push_back(Piece {
            tokens,
            chars,
            continues,
            verbatim: false,
            ends,
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

    /// Whether text waits for more text.
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

    /// Whether text came, be it empty.
    pub(super) fn was_given(&self) -> bool {
        self.given
    }

    /// Whether there was anything to speak so far.
    pub(super) fn spoke(&self) -> bool {
        self.spoke
    }

    /// Warnings that were not given out yet: reason and message.
    pub(super) fn take_warnings(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.warnings)
    }
}

/// The words of a piece: as its normaliser tells them, or as they are written.
fn words(piece: &omni_text::Piece, normalized: bool) -> Vec<Word> {
    let chars: Vec<char> = piece.text.chars().collect();
    let text = |from: usize, to: usize| chars[from.min(chars.len())..to.min(chars.len())].iter().collect();
    if normalized {
        let ends = piece.spans.iter().skip(1).map(|span| span.spoken.start);
        let ends = ends.chain([chars.len()]);
        let words = piece.spans.iter().zip(ends).map(|(span, end)| Word {
            source: span.source.start..span.source.end,
            spoken: text(span.spoken.start, end),
        });
        return words.collect();
    }
    let mut words = Vec::new();
    let mut from = 0;
    for to in 1..=chars.len() {
        if to < chars.len() && !parts(chars[to - 1], chars[to]) {
            continue;
        }
        let blank = chars[from..to].iter().all(|c| c.is_whitespace());
        if !blank {
            words.push(Word {
                source: written_at(piece, from).start..written_at(piece, to - 1).end,
                spoken: text(from, to),
            });
        }
        from = to;
    }
    words
}

/// Where character `at` of a piece that is spoken as it is written stands in the text.
fn written_at(piece: &omni_text::Piece, at: usize) -> std::ops::Range<usize> {
    let span = piece
        .spans
        .iter()
        .find(|span| (span.spoken.start..span.spoken.end).contains(&at));
    let Some(span) = span else {
        return piece.source.start + at..piece.source.start + at + 1;
    };
    let start = span.source.start + (at - span.spoken.start);
    // An entity is one character, and takes several.
    let end = if at + 1 == span.spoken.end {
        span.source.end
    } else {
        start + 1
    };
    start..end
}

/// Whether one word ends and another begins between two characters; white space belongs to the word behind it.
fn parts(before: char, c: char) -> bool {
    let letter = |c: char| c.is_alphanumeric();
    !before.is_whitespace() && c.is_whitespace()
        || letter(before) && letter(c) && (is_syllable(before) || is_syllable(c))
        || !letter(before) && !before.is_whitespace() && is_syllable(c)
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

/// Silence after a piece, on top of what trimming leaves at both sides of the cut.
fn pause_after(end: EndKind) -> Duration {
    Duration::from_millis(match end {
        EndKind::Forced => 0,
        EndKind::Flush | EndKind::Clause => 40,
        EndKind::Sentence => 120,
        EndKind::Paragraph => 350,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use omni_audio::{SampleRate, SamplesPerFrame};

    use super::*;
    use crate::model::VoiceInfo;
    use omni_pipeline::request::Sampling;

    /// Tokens are characters.
    fn front(buffering: Buffering) -> TextFront {
        let info = SpeechInfo {
            id: "m".into(),
            display_name: "m".into(),
            description: String::new(),
            languages: vec![],
            detects_language: false,
            instructions: false,
            voices: vec![VoiceInfo {
                id: "v".into(),
                display_name: "v".into(),
                description: String::new(),
            }],
            voice_support: Default::default(),
            sample_rate: SampleRate::new(16_000).unwrap(),
            samples_per_frame: SamplesPerFrame(640.try_into().unwrap()),
            leading_silence_frames: 0,
            max_frames: 100,
            max_context: 200,
            default_sampling: Sampling::default(),
            normalizer: None,
            max_characters: 60,
            terms: crate::model::Terms::default(),
        };
        TextFront::new(
            &info,
            Arc::new(|text| Ok(text.chars().map(u32::from).collect())),
            buffering,
            1000,
        )
    }

    fn text(piece: &Piece) -> String {
        piece
            .tokens
            .iter()
            .filter_map(|&token| char::from_u32(token))
            .collect()
    }

    #[test]
    fn eager_text_goes_on_in_one_sequence_as_if_it_had_been_whole() {
        let sentence = "the quick brown fox jumps over the lazy dog again.";
        let mut eager = front(Buffering::Eager);
        for c in sentence.chars() {
            eager.push(&c.to_string()).unwrap();
        }
        eager.finish().unwrap();
        let pieces: Vec<_> = eager.pieces.iter().collect();
        assert!(pieces.len() > 1, "{pieces:?}");
        assert!(!pieces[0].continues && pieces[1..].iter().all(|piece| piece.continues));
        assert!(pieces[..pieces.len() - 1].iter().all(|piece| !piece.ends) && pieces[pieces.len() - 1].ends);
        assert_eq!(pieces.into_iter().map(text).collect::<String>(), sentence);
    }

    /// Eager text whose words are all on their way, and none is left in the buffer.
    fn under_way() -> TextFront {
        let mut eager = front(Buffering::Eager);
        eager.push("the quick brown fox jumps over ").unwrap();
        assert!(eager.pieces.back().is_some_and(|piece| !piece.ends));
        while eager.next_piece().is_some() {}
        eager
    }

    #[test]
    fn a_flush_ends_the_open_sequence_even_if_nothing_speakable_is_left() {
        for rest in ["", " ", " \n"] {
            let mut eager = under_way();
            eager.push(rest).unwrap();
            eager.flush().unwrap();
            let last = eager.pieces.back().expect("an end");
            assert!(last.continues && last.ends, "{rest:?}: {last:?}");
            eager.push("and then the dog went home. ").unwrap();
            let pieces: Vec<_> = eager.pieces.iter().skip_while(|piece| piece.continues).collect();
            assert!(!pieces[0].tokens.is_empty() && !pieces[0].pause.is_zero());
        }
    }

    #[test]
    fn a_sequence_that_is_ended_keeps_the_word_that_is_not_complete() {
        let mut eager = front(Buffering::Eager);
        eager.push("the quick brown fox jumps over the la").unwrap();
        eager.end_sequence();
        assert!(
            eager
                .pieces
                .back()
                .is_some_and(|piece| piece.ends && piece.tokens.is_empty())
        );
        eager.push("zy dog.").unwrap();
        eager.finish().unwrap();
        let rest: String = eager
            .pieces
            .iter()
            .skip_while(|piece| !piece.ends)
            .map(text)
            .collect();
        assert!(rest.ends_with("lazy dog.") && !rest.contains("quick"), "{rest:?}");
    }

    #[test]
    fn a_sequence_never_outgrows_the_model() {
        let mut eager = front(Buffering::Eager);
        eager.push(&"word ".repeat(60)).unwrap();
        eager.finish().unwrap();
        let mut length = 0;
        for piece in &eager.pieces {
            length = piece.tokens.len() + if piece.continues { length } else { 0 };
            assert!(length <= 60, "{piece:?}");
        }
    }

    #[test]
    fn nothing_at_all_is_fine_and_nothing_but_white_space_too() {
        assert_eq!(front(Buffering::Sentence).finish(), Ok(()));
        let mut blank = front(Buffering::Sentence);
        blank.push(" \n ").unwrap();
        assert_eq!(blank.finish(), Ok(()));
        assert!(!blank.spoke());
    }

    #[test]
    fn ssml_that_is_not_followed_is_refused_by_name_however_it_is_cut() {
        let mut front = front(Buffering::Sentence);
        front.push("<spe").unwrap();
        let refused = front
            .push("ak>hello <prosody rate='slow'>you</prosody></speak>")
            .unwrap_err();
        assert_eq!(refused.reason(), "MARKUP_NOT_SUPPORTED");
        assert!(refused.message().contains("<prosody>"), "{}", refused.message());
    }

    #[test]
    fn a_mark_asks_for_its_own_pause_in_every_buffering() {
        for buffering in [
            Buffering::Sentence,
            Buffering::Clause,
            Buffering::Eager,
            Buffering::Manual,
        ] {
            let mut front = front(buffering);
            front.push("one two [pause:7").unwrap();
            front.push("50ms] three four.").unwrap();
            front.finish().unwrap();
            let pieces: Vec<_> = front.pieces.drain(..).collect();
            let at = pieces
                .iter()
                .position(|piece| piece.pause == Duration::from_millis(750));
            let at = at.unwrap_or_else(|| panic!("{buffering:?}: {pieces:?}"));
            assert!(
                !pieces[at].continues && pieces[at - 1].ends,
                "{buffering:?}: {pieces:?}"
            );
            let before: String = pieces[..at].iter().map(text).collect();
            assert!(
                before.contains("two") && !before.contains("pause"),
                "{buffering:?}: {before}"
            );
            assert_eq!(
                pieces.last().unwrap().source_end,
                "one two [pause:750ms] three four.".len()
            );
        }
    }

    #[test]
    fn sentences_are_separate_sequences_with_a_pause_between() {
        let mut front = front(Buffering::Sentence);
        front.push("One is here. Two is there.").unwrap();
        front.finish().unwrap();
        let (one, two) = (front.next_piece().unwrap(), front.next_piece().unwrap());
        assert_eq!(
            (text(&one).as_str(), text(&two).as_str()),
            ("One is here.", "Two is there.")
        );
        assert!(one.pause.is_zero() && !two.pause.is_zero());
        assert!(one.ends && !two.continues);
    }
}
