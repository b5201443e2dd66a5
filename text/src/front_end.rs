//! The whole front end of one stream of utterances: text in any chunking in, pieces ready to speak out.
//!
//! Takes marks out of the text, segments it, writes each segment as words, and cuts again what the words made too long. Owned by the session that
//! reads the text. Never waits and never speaks.

mod resplit;

use core::time::Duration;

use crate::markup::{Ignored, LONGEST_PAUSE, Markup, Part};
use crate::positions::Positions;
use crate::{
    Buffering, EndKind, Normalizer, Piece, Segment, Segmenter, SegmenterOptions, Skipped, TextError, Warning,
};

/// Options of a [`FrontEnd`].
#[derive(Debug, Clone)]
pub struct FrontEndOptions {
    /// The points at which text is released.
    pub buffering: Buffering,
    /// Most characters of a piece.
    pub max_chars: usize,
    /// Most bytes that wait for a flush; only manual buffering ever comes near it.
    pub max_buffered_bytes: usize,
    /// Writes the text as words; `None` for a model that reads raw text: it is only cut then.
    pub normalizer: Option<Normalizer>,
}

impl Default for FrontEndOptions {
    fn default() -> Self {
        Self {
            buffering: Buffering::Sentence,
            max_chars: 200,
            max_buffered_bytes: 64 * 1024,
            normalizer: None,
        }
    }
}

/// Turns the text of one utterance after another into pieces to speak.
#[derive(Debug)]
pub struct FrontEnd {
    segmenter: Segmenter,
    markup: Markup,
    /// Text that waits for a flush, if all does.
    held: Option<String>,
    positions: Positions,
    /// A mark stands before the next piece.
    marked: bool,
    /// The pause that marks ask for before the next piece.
    pause: Option<Duration>,
    normalizer: Option<Normalizer>,
    eager: bool,
    max_chars: usize,
    max_buffered_bytes: usize,
    /// Characters that were left out and not asked for yet.
    unreported: Skipped,
    ignored: Ignored,
    /// Characters that were left out in the whole utterance.
    skipped: Skipped,
    spoken: bool,
}

impl FrontEnd {
    /// One without text.
    pub fn new(options: FrontEndOptions) -> Self {
        let manual = options.buffering == Buffering::Manual;
        let segmenter = SegmenterOptions {
            // Text that waits for a flush waits here, with its marks.
            buffering: if manual {
                Buffering::Sentence
            } else {
                options.buffering
            },
            max_chars: options.max_chars,
            max_token_chars: options.max_chars.saturating_mul(4),
            ..SegmenterOptions::default()
        };
        Self {
            segmenter: Segmenter::new(segmenter),
            markup: Markup::new(options.normalizer.is_some()),
            held: manual.then(String::new),
            positions: Positions::default(),
            marked: false,
            pause: None,
            normalizer: options.normalizer,
            eager: options.buffering == Buffering::Eager,
            max_chars: options.max_chars.max(1),
            max_buffered_bytes: options.max_buffered_bytes,
            unreported: Skipped::default(),
            ignored: Ignored::default(),
            skipped: Skipped::default(),
            spoken: false,
        }
    }

    /// Takes more text and returns the pieces that are certain now.
    ///
    /// # Errors
    /// [`TextError::BufferFull`] if more text would wait than may; nothing of `text` is taken then. [`TextError::Markup`] for SSML that
    /// cannot be followed; all that waits is dropped then, and the next text is that of a new utterance.
    pub fn push(&mut self, text: &str) -> Result<Vec<Piece>, TextError> {
        let Some(held) = &mut self.held else {
            let parts = self.markup.push(text);
            return self.speak_or_clear(parts);
        };
        let buffered = held.len() + text.len();
        if buffered > self.max_buffered_bytes {
            return Err(TextError::BufferFull {
                buffered,
                limit: self.max_buffered_bytes,
            });
        }
        held.push_str(text);
        Ok(Vec::new())
    }

