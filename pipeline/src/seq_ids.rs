//! Ids of sequences.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};

use omni_engine::SeqId;

/// Generates sequence ids, all distinct.
#[derive(Debug, Default)]
pub struct SeqIds(AtomicU64);

impl SeqIds {
    /// The next one.
    pub fn next(&self) -> SeqId {
        SeqId(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Generates tokens that differ from those of other processes with near certainty: 64 random bits and a counter.
#[derive(Debug)]
pub struct Tokens {
    /// Random bits of this process.
    own: u64,
    last: AtomicU64,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            own: RandomState::new().build_hasher().finish(),
            last: AtomicU64::new(0),
        }
    }
}

impl Tokens {
    /// The next one.
    pub fn next(&self) -> u128 {
        (u128::from(self.own) << 64) | u128::from(self.last.fetch_add(1, Ordering::Relaxed))
    }
}
