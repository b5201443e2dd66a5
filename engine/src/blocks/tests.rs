//! The pool by itself, and the audit that other tests run over it.

use super::*;
use crate::content::{CacheSalt, Chain, ContentKey};

impl BlockPool {
    /// Checks every count of the pool against what its holders say they hold.
    pub(crate) fn audit<'a>(&self, holders: impl Iterator<Item = &'a [BlockId]>) {
        let mut refs = vec![0; self.blocks.len()];
        refs[0] = 1;
        for block in holders.flatten() {
            refs[block.0 as usize] += 1;
        }
        for (id, (block, refs)) in self.blocks.iter().zip(&refs).enumerate() {
            assert_eq!(block.refs, *refs, "holders of block {id}");
            if let Some(hash) = block.hash {
                assert_eq!(self.published.get(&hash), Some(&BlockId(id as u32)));
            }
        }
        let hashed = self.blocks.iter().filter(|block| block.hash.is_some()).count();
        assert_eq!(hashed, self.published.len(), "published blocks");
        let mut at = self.head;
        let mut before = NIL;
        let mut seen = 0;
        while at != NIL {
            let block = &self.blocks[at as usize];
            assert_eq!((block.refs, block.prev), (0, before), "free block {at}");
            (before, at, seen) = (at, block.next, seen + 1);
        }
        assert_eq!((before, seen), (self.tail, self.free), "length of the free list");
        assert_eq!(refs.iter().filter(|refs| **refs == 0).count() as u32, self.free);
    }
}

fn chain(tokens: &[u32], block_size: u32) -> Chain {
    let mut chain = Chain::new(CacheSalt::default());
    let keys: Vec<_> = tokens.iter().map(|&id| ContentKey::token(id)).collect();
    chain.extend(&keys, block_size);
    chain
}

/// A holder of blocks with this content.
fn filled(pool: &mut BlockPool, tokens: &[u32]) -> Vec<BlockId> {
    let chain = chain(tokens, pool.block_size());
    let mut held = Vec::new();
    let hit = pool.find(chain.hashes()).blocks;
    pool.share(&mut held, &chain.hashes()[..hit as usize]);
    assert!(pool.grow(&mut held, tokens.len() as u32));
    for (block, hash) in held.iter().zip(chain.hashes()).skip(hit as usize) {
        pool.publish(*block, *hash);
    }
    held
}

#[test]
fn grow_takes_only_what_is_missing_and_all_or_nothing() {
    let mut pool = BlockPool::new(4, 4);
    let mut held = Vec::new();
    assert!(pool.grow(&mut held, 5));
    assert_eq!(held, [BlockId(1), BlockId(2)]);
    assert!(pool.grow(&mut held, 8), "two blocks already cover 8 positions");
    assert_eq!(pool.available(), 1);
    assert!(!pool.grow(&mut held, 13), "four blocks do not exist");
    assert_eq!((held.len(), pool.available()), (2, 1));
    assert!((pool.usage() - 2.0 / 3.0).abs() < 1e-9, "{}", pool.usage());
    pool.release(&mut held);
    assert_eq!((pool.available(), pool.usage()), (3, 0.0));
    pool.audit(std::iter::empty());
}

#[test]
#[should_panic(expected = "freed twice")]
fn double_free_is_caught() {
    let mut pool = BlockPool::new(3, 4);
    let mut held = Vec::new();
    assert!(pool.grow(&mut held, 4));
    pool.release(&mut held.clone());
    pool.release(&mut held);
}

#[test]
fn a_shared_block_is_free_only_when_its_last_holder_lets_go() {
    let mut pool = BlockPool::new(6, 2);
    let mut first = filled(&mut pool, &[1, 2, 3, 4, 5]);
    let mut second = filled(&mut pool, &[1, 2, 3, 4, 6]);
    assert_eq!(first[..2], second[..2]);
    assert!(!pool.is_writable(first[1]) && pool.is_writable(first[2]));
    pool.audit([&*first, &*second].into_iter());
    pool.release(&mut first);
    assert_eq!(pool.available(), 2);
    pool.release(&mut second);
    assert_eq!(pool.available(), 5);
    pool.audit(std::iter::empty());
}

#[test]
fn free_blocks_keep_their_content_until_they_are_needed_least_recently_freed_first() {
    let mut pool = BlockPool::new(5, 2);
    let old = [1, 2, 3, 4];
    let new = [5, 6, 7, 8];
    for content in [old, new] {
        let mut held = filled(&mut pool, &content);
        pool.release(&mut held);
    }
    let found = |pool: &BlockPool, content: &[u32]| pool.find(chain(content, 2).hashes());
    assert_eq!(found(&pool, &old), Hit { blocks: 2, free: 2 });
    let mut other = Vec::new();
    assert!(pool.grow(&mut other, 2));
    assert_eq!(found(&pool, &old).blocks, 1, "its last block went first");
    assert_eq!(found(&pool, &new).blocks, 2);
    assert!(pool.grow(&mut other, 4));
    assert_eq!((found(&pool, &old).blocks, found(&pool, &new).blocks), (0, 2));
    pool.audit([&*other].into_iter());
}

#[test]
fn a_block_that_holds_nothing_known_is_reused_before_cached_ones() {
    let mut pool = BlockPool::new(4, 2);
    let mut cached = filled(&mut pool, &[1, 2]);
    let mut plain = Vec::new();
    assert!(pool.grow(&mut plain, 2));
    let id = plain[0];
    pool.release(&mut cached);
    pool.release(&mut plain);
    assert!(pool.grow(&mut plain, 2));
    assert_eq!(plain, [id]);
}