    /// Returns everything that is buffered; the utterance goes on.
    ///
    /// # Errors
    /// [`TextError::Markup`] for SSML that cannot be followed, in text that waited for this.
    pub fn flush(&mut self) -> Result<Vec<Piece>, TextError> {
        let held = self.held.as_mut().map(std::mem::take).unwrap_or_default();
        let parts = self.markup.push(&held);
        let mut pieces = self.speak_or_clear(parts)?;
        let rest = self.markup.flush();
        pieces.extend(self.speak(rest));
        let segments = self.segmenter.flush();
        pieces.extend(self.pieces(&segments));
        Ok(pieces)
    }

    /// Ends the utterance: returns everything that is buffered. The next text is that of a new utterance.
    ///
    /// # Errors
    /// [`TextError::NothingSpeakable`] if there was nothing to speak in the whole utterance; [`TextError::Markup`] as for
    /// [`Self::flush`].
    pub fn finish(&mut self) -> Result<Vec<Piece>, TextError> {
        let pieces = self.flush()?;
        self.segmenter.clear();
        self.begin();
        let spoken = std::mem::take(&mut self.spoken);
        let skipped = std::mem::take(&mut self.skipped);
        if spoken {
            Ok(pieces)
        } else {
            Err(TextError::NothingSpeakable { skipped })
        }
    }

    /// Drops what is buffered and makes ready for a new utterance.
    pub fn clear(&mut self) {
        self.segmenter.clear();
        self.begin();
        if let Some(held) = &mut self.held {
            held.clear();
        }
        self.unreported = Skipped::default();
        self.ignored = Ignored::default();
        self.skipped = Skipped::default();
        self.spoken = false;
    }

    /// Bytes of text that wait.
    pub fn buffered_bytes(&self) -> usize {
        let held = self.held.as_ref().map_or(0, String::len);
        held + self.markup.held_bytes() + self.segmenter.buffered_bytes()
    }

    /// The next text is the first of an utterance.
    fn begin(&mut self) {
        self.markup = Markup::new(self.normalizer.is_some());
        self.positions = Positions::default();
        (self.marked, self.pause) = (false, None);
    }

    /// The pieces that are certain after `parts`; after an error the next text is that of a new utterance.
    fn speak_or_clear(&mut self, parts: Result<Vec<Part>, TextError>) -> Result<Vec<Piece>, TextError> {
        match parts {
            Ok(parts) => Ok(self.speak(parts)),
            Err(error) => {
                self.clear();
                Err(error)
            }
        }
    }

    /// The pieces that are certain after `parts`.
    fn speak(&mut self, parts: Vec<Part>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for part in parts {
            let segments = match &part {
                Part::Text(text) => {
                    self.positions.text(text.chars().count());
                    self.segmenter.push(text)
                }
                Part::Entity(c, chars) => {
                    self.positions.entity(*chars);
                    self.segmenter.push(c.encode_utf8(&mut [0; 4]))
                }
                Part::Skipped(chars) => {
                    self.positions.mark(*chars);
                    Vec::new()
                }
                Part::Mark { chars, .. } => {
                    self.positions.mark(*chars);
                    self.segmenter.flush()
                }
            };
            pieces.extend(self.pieces(&segments));
            if let Part::Mark { pause, .. } = part {
                self.marked = true;
                let asked = pause.map(|pause| (self.pause.unwrap_or_default() + pause).min(LONGEST_PAUSE));
                self.pause = asked.or(self.pause);
            }
        }
        self.ignored.merge(self.markup.take_ignored());
        pieces
    }

