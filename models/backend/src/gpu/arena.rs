//! Device memory of a step, suballocated from few large buffers.
//!
//! A request gets the first place that is large enough, so an equal sequence of requests and returns gets equal
//! places, which recorded steps rely on. Buffers are only ever added, behind the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use omni_gpu::{Address, Device, Memory};

/// Every piece begins at a multiple of this, as the buffers do.
const ALIGNMENT: usize = 256;
/// Least size of the first buffer, in bytes.
const FIRST: usize = 8 << 20;
/// Largest size of a later buffer, in bytes, unless one request needs more.
const MOST: usize = 1 << 30;

struct Buffer<M> {
    memory: M,
    /// Free parts by their start, with their length; none touches another.
    free: BTreeMap<usize, usize>,
}

impl<M: Memory> Buffer<M> {
    fn new(memory: M) -> Self {
        let free = BTreeMap::from([(0, memory.bytes())]);
        Self { memory, free }
    }

    fn take(&mut self, bytes: usize) -> Option<usize> {
        let (&at, &len) = self.free.iter().find(|(_, len)| **len >= bytes)?;
        self.free.remove(&at);
        if len > bytes {
            self.free.insert(at + bytes, len - bytes);
        }
        Some(at)
    }

    fn put(&mut self, mut at: usize, mut bytes: usize) {
        if let Some(after) = self.free.remove(&(at + bytes)) {
            bytes += after;
        }
        if let Some((&before, len)) = self.free.range_mut(..at).next_back()
            && before + *len == at
        {
            at = before;
            bytes += *len;
        }
        self.free.insert(at, bytes);
    }
}

struct Buffers<M> {
    buffers: Vec<Buffer<M>>,
    /// Pieces that are out.
    live: usize,
}

/// Suballocator, see the module. Clones share it.
pub(super) struct Arena<D: Device> {
    inner: Arc<Mutex<Buffers<D::Memory>>>,
}

impl<D: Device> Clone for Arena<D> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

/// A piece of an arena, returned on drop. Work queued before the drop may still use it; the next owner's work is
/// queued later, on the same queue.
pub(super) struct Piece<D: Device> {
    arena: Arena<D>,
    buffer: usize,
    at: usize,
    bytes: usize,
    address: Address,
}

impl<D: Device> Arena<D> {
    pub(super) fn new() -> Self {
        let buffers = Buffers {
            buffers: Vec::new(),
            live: 0,
        };
        Self {
            inner: Arc::new(Mutex::new(buffers)),
        }
    }

    /// Returns true if no piece is allocated.
    pub(super) fn is_whole(&self) -> bool {
        self.lock().live == 0
    }

    pub(super) fn take(&self, device: &D, bytes: usize) -> omni_gpu::Result<Piece<D>> {
        let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
        let mut inner = self.lock();
        let fit = |(i, buffer): (usize, &mut Buffer<D::Memory>)| Some((i, buffer.take(bytes)?));
        let mut place = inner.buffers.iter_mut().enumerate().find_map(fit);
        if place.is_none() {
            let have: usize = inner.buffers.iter().map(|b| b.memory.bytes()).sum();
            let size = bytes.max(have.clamp(FIRST, MOST));
            inner.buffers.push(Buffer::new(device.alloc(size)?));
            place = inner.buffers.iter_mut().enumerate().rev().find_map(fit);
        }
        let Some((buffer, at)) = place else {
            return Err(omni_gpu::GpuError::Memory {
                asked: bytes,
                reason: "a new buffer is smaller than asked for".into(),
            });
        };
        inner.live += 1;
        let address = inner.buffers[buffer].memory.address().offset(at);
        Ok(Piece {
            arena: self.clone(),
            buffer,
            at,
            bytes,
            address,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Buffers<D::Memory>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> Piece<D> {
    pub(super) fn address(&self) -> Address {
        self.address
    }
}

impl<D: Device> Drop for Piece<D> {
    fn drop(&mut self) {
        let mut inner = self.arena.lock();
        inner.live -= 1;
        inner.buffers[self.buffer].put(self.at, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use omni_gpu::Emulated;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Pieces never overlap, and equal requests get equal places again.
        #[test]
        fn places_are_apart_and_repeat(requests in prop::collection::vec((1..3_000_000_usize, any::<bool>()), 1..60)) {
            let device = Emulated::default();
            let arena = Arena::<Emulated>::new();
            let run = || {
                let mut out = Vec::<Piece<Emulated>>::new();
                let mut places = Vec::new();
                for &(bytes, give) in &requests {
                    let piece = arena.take(&device, bytes).expect("memory");
                    let from = piece.address().0;
                    for other in &out {
                        let apart = other.address().0 + other.bytes as u64 <= from || from + piece.bytes as u64 <= other.address().0;
                        assert!(apart, "two pieces share memory");
                    }
                    places.push(from);
                    out.push(piece);
                    if give {
                        out.remove(out.len() / 2);
                    }
                }
                places
            };
            let first = run();
            prop_assert!(arena.is_whole());
            prop_assert_eq!(first, run());
        }
    }
}
