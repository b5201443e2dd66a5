//! Names of sequences.

use std::sync::atomic::{AtomicU64, Ordering};

use omni_engine::SeqId;

/// Hands out sequence ids, none of them twice.
#[derive(Debug, Default)]
pub struct SeqIds(AtomicU64);

impl SeqIds {
    /// The next one.
    pub fn next(&self) -> SeqId {
        SeqId(self.0.fetch_add(1, Ordering::Relaxed))
    }
}
