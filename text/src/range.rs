//! Positions in text, always counted in Unicode scalar values and never in bytes.

/// A half-open range of Unicode scalar values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CharRange {
    /// First character.
    pub start: usize,
    /// One past the last character.
    pub end: usize,
}

impl CharRange {
    /// The range `start..end`.
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end);
        Self { start, end }
    }

    /// Number of characters.
    pub fn len(self) -> usize {
        self.end - self.start
    }

    /// True if it holds no character.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub(crate) fn shifted(self, by: usize) -> Self {
        Self::new(self.start + by, self.end + by)
    }
}

/// The input that a stretch of output says. Spans of one text are in order and do not overlap in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Characters of the spoken text.
    pub spoken: CharRange,
    /// Characters of the input they stand for.
    pub source: CharRange,
}

impl Span {
    /// The span of a text that starts at `offset` of a larger one.
    pub(crate) fn in_source(self, offset: usize) -> Self {
        Self {
            source: self.source.shifted(offset),
            ..self
        }
    }
}
