//! Activations, in buffers that go round: a network asks for the same sizes over and over, and memory fresh from the
//! system would cost more than many of the operations that fill it.

use std::cell::RefCell;

/// Buffers that a thread keeps for its next activations, most.
const KEPT: usize = 48;
/// Largest buffer worth keeping, in numbers (16 MiB).
const LARGEST: usize = 4 << 20;

thread_local! {
    static FREE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer with room for `len` numbers; what is in it is arbitrary.
fn buffer(len: usize) -> Vec<f32> {
    let taken = FREE.with_borrow_mut(|free| {
        let fits = free.iter().enumerate().filter(|(_, b)| b.capacity() >= len);
        let best = fits.min_by_key(|(_, b)| b.capacity())?.0;
        Some(free.swap_remove(best))
    });
    taken.unwrap_or_else(|| Vec::with_capacity(len.next_power_of_two()))
}

/// `[rows, width]`, row major.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    data: Vec<f32>,
    width: usize,
}

impl Drop for Rows {
    fn drop(&mut self) {
        let data = std::mem::take(&mut self.data);
        if data.capacity() == 0 || data.capacity() > LARGEST {
            return;
        }
        // A thread that is ending has no buffers to keep any more.
        let _ = FREE.try_with(|free| {
            if let Ok(mut free) = free.try_borrow_mut()
                && free.len() < KEPT
            {
                free.push(data);
            }
        });
    }
}

impl Clone for Rows {
    fn clone(&self) -> Self {
        let mut copy = Self::with_capacity(self.data.len(), self.width);
        copy.data.extend_from_slice(&self.data);
        copy
    }
}

impl Rows {
    pub(super) fn new(data: Vec<f32>, width: usize) -> Self {
        Self { data, width }
    }

    /// No rows, with room for `len` numbers.
    pub(super) fn with_capacity(len: usize, width: usize) -> Self {
        let mut data = buffer(len);
        data.clear();
        Self { data, width }
    }

    /// Rows to be written: their numbers are arbitrary.
    pub(super) fn scratch(rows: usize, width: usize) -> Self {
        let mut data = buffer(rows * width);
        data.resize(rows * width, 0.0);
        Self { data, width }
    }

    pub(super) fn zeros(rows: usize, width: usize) -> Self {
        let mut zeros = Self::with_capacity(rows * width, width);
        zeros.data.resize(rows * width, 0.0);
        zeros
    }

    /// The same numbers in rows of another width.
    pub(super) fn reshaped(mut self, width: usize) -> Self {
        self.width = width;
        self
    }

    pub(super) fn rows(&self) -> usize {
        self.data.len() / self.width.max(1)
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn data(&self) -> &[f32] {
        &self.data
    }

    pub(super) fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// For appending rows.
    pub(super) fn buffer(&mut self) -> &mut Vec<f32> {
        &mut self.data
    }

    /// The numbers of rows `from .. to`.
    pub(super) fn range(&self, from: usize, to: usize) -> &[f32] {
        &self.data[from * self.width..to * self.width]
    }
}
