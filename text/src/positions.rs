//! Places of text before marks were taken out of it.
//!
//! The segmenter counts the characters that it gets. A mark lies between two of them, and an entity is one of them: both move all that
//! comes after. What moves is kept until nothing waits that lies before it.

use crate::{CharRange, Piece};

/// From characters of the text without marks to those of the text as it came.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// Characters without marks so far.
    plain: usize,
    /// Places where characters move, in order.
    moves: Vec<Move>,
    /// By how many everything moves that waits now.
    base: isize,
}

#[derive(Debug, Clone, Copy)]
struct Move {
    at: usize,
    /// By how many it and everything behind it moves, with all moves before it.
    sum: isize,
    /// The character at that place is the entity: it begins where it would without the move.
    entity: bool,
}

impl Positions {
    /// `chars` characters come as they are.
    pub(crate) fn text(&mut self, chars: usize) {
        self.plain += chars;
    }

    /// A character comes that was written in `chars`; in none if it belongs to the one before.
    pub(crate) fn entity(&mut self, chars: usize) {
        self.move_by(signed(chars) - 1, true);
        self.plain += 1;
    }

    /// `chars` characters are left out.
    pub(crate) fn mark(&mut self, chars: usize) {
        self.move_by(signed(chars), false);
    }

    fn move_by(&mut self, by: isize, entity: bool) {
        let sum = self.moves.last().map_or(self.base, |last| last.sum) + by;
        match self.moves.last_mut() {
            Some(last) if !entity && !last.entity && last.at == self.plain => last.sum = sum,
            _ => self.moves.push(Move {
                at: self.plain,
                sum,
                entity,
            }),
        }
    }

    /// Gives a piece the positions of the text as it came.
    pub(crate) fn place(&self, piece: &mut Piece) {
        if self.base == 0 && self.moves.is_empty() {
            return;
        }
        piece.source = self.range(piece.source);
        for span in &mut piece.spans {
            span.source = self.range(span.source);
        }
    }

    /// No piece that is still to come begins before this character.
    pub(crate) fn forget_before(&mut self, plain: usize) {
        let past = self.moves.partition_point(|step| step.at < plain);
        self.base = self
            .moves
            .drain(..past)
            .next_back()
            .map_or(self.base, |step| step.sum);
    }

    /// The place of characters of the text without marks.
    pub(crate) fn range(&self, plain: CharRange) -> CharRange {
        let start = self.start(plain.start);
        if plain.is_empty() {
            return CharRange::new(start, start);
        }
        // The end is behind the last character, not before the one that a mark keeps away.
        let end = self.end(plain.end - 1);
        match end > start {
            true => CharRange::new(start, end),
            // What has no place of its own stands where the character before it does.
            false => CharRange::new(end.saturating_sub(1), end.max(1)),
        }
    }

    /// The beginning of a character.
    fn start(&self, plain: usize) -> usize {
        self.moved(plain, |step| step.at < plain || step.at == plain && !step.entity)
    }

    /// The end of a character.
    fn end(&self, plain: usize) -> usize {
        self.moved(plain + 1, |step| step.at <= plain)
    }

    fn moved(&self, plain: usize, counts: impl Fn(&Move) -> bool) -> usize {
        let counted = self.moves.partition_point(counts);
        let by = counted
            .checked_sub(1)
            .map_or(self.base, |last| self.moves[last].sum);
        plain.saturating_add_signed(by)
    }
}

fn signed(chars: usize) -> isize {
    isize::try_from(chars).unwrap_or(isize::MAX)
}
