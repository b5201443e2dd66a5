//! State held besides rows: tables, ids, the memory of streams and sequences.

use crate::{ComputeError, Result};
use half::f16;

#[cfg(unix)]
use crate::host::FileRows;
use crate::host::HostTensor;
use crate::sampling::chosen;

use super::attention::{self, Number};

/// Bytes from which on a table that is made is made row by row: that of a text vocabulary.
const LARGE: u64 = 64 << 20;
/// Bytes from which on a table stays in its file: of a text vocabulary a frame looks up one row, of each of the code
/// predictor's tables, too. Reading a row from the page cache takes a microsecond.
const LARGE_IN_FILE: u64 = 4 << 20;

/// `[rows, width]` as stored in the checkpoint, widened when looked up.
pub struct Table {
    rows: usize,
    pub(super) width: usize,
    values: Values,
}

enum Values {
    Memory(HostTensor),
    #[cfg(unix)]
    File(FileRows),
}

impl Table {
    pub(super) fn of(values: HostTensor) -> Self {
        let rows = values.shape[0];
        let width = values.shape[1];
        // Lazy values can be made row by row.
        let large = 2 * values.elements() as u64 >= LARGE;
        let values = if large { values } else { values.in_memory() };
        Self {
            rows,
            width,
            values: Values::Memory(values),
        }
    }

    /// A table that stays in its file, if it is large.
    #[cfg(unix)]
    pub(super) fn in_file(rows: FileRows) -> Option<Self> {
        (rows.size() >= LARGE_IN_FILE).then(|| Self {
            rows: rows.rows(),
            width: rows.width(),
            values: Values::File(rows),
        })
    }

    /// Appends row `id` to `out`, zeros for a failure in the place of an id.
    pub(super) fn row(&self, id: u32, out: &mut Vec<f32>) -> Result<()> {
        if chosen(id).is_err() {
            out.resize(out.len() + self.width, 0.0);
            return Ok(());
        }
        let id = id as usize;
        let rows = self.rows;
        let width = self.width;
        if id >= rows {
            return Err(ComputeError::Failed(format!(
                "id {id} is outside a table of [{rows}, {width}]"
            )));
        }
        match &self.values {
            Values::Memory(values) => {
                values.widen(id * width, width, out);
                Ok(())
            }
            #[cfg(unix)]
            Values::File(rows) => {
                let read = rows.widen(id, out);
                read.map_err(|e| ComputeError::Failed(format!("row {id} of a table cannot be read: {e}")))
            }
        }
    }
}

/// `[streams, past rows, width]`.
pub struct Past {
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

pub struct Kv {
    pub(super) width: usize,
    pub(super) numbers: Numbers,
}

/// Keys and values, in one format.
pub(super) enum Numbers {
    F32(Lists<f32>),
    F16(Lists<f16>),
}

pub(super) struct Lists<N> {
    /// In groups, see [`super::attention::KEY_GROUP`].
    pub(super) k: Vec<N>,
    pub(super) v: Vec<N>,
}

impl<N: Number> Lists<N> {
    /// Zeroed cache lists. Plain zeros are committed by the system on first write, over hours; negative zeros are
    /// written now, so that an allocation failure shows at start-up.
    pub(super) fn of(slots: usize, width: usize) -> Self {
        Self {
            k: vec![N::ZERO; attention::keys_size(slots, width)],
            v: vec![N::ZERO; slots * width],
        }
    }

    /// Makes room for `slots` in all.
    pub(super) fn grow(&mut self, slots: usize, width: usize) {
        let keys = attention::keys_size(slots, width);
        let values = slots * width;
        self.k.resize(keys.max(self.k.len()), N::ZERO);
        self.v.resize(values.max(self.v.len()), N::ZERO);
    }
}

/// Cosines and sines `[rows, head_dim / 2]`.
pub struct Rope {
    pub(super) cos: Vec<f32>,
    pub(super) sin: Vec<f32>,
}
