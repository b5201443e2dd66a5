//! Preparation of the models before their first use.

use std::sync::Arc;

use omni_engine::ModelError;
use parking_lot::Mutex;

/// Preparation of talker and vocoder. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Preparation {
    pieces: u32,
    fails_at: Option<u32>,
    done: Arc<Mutex<Vec<Prepared>>>,
}

/// A piece that was prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    /// Index of the piece, from 0.
    pub nth: u32,
    /// Most sequences of the prepared steps.
    pub most: u32,
    /// Steps that the stage had done by then.
    pub steps: u64,
}

impl Preparation {
    /// Preparation in `pieces` pieces, one of which may fail.
    pub fn new(pieces: u32, fails_at: Option<u32>) -> Self {
        Self {
            pieces,
            fails_at,
            done: Arc::default(),
        }
    }

    /// Pieces prepared so far, in order.
    pub fn done(&self) -> Vec<Prepared> {
        self.done.lock().clone()
    }

    pub(super) fn prepare(&self, prepared: Prepared) -> Result<bool, ModelError> {
        if self.fails_at == Some(prepared.nth) {
            return Err(ModelError::Compute("the script says so".to_owned()));
        }
        if prepared.nth >= self.pieces {
            return Ok(false);
        }
        self.done.lock().push(prepared);
        Ok(true)
    }
}
