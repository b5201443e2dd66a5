//! The last frame of every sequence, kept where the next step needs it: that step can be asked for before the host
//! knows the frame.

use omni_backend::{IdStore, Result};

/// Initial slots, more than sequences usually begun. Growing moves the memory, and graphs are recorded again.
const FRAME_SLOTS: usize = 1024;
/// Slot of padding rows: out of range, so stores to it are discarded.
pub(super) const PADDING_SLOT: u32 = u32::MAX;

pub(super) struct FrameSlots<B: IdStore> {
    /// A frame's codes per slot.
    pub(super) frames: B::Ids,
    /// Number of slots.
    count: u32,
    free: Vec<u32>,
}

impl<B: IdStore> FrameSlots<B> {
    pub(super) fn new(b: &B, groups: usize) -> Result<Self> {
        let mut slots = Self {
            frames: b.ids(groups, vec![0; groups])?,
            count: 0,
            free: Vec::new(),
        };
        slots.reserve(b, FRAME_SLOTS)?;
        Ok(slots)
    }

    /// Makes room for `sequences` sequences.
    pub(super) fn reserve(&mut self, b: &B, sequences: usize) -> Result<()> {
        let count = u32::try_from(sequences).unwrap_or(u32::MAX);
        if count > self.count {
            b.grow_ids(&mut self.frames, sequences)?;
            // The first ones are taken first.
            let new = (self.count..count).rev();
            self.free.splice(0..0, new);
            self.count = count;
        }
        Ok(())
    }

    pub(super) fn take(&mut self, b: &B) -> Result<u32> {
        loop {
            if let Some(slot) = self.free.pop() {
                return Ok(slot);
            }
            self.reserve(b, 2 * self.count as usize)?;
        }
    }

    pub(super) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }
}
