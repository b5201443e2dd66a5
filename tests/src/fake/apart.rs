//! A model whose work is done elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Set if the talker answers asynchronously; counts the steps that were begun before the one in front of them had
/// ended. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Apart(Option<Arc<AtomicU64>>);

impl Apart {
    /// It is.
    pub fn yes() -> Self {
        Self(Some(Arc::default()))
    }

    /// Steps that were begun before the one in front of them had ended.
    pub fn steps_ahead(&self) -> u64 {
        self.0.as_ref().map_or(0, |steps| steps.load(Ordering::SeqCst))
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn ahead(&self) {
        if let Some(steps) = &self.0 {
            steps.fetch_add(1, Ordering::SeqCst);
        }
    }
}