    /// Warnings about text that is not spoken, since this was last called. To be asked after every call that returns pieces, and after
    /// one that fails.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        let skipped = std::mem::take(&mut self.unreported);
        let mut warnings = Vec::new();
        if !skipped.is_empty() {
            warnings.push(Warning::CharactersSkipped(skipped));
        }
        let ignored = std::mem::take(&mut self.ignored);
        if !ignored.is_empty() {
            warnings.push(Warning::MarkupIgnored(ignored));
        }
        warnings
    }

    fn pieces(&mut self, segments: &[Segment]) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = segments.iter().flat_map(|segment| self.piece(segment)).collect();
        for piece in &mut pieces {
            self.positions.place(piece);
        }
        self.positions.forget_before(self.segmenter.buffered_from());
        if let Some(first) = pieces.first_mut() {
            first.marked = std::mem::take(&mut self.marked);
            first.pause = self.pause.take();
            self.spoken = true;
        }
        pieces
    }

    fn piece(&mut self, segment: &Segment) -> Vec<Piece> {
        let Some(normalizer) = &self.normalizer else {
            let mut pieces = resplit::raw(segment, self.max_chars);
            for piece in &mut pieces {
                piece.open = self.eager && piece.end == EndKind::Forced;
            }
            return pieces;
        };
        let normalized = normalizer.convert(&segment.text);
        self.unreported.merge(&normalized.skipped);
        self.skipped.merge(&normalized.skipped);
        let piece = Piece {
            text: normalized.text,
            source: segment.source,
            marked: false,
            pause: None,
            end: segment.end,
            open: false,
            spans: normalized
                .spans
                .into_iter()
                .map(|span| span.in_source(segment.source.start))
                .collect(),
        };
        resplit::spoken(&piece, self.max_chars, self.eager)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CharRange, Language};

    fn front_end(normalized: bool) -> FrontEnd {
        let normalizer = Normalizer::new(Language::English, "abcdefghijklmnopqrstuvwxyz .,?!'-:;").unwrap();
        FrontEnd::new(FrontEndOptions {
            normalizer: normalized.then_some(normalizer),
            ..FrontEndOptions::default()
        })
    }

    fn spoken(front_end: &mut FrontEnd, text: &str) -> Vec<Piece> {
        let mut pieces = front_end.push(text).unwrap();
        pieces.extend(front_end.finish().unwrap());
        pieces
    }

    #[test]
    fn a_mark_ends_the_piece_and_asks_for_a_pause_before_the_next() {
        for normalized in [false, true] {
            let pieces = spoken(
                &mut front_end(normalized),
                "Well [pause:1s][pause:500ms] yes. No.",
            );
            let pauses: Vec<_> = pieces.iter().map(|piece| piece.pause).collect();
            assert_eq!(
                pauses,
                [None, Some(Duration::from_millis(1_500)), None],
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn pauses_beside_each_other_add_up_to_a_limit() {
        let text = format!("One.{}Two.", "<break time='9s'/>".repeat(3));
        assert_eq!(spoken(&mut front_end(true), &text)[1].pause, Some(LONGEST_PAUSE));
    }

    #[test]
    fn positions_are_those_of_the_text_with_its_marks() {
        let text = "<speak>R&amp;D is<break/> fun. Yes.</speak>";
        let at = |part: &str| {
            let start = text.find(part).unwrap();
            CharRange::new(start, start + part.len())
        };
        for normalized in [false, true] {
            let mut front_end = front_end(normalized);
            // The second time all begins anew.
            for _ in 0..2 {
                let pieces = spoken(&mut front_end, text);
                let sources: Vec<_> = pieces.iter().map(|piece| piece.source).collect();
                assert_eq!(sources, [at("R&amp;D is"), at("fun."), at("Yes.")], "{pieces:?}");
                let words: Vec<_> = pieces[1..]
                    .iter()
                    .map(|piece| piece.spans[0].source.start)
                    .collect();
                assert_eq!(words, [at("fun").start, at("Yes").start]);
            }
        }
    }

    #[test]
    fn words_that_are_spoken_as_written_have_the_place_of_their_entities() {
        let text = "<speak>&quot;Hi&quot; R&amp;D is fun</speak>";
        let pieces = spoken(&mut front_end(false), text);
        let at = |part: &str| {
            let start = text.find(part).unwrap();
            CharRange::new(start, start + part.len())
        };
        assert_eq!(pieces[0].source, at("&quot;Hi&quot; R&amp;D is fun"));
        let words: Vec<_> = pieces[0]
            .words()
            .into_iter()
            .map(|word| (word.spoken, word.source))
            .collect();
        let expected = [
            ("\"Hi\" ", "&quot;Hi&quot;"),
            ("R&D ", "R&amp;D"),
            ("is ", "is"),
            ("fun", "fun"),
        ];
        let expected = expected.map(|(spoken, written)| (spoken.to_owned(), at(written)));
        assert_eq!(words, expected);
    }

    #[test]
    fn words_stand_where_their_notation_is() {
        let text = "See [the guide](http://x.y) for $\\frac{a}{b}$ &amp; more.[1] Next.";
        let pieces = spoken(&mut front_end(true), text);
        let texts: Vec<&str> = pieces.iter().map(|piece| piece.text.as_str()).collect();
        assert_eq!(texts, ["see the guide for a over b and more.", "next."]);
        let chars: Vec<char> = text.chars().collect();
        let written = |source: CharRange| chars[source.start..source.end].iter().collect::<String>();
        let words: Vec<(String, String)> = pieces[0]
            .words()
            .into_iter()
            .map(|word| (word.spoken.trim_end().to_owned(), written(word.source)))
            .collect();
        let words: Vec<(&str, &str)> = words
            .iter()
            .map(|(said, written)| (said.as_str(), written.as_str()))
            .collect();
        assert_eq!(
            words[..4],
            [("see", "See"), ("the", "the"), ("guide", "guide"), ("for", "for")]
        );
        assert_eq!(words[7], ("and", "&amp;"));
        assert_eq!(words[8], ("more.", "more"));
    }

    #[test]
    fn markup_that_is_left_out_is_warned_of_once() {
        let mut front_end = front_end(true);
        front_end.push("<foo>Hello</foo> there, <b>you</b>.").unwrap();
        front_end.finish().unwrap();
        let warnings = front_end.take_warnings();
        let [Warning::MarkupIgnored(ignored)] = &warnings[..] else {
            panic!("{warnings:?}");
        };
        assert_eq!(ignored.names(), ["<foo>", "</foo>"]);
        assert_eq!(warnings[0].reason(), "MARKUP_IGNORED");
        assert!(front_end.take_warnings().is_empty());
    }

    #[test]
    fn a_mark_may_ask_for_no_pause_at_all_or_for_none_of_its_own() {
        let pieces = spoken(&mut front_end(true), "One.[pause:0s]Two.");
        assert_eq!((pieces[1].marked, pieces[1].pause), (true, Some(Duration::ZERO)));
        let pieces = spoken(&mut front_end(true), "<speak><s>One</s><s>Two</s></speak>");
        assert_eq!((pieces[1].marked, pieces[1].pause), (true, None));
    }

    #[test]
    fn after_an_error_the_next_text_is_that_of_a_new_utterance() {
        let mut front_end = front_end(true);
        assert!(front_end.push("<speak>One. Two <prosody>").is_err());
        let pieces = spoken(&mut front_end, "a < b. Three.");
        assert_eq!(pieces.last().unwrap().source, CharRange::new(7, 13));
        assert!(!pieces[0].marked);
    }

    #[test]
    fn a_word_with_an_entity_is_one_word() {
        let pieces = spoken(&mut front_end(true), "<speak>I don&apos;t.</speak>");
        assert_eq!(pieces[0].spans.len(), 2, "{pieces:?}");
    }

    #[test]
    fn a_text_of_marks_alone_has_nothing_to_speak() {
        let mut front_end = front_end(true);
        assert_eq!(front_end.push("<speak><break/></speak>").unwrap(), []);
        assert!(matches!(
            front_end.finish(),
            Err(TextError::NothingSpeakable { .. })
        ));
    }
}
