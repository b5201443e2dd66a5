//! KV block bookkeeping: which blocks of a pool are free. Ids only; the rows themselves live in the model.

use crate::ids::BlockId;

/// A fixed pool of equally sized KV blocks.
#[derive(Debug)]
pub(crate) struct BlockPool {
    block_size: u32,
    free: Vec<BlockId>,
    /// One flag per block, so that a double free is caught where it happens.
    taken: Vec<bool>,
}

impl BlockPool {
    pub(crate) fn new(num_blocks: u32, block_size: u32) -> Self {
        assert!(block_size > 0, "a KV block must hold at least one position");
        Self {
            block_size,
            // Popped from the end: low ids first.
            free: (0..num_blocks).rev().map(BlockId).collect(),
            taken: vec![false; num_blocks as usize],
        }
    }

    pub(crate) fn total(&self) -> u32 {
        self.taken.len() as u32
    }

    pub(crate) fn available(&self) -> u32 {
        self.free.len() as u32
    }

    /// Blocks needed to hold `positions`.
    pub(crate) fn blocks_for(&self, positions: u32) -> u32 {
        positions.div_ceil(self.block_size)
    }

    /// Positions the whole pool can hold.
    pub(crate) fn capacity(&self) -> u32 {
        self.total().saturating_mul(self.block_size)
    }

    /// Grows `held` until it covers `positions`. Takes nothing and returns `false` if the pool cannot.
    #[must_use]
    pub(crate) fn grow(&mut self, held: &mut Vec<BlockId>, positions: u32) -> bool {
        let missing = (self.blocks_for(positions) as usize).saturating_sub(held.len());
        if missing > self.free.len() {
            return false;
        }
        for block in self.free.split_off(self.free.len() - missing).into_iter().rev() {
            let taken = &mut self.taken[block.0 as usize];
            assert!(!*taken, "{block:?} handed out twice");
            *taken = true;
            held.push(block);
        }
        true
    }

    /// Gives back everything in `held`.
    pub(crate) fn release(&mut self, held: &mut Vec<BlockId>) {
        for block in held.drain(..).rev() {
            let taken = &mut self.taken[block.0 as usize];
            assert!(*taken, "{block:?} freed twice");
            *taken = false;
            self.free.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grow_takes_only_what_is_missing_and_all_or_nothing() {
        let mut pool = BlockPool::new(3, 4);
        let mut held = Vec::new();
        assert!(pool.grow(&mut held, 5));
        assert_eq!(held, [BlockId(0), BlockId(1)]);
        assert!(pool.grow(&mut held, 8), "two blocks already cover 8 positions");
        assert_eq!(pool.available(), 1);
        assert!(!pool.grow(&mut held, 13), "four blocks do not exist");
        assert_eq!((held.len(), pool.available()), (2, 1));
        pool.release(&mut held);
        assert_eq!(pool.available(), 3);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn double_free_is_caught() {
        let mut pool = BlockPool::new(2, 4);
        let mut held = Vec::new();
        assert!(pool.grow(&mut held, 4));
        pool.release(&mut held.clone());
        pool.release(&mut held);
    }
}
