//! The whole front end of one stream of utterances: text in any chunking in, pieces ready to speak out.
//!
//! Segments text, writes each segment as words, and cuts again what the words made too long. Owned by the session that
//! reads the text. Never waits and never speaks.

mod resplit;

use crate::{Buffering, Normalizer, Piece, Segment, Segmenter, SegmenterOptions, Skipped, TextError};

/// How a [`FrontEnd`] works.
#[derive(Debug, Clone)]
pub struct FrontEndOptions {
    /// When text is released.
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
    normalizer: Option<Normalizer>,
    max_chars: usize,
    max_buffered_bytes: usize,
    /// What was left out since the last time somebody asked.
    unreported: Skipped,
    /// What was left out in the whole utterance.
    skipped: Skipped,
    spoken: bool,
}

impl FrontEnd {
    /// One without text.
    #[must_use]
    pub fn new(options: FrontEndOptions) -> Self {
        let segmenter = SegmenterOptions {
            buffering: options.buffering,
            max_chars: options.max_chars,
            max_token_chars: options.max_chars.saturating_mul(4),
            ..SegmenterOptions::default()
        };
        Self {
            segmenter: Segmenter::new(segmenter),
            normalizer: options.normalizer,
            max_chars: options.max_chars.max(1),
            max_buffered_bytes: options.max_buffered_bytes,
            unreported: Skipped::default(),
            skipped: Skipped::default(),
            spoken: false,
        }
    }

    /// Takes more text and returns the pieces that are certain now.
    ///
    /// # Errors
    /// [`TextError::BufferFull`] if more text would wait than may; nothing of `text` is taken then.
    pub fn push(&mut self, text: &str) -> Result<Vec<Piece>, TextError> {
        let buffered = self.segmenter.buffered_bytes() + text.len();
        if self.segmenter.holds_everything() && buffered > self.max_buffered_bytes {
            return Err(TextError::BufferFull {
                buffered,
                limit: self.max_buffered_bytes,
            });
        }
        let segments = self.segmenter.push(text);
        Ok(self.pieces(&segments))
    }

    /// Returns everything that is buffered; the utterance goes on.
    pub fn flush(&mut self) -> Vec<Piece> {
        let segments = self.segmenter.flush();
        self.pieces(&segments)
    }

    /// Ends the utterance: returns everything that is buffered. The next text is that of a new utterance.
    ///
    /// # Errors
    /// [`TextError::NothingSpeakable`] if there was nothing to speak in the whole utterance.
    pub fn finish(&mut self) -> Result<Vec<Piece>, TextError> {
        let segments = self.segmenter.finish();
        let pieces = self.pieces(&segments);
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
        self.unreported = Skipped::default();
        self.skipped = Skipped::default();
        self.spoken = false;
    }

    /// Bytes of text that wait.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.segmenter.buffered_bytes()
    }

    /// What was left out since this was last called; `None` if nothing was. To be asked after every call that returns
    /// pieces, for a warning.
    pub fn take_skipped(&mut self) -> Option<Skipped> {
        let skipped = std::mem::take(&mut self.unreported);
        (!skipped.is_empty()).then_some(skipped)
    }

    fn pieces(&mut self, segments: &[Segment]) -> Vec<Piece> {
        let pieces: Vec<Piece> = segments.iter().flat_map(|segment| self.piece(segment)).collect();
        self.spoken |= !pieces.is_empty();
        pieces
    }

    fn piece(&mut self, segment: &Segment) -> Vec<Piece> {
        let Some(normalizer) = &self.normalizer else {
            return resplit::raw(segment, self.max_chars);
        };
        let normalized = normalizer.convert(&segment.text);
        self.unreported.merge(&normalized.skipped);
        self.skipped.merge(&normalized.skipped);
        let piece = Piece {
            text: normalized.text,
            source: segment.source,
            end: segment.end,
            spans: normalized
                .spans
                .into_iter()
                .map(|span| span.in_source(segment.source.start))
                .collect(),
        };
        resplit::spoken(&piece, self.max_chars)
    }
}
