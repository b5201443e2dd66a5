//! KV block bookkeeping: which sequence holds which block of the pool, and what the free ones still contain. Ids only;
//! the rows themselves live in the model.
//!
//! A block is held by any number of sequences (reference count) or free. A full block whose content is known is
//! *published* under its chained hash; it keeps its content when it becomes free, until the pool needs it for something
//! else, least recently freed first. Only full blocks are ever shared and a full block is never written again, so no
//! block needs copying before a write ([`BlockPool::is_writable`] is asserted for every block of every step).
//!
//! Block 0 is never handed out: a model may direct rows there that are not read.

use crate::content::{BlockHash, ByHash};
use crate::ids::BlockId;

/// End of the free list.
const NIL: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Block {
    refs: u32,
    hash: Option<BlockHash>,
    /// Neighbours in the free list while `refs` is 0.
    prev: u32,
    next: u32,
}

/// Result of a look-up in the prefix cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hit {
    /// Leading blocks that can be shared.
    pub(crate) blocks: u32,
    /// Those of them that are free now: sharing takes them out of the free list.
    pub(crate) free: u32,
}

/// A fixed pool of equally sized KV blocks.
#[derive(Debug)]
pub(crate) struct BlockPool {
    block_size: u32,
    blocks: Vec<Block>,
    /// Taken next.
    head: u32,
    /// Taken last.
    tail: u32,
    free: u32,
    published: ByHash<BlockId>,
}

impl BlockPool {
    pub(crate) fn new(num_blocks: u32, block_size: u32) -> Self {
        assert!(block_size > 0, "a KV block must hold at least one position");
        assert!(
            num_blocks > 1,
            "a pool of {num_blocks} blocks: block 0 is reserved"
        );
        let block = Block {
            refs: 0,
            hash: None,
            prev: NIL,
            next: NIL,
        };
        let mut pool = Self {
            block_size,
            blocks: vec![block; num_blocks as usize],
            head: NIL,
            tail: NIL,
            free: 0,
            published: ByHash::default(),
        };
        pool.blocks[0].refs = 1;
        for id in 1..num_blocks {
            pool.append(id);
        }
        pool
    }

    pub(crate) fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Blocks that can be handed out at all.
    pub(crate) fn total(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    /// Blocks without a holder, whether or not they still contain something.
    pub(crate) fn available(&self) -> u32 {
        self.free
    }

    /// Share of the blocks that are held, 0 to 1: `1 - free / (blocks - 1)`.
    pub(crate) fn usage(&self) -> f64 {
        1.0 - f64::from(self.free) / f64::from(self.total())
    }

    /// Blocks needed to hold `positions`.
    pub(crate) fn blocks_for(&self, positions: u32) -> u32 {
        positions.div_ceil(self.block_size)
    }

    /// Positions the whole pool can hold.
    pub(crate) fn capacity(&self) -> u32 {
        self.total().saturating_mul(self.block_size)
    }

    /// Looks up the longest prefix of these blocks that the pool still has.
    pub(crate) fn find(&self, hashes: &[BlockHash]) -> Hit {
        let mut hit = Hit::default();
        for hash in hashes {
            let Some(block) = self.published.get(hash) else {
                break;
            };
            hit.blocks += 1;
            hit.free += u32::from(self.blocks[block.0 as usize].refs == 0);
        }
        hit
    }

    /// Adds the published blocks of `hashes` to `held`, which must be empty.
    pub(crate) fn share(&mut self, held: &mut Vec<BlockId>, hashes: &[BlockHash]) {
        assert!(held.is_empty(), "blocks are shared before others are taken");
        for hash in hashes {
            let block = self.published[hash];
            if self.blocks[block.0 as usize].refs == 0 {
                self.unlink(block.0);
            }
            self.blocks[block.0 as usize].refs += 1;
            held.push(block);
        }
    }

    /// Grows `held` until it covers `positions`. Takes nothing and returns `false` if the pool cannot.
    pub(crate) fn grow(&mut self, held: &mut Vec<BlockId>, positions: u32) -> bool {
        let missing = self.blocks_for(positions).saturating_sub(held.len() as u32);
        if missing > self.free {
            return false;
        }
        for _ in 0..missing {
            let id = self.head;
            self.unlink(id);
            let block = &mut self.blocks[id as usize];
            assert!(block.refs == 0, "block {id} handed out twice");
            block.refs = 1;
            if let Some(hash) = block.hash.take() {
                self.published.remove(&hash);
            }
            held.push(BlockId(id));
        }
        true
    }

    /// Records the content of a full, computed block. The first block of a content is found by others; a later one
    /// with the same content stays its sequence's own.
    pub(crate) fn publish(&mut self, id: BlockId, hash: BlockHash) {
        let block = &mut self.blocks[id.0 as usize];
        assert!(
            block.refs > 0 && block.hash.is_none(),
            "{id:?} is not being filled"
        );
        if let std::collections::hash_map::Entry::Vacant(entry) = self.published.entry(hash) {
            entry.insert(id);
            block.hash = Some(hash);
        }
    }

    /// Returns true if a block's rows may be written: it has one holder and is not published.
    pub(crate) fn is_writable(&self, id: BlockId) -> bool {
        let block = &self.blocks[id.0 as usize];
        block.refs == 1 && block.hash.is_none()
    }

    /// Releases everything in `held`. The last blocks of a sequence are reused before its first ones, which more
    /// others may share; those without known content go first of all.
    pub(crate) fn release(&mut self, held: &mut Vec<BlockId>) {
        for id in held.drain(..).rev() {
            let block = &mut self.blocks[id.0 as usize];
            assert!(block.refs > 0, "{id:?} freed twice");
            block.refs -= 1;
            if block.refs > 0 {
                continue;
            }
            match block.hash {
                Some(_) => self.append(id.0),
                None => self.prepend(id.0),
            }
        }
    }

    fn append(&mut self, id: u32) {
        self.link(self.tail, id, NIL);
    }

    fn prepend(&mut self, id: u32) {
        self.link(NIL, id, self.head);
    }

    fn link(&mut self, prev: u32, id: u32, next: u32) {
        let block = &mut self.blocks[id as usize];
        (block.prev, block.next) = (prev, next);
        self.join(prev, id);
        self.join(id, next);
        self.free += 1;
    }

    fn unlink(&mut self, id: u32) {
        assert!(id != NIL, "the free list is empty");
        let Block { prev, next, .. } = self.blocks[id as usize];
        self.join(prev, next);
        self.free -= 1;
    }

    /// Makes `next` follow `prev`; `NIL` stands for the ends.
    fn join(&mut self, prev: u32, next: u32) {
        match prev {
            NIL => self.head = next,
            _ => self.blocks[prev as usize].next = next,
        }
        match next {
            NIL => self.tail = prev,
            _ => self.blocks[next as usize].prev = prev,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
