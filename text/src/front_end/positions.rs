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
    /// Where characters move, in order.
    moves: Vec<Move>,
    /// By how many everything moves that waits now.
    base: usize,
}

#[derive(Debug, Clone, Copy)]
struct Move {
    at: usize,
    /// By how many more than the characters before.
    by: usize,
    /// The character at that place is the entity: it begins where it would without the move.
    entity: bool,
}

impl Positions {
    /// `chars` characters come as they are.
    pub(super) fn text(&mut self, chars: usize) {
        self.plain += chars;
    }

    /// A character comes that was written in `chars`.
    pub(super) fn entity(&mut self, chars: usize) {
        self.move_by(chars.saturating_sub(1), true);
        self.plain += 1;
    }

    /// `chars` characters are left out.
    pub(super) fn mark(&mut self, chars: usize) {
        self.move_by(chars, false);
    }

    fn move_by(&mut self, by: usize, entity: bool) {
        self.moves.push(Move {
            at: self.plain,
            by,
            entity,
        });
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
        let past = self.moves.partition_point(|step| step.at < plain);
        self.base += self.moves.drain(..past).map(|step| step.by).sum::<usize>();
    }

    fn range(&self, plain: CharRange) -> CharRange {
        match plain.is_empty() {
            true => CharRange::new(self.start(plain.start), self.start(plain.start)),
            // The end is behind the last character, not before the one that a mark keeps away.
            false => CharRange::new(self.start(plain.start), self.end(plain.end - 1)),
        }
    }

    /// Where a character begins.
    fn start(&self, plain: usize) -> usize {
        plain + self.moved(|step| step.at < plain || step.at == plain && !step.entity)
    }

    /// Where a character ends.
    fn end(&self, plain: usize) -> usize {
        plain + 1 + self.moved(|step| step.at <= plain)
    }

    fn moved(&self, counts: impl Fn(&Move) -> bool) -> usize {
        let moves = self.moves.iter().filter(|step| counts(step));
        self.base + moves.map(|step| step.by).sum::<usize>()
    }
}
