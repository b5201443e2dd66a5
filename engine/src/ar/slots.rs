//! Slab of live sequences, so that a step indexes instead of hashing.

use std::collections::HashMap;

use super::sequence::Sequence;
use crate::ids::SeqId;

/// Index of a live sequence. Valid until it is removed; never kept across that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot(u32);

#[derive(Debug, Default)]
pub(super) struct Slots {
    entries: Vec<Option<Sequence>>,
    vacant: Vec<Slot>,
    by_id: HashMap<SeqId, Slot>,
}

impl Slots {
    pub(super) fn insert(&mut self, sequence: Sequence) -> Slot {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(None);
            Slot(self.entries.len() as u32 - 1)
        });
        let before = self.by_id.insert(sequence.id, slot);
        assert!(before.is_none(), "{:?} is live twice", sequence.id);
        self.entries[slot.0 as usize] = Some(sequence);
        slot
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Sequence {
        let sequence = self.entries[slot.0 as usize].take().expect("a live sequence");
        self.by_id.remove(&sequence.id);
        self.vacant.push(slot);
        sequence
    }

    pub(super) fn find(&self, seq: SeqId) -> Option<Slot> {
        self.by_id.get(&seq).copied()
    }

    /// The sequence there, if there is one.
    pub(super) fn get(&self, slot: Slot) -> Option<&Sequence> {
        self.entries.get(slot.0 as usize)?.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<Slot> {
        self.by_id.values().copied().collect()
    }
}

impl std::ops::Index<Slot> for Slots {
    type Output = Sequence;

    fn index(&self, slot: Slot) -> &Sequence {
        self.entries[slot.0 as usize].as_ref().expect("a live sequence")
    }
}

impl std::ops::IndexMut<Slot> for Slots {
    fn index_mut(&mut self, slot: Slot) -> &mut Sequence {
        self.entries[slot.0 as usize].as_mut().expect("a live sequence")
    }
}
