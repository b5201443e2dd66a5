//! Where text stood before marks were taken out of it.
//!
//! The segmenter counts the characters that it gets. A mark lies between two of them, and an entity is one of them: both move all that
//! comes after. What moves is kept until nothing waits that lies before it.

use crate::{CharRange, Piece};

/// From characters of the text without marks to those of the text as it came.
#[derive(Debug, Default)]
pub(super) struct Positions {
    /// Characters without marks so far.
    plain: usize,
    /// Where characters move, in order, and by how many more than those before.
    moves: Vec<(usize, usize)>,
    /// By how many everything moves that waits now.
    base: usize,
}

impl Positions {
    /// `chars` characters come as they are.
    pub(super) fn text(&mut self, chars: usize) {
        self.plain += chars;
    }

    /// A character comes that was written in `chars`.
    pub(super) fn entity(&mut self, chars: usize) {
        self.moves.push((self.plain, chars.saturating_sub(1)));
        self.plain += 1;
    }

    /// `chars` characters are left out.
    pub(super) fn mark(&mut self, chars: usize) {
        self.moves.push((self.plain, chars));
    }

    /// Gives a piece the positions of the text as it came.
    pub(super) fn place(&self, piece: &mut Piece) {
        if self.base == 0 && self.moves.is_empty() {
            return;
        }
        piece.source = self.range(piece.source);
        for span in &mut piece.spans {
            span.source = self.range(span.source);
        }
    }

    /// No piece that is still to come begins before this character.
    pub(super) fn forget_before(&mut self, plain: usize) {
        let past = self.moves.partition_point(|(at, _)| *at < plain);
        self.base += self.moves.drain(..past).map(|(_, by)| by).sum::<usize>();
    }

    fn range(&self, plain: CharRange) -> CharRange {
        match plain.is_empty() {
            true => CharRange::new(self.at(plain.start), self.at(plain.start)),
            // The end is behind the last character, not before the one that a mark keeps away.
            false => CharRange::new(self.at(plain.start), self.at(plain.end - 1) + 1),
        }
    }

    fn at(&self, plain: usize) -> usize {
        let moves = self.moves.iter().take_while(|(at, _)| *at <= plain);
        plain + self.base + moves.map(|(_, by)| by).sum::<usize>()
    }
}
