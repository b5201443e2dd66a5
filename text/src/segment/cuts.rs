//! Places where a segment could be cut if it grows too long.

use super::EndKind;

/// The last place of each kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cuts {
    clause: Option<usize>,
    space: Option<usize>,
    weak: Option<usize>,
}

impl Cuts {
    pub(super) fn clause(&mut self, at: usize) {
        self.clause = Some(at);
    }

    pub(super) fn space(&mut self, at: usize, strong: bool) {
        if strong {
            self.space = Some(at);
        } else {
            self.weak = Some(at);
        }
    }

    /// The best place: a clause end, else between words, else where words belong together; near the start of the text
    /// only if there is no other.
    pub(super) fn best(&self, max_chars: usize) -> Option<(usize, EndKind)> {
        let kinds = [
            (self.clause, EndKind::Clause),
            (self.space, EndKind::Forced),
            (self.weak, EndKind::Forced),
        ];
        let usable = || kinds.iter().filter_map(|&(at, end)| at.map(|at| (at, end)));
        usable()
            .find(|&(at, _)| at >= max_chars / 4)
            .or_else(|| usable().max_by_key(|&(at, _)| at))
    }
}
