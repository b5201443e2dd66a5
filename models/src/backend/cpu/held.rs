//! What is held besides rows: tables, ids, what streams and sequences remember.

use crate::backend::{ComputeError, Result};
use crate::checkpoint::HostTensor;
use crate::sampling::chosen;

/// `[rows, width]` as stored in the checkpoint, widened when looked up.
pub(crate) struct Table {
    pub(super) values: HostTensor,
    pub(super) width: usize,
}

impl Table {
    /// Appends row `id` to `out`, zeros for a failure in the place of an id.
    pub(super) fn row(&self, id: u32, out: &mut Vec<f32>) -> Result<()> {
        if chosen(id).is_err() {
            out.resize(out.len() + self.width, 0.0);
            return Ok(());
        }
        if id as usize >= self.values.shape[0] {
            let shape = &self.values.shape;
            return Err(ComputeError(format!("id {id} is outside a table of {shape:?}")));
        }
        self.values.widen(id as usize * self.width, self.width, out);
        Ok(())
    }
}

/// `[streams, past rows, width]`.
pub(crate) struct Past {
    pub(super) values: Vec<f32>,
    /// Numbers per stream.
    pub(super) each: usize,
}

impl Past {
    pub(super) fn of(&mut self, stream: u32) -> &mut [f32] {
        let at = stream as usize * self.each;
        &mut self.values[at..at + self.each]
    }
}

pub(crate) struct Kv {
    /// In groups, see [`super::attention::KEY_GROUP`].
    pub(super) k: Vec<f32>,
    pub(super) v: Vec<f32>,
    pub(super) width: usize,
}

/// Cosines and sines `[rows, head_dim / 2]`.
pub(crate) struct Rope {
    pub(super) cos: Vec<f32>,
    pub(super) sin: Vec<f32>,
}
