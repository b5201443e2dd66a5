//! Activations in recycled buffers: a network asks for the same sizes over and over, and fresh memory would cost more
//! than many of the operations that fill it.

use std::cell::RefCell;

/// Buffers that a thread keeps for its next activations, most.
const KEPT: usize = 48;
/// Numbers in all buffers that a thread keeps, most (32 MiB).
const KEPT_IN_ALL: usize = 8 << 20;

/// Buffers that wait to be used again.
struct Pool {
    free: Vec<Vec<f32>>,
    /// Numbers that they have room for together.
    held: usize,
}

impl Pool {
    fn take(&mut self, len: usize) -> Option<Vec<f32>> {
        let fits = self.free.iter().enumerate().filter(|(_, b)| b.capacity() >= len);
        let best = fits.min_by_key(|(_, b)| b.capacity())?.0;
        let buffer = self.free.swap_remove(best);
        self.held -= buffer.capacity();
        Some(buffer)
    }

    fn put(&mut self, buffer: Vec<f32>) {
        if self.free.len() < KEPT && self.held + buffer.capacity() <= KEPT_IN_ALL {
            self.held += buffer.capacity();
            self.free.push(buffer);
        }
    }
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { free: Vec::new(), held: 0 }) };
}

/// Returns a buffer of `len` numbers with arbitrary content.
fn buffer(len: usize) -> Vec<f32> {
    let taken = POOL.with_borrow_mut(|pool| pool.take(len));
    taken.unwrap_or_else(|| Vec::with_capacity(len.next_power_of_two()))
}

/// `[rows, width]`, row major.
#[derive(Debug, Default)]
pub struct Rows {
    data: Vec<f32>,
    width: usize,
}

impl Drop for Rows {
    fn drop(&mut self) {
        let data = std::mem::take(&mut self.data);
        if data.capacity() == 0 {
            return;
        }
        // A thread that is ending keeps no buffers.
        let _ = POOL.try_with(|pool| {
            if let Ok(mut pool) = pool.try_borrow_mut() {
                pool.put(data);
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

    /// Same data as rows of another width.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_wait_are_bounded_together() {
        let large: Vec<Rows> = (0..12).map(|_| Rows::scratch(1024, 1024)).collect();
        drop(large);
        POOL.with_borrow(|pool| {
            let held: usize = pool.free.iter().map(Vec::capacity).sum();
            assert_eq!(held, pool.held);
            assert!(held > 0 && held <= KEPT_IN_ALL, "{held}");
        });
        let again = Rows::scratch(1024, 1024);
        POOL.with_borrow(|pool| {
            let held: usize = pool.free.iter().map(Vec::capacity).sum();
            assert_eq!(held, pool.held);
        });
        drop(again);
    }
}
