//! Memory of the emulated device, and of the host that it reads and writes.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Emulated, omni_emulator_free};
use crate::device::{GpuError, Memory, Result, Staging};
use crate::launch::Address;

/// A checked buffer.
#[derive(Debug)]
pub struct EmulatedMemory {
    at: NonNull<c_void>,
    bytes: usize,
    /// Device whose queued work may use the buffer.
    device: Emulated,
}

#[expect(unsafe_code, reason = "a pointer that is owned")]
// SAFETY: the buffer is owned and only accessed by copies and kernels; callers synchronise several queues, as on a
// device.
unsafe impl Send for EmulatedMemory {}
#[expect(unsafe_code, reason = "a pointer that is owned")]
// SAFETY: as above.
unsafe impl Sync for EmulatedMemory {}

impl EmulatedMemory {
    /// Takes over what `omni_emulator_alloc` gave.
    pub(super) fn new(at: NonNull<c_void>, bytes: usize, device: Emulated) -> Self {
        Self { at, bytes, device }
    }
}

impl Memory for EmulatedMemory {
    fn address(&self) -> Address {
        Address(self.at.as_ptr() as u64)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for EmulatedMemory {
    fn drop(&mut self) {
        // As the driver does: the next wait returns the error.
        let _ = self.device.catch_up(u64::MAX);
        #[expect(unsafe_code, reason = "the emulator's memory is its own")]
        // SAFETY: allocated by `omni_emulator_alloc` and freed here only.
        unsafe {
            omni_emulator_free(self.at.as_ptr());
        }
    }
}

/// Host memory that a late device reads and writes when a caller waits.
#[derive(derive_more::Debug)]
#[debug("HostBuffer {{ .. }}")]
pub(super) struct HostBuffer(UnsafeCell<Box<[u8]>>);

impl HostBuffer {
    pub(super) fn content(&self) -> &[u8] {
        #[expect(unsafe_code, reason = "memory of two owners, in turn")]
        // SAFETY: see below.
        unsafe {
            &*self.0.get()
        }
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut [u8]) -> T) -> T {
        #[expect(unsafe_code, reason = "memory of two owners, in turn")]
        // SAFETY: see below.
        change(unsafe { &mut *self.0.get() })
    }
}

#[expect(unsafe_code, reason = "memory of two owners, in turn")]
// SAFETY: the owner must not access the staging memory during a copy (`Copies::upload_async`,
// `Copies::download_async`), and copies run under the queue's lock.
unsafe impl Sync for HostBuffer {}

/// Host memory.
#[derive(Debug)]
pub struct EmulatedStaging(Arc<HostBuffer>);

impl Staging for EmulatedStaging {
    fn content(&self) -> &[u8] {
        self.0.content()
    }

    fn content_mut(&mut self) -> &mut [u8] {
        #[expect(unsafe_code, reason = "memory of two owners, in turn")]
        // SAFETY: see `HostBuffer`.
        unsafe {
            &mut *self.0.0.get()
        }
    }
}

impl EmulatedStaging {
    /// Zeros.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(HostBuffer(UnsafeCell::new(vec![0; bytes].into()))))
    }

    pub(super) fn buffer(&self) -> Arc<HostBuffer> {
        Arc::clone(&self.0)
    }

    pub(super) fn holds(&self, bytes: usize) -> Result<()> {
        let content = self.content();
        if bytes <= content.len() {
            return Ok(());
        }
        Err(GpuError::Address {
            address: content.as_ptr() as u64,
            bytes,
        })
    }
}

impl Drop for EmulatedStaging {
    fn drop(&mut self) {
        let used = Arc::strong_count(&self.0) > 1;
        assert!(
            !used || std::thread::panicking(),
            "host memory was given back before the device was done with it"
        );
    }
}

/// Host memory that a copy goes to.
#[derive(Debug)]
pub struct EmulatedPendingCopy {
    device: Emulated,
    /// Pieces of work, the copy the last of them.
    work: u64,
    /// None once it was given back.
    to: Option<EmulatedStaging>,
}

impl EmulatedPendingCopy {
    pub(super) fn new(device: Emulated, work: u64, to: EmulatedStaging) -> Self {
        let to = Some(to);
        Self { device, work, to }
    }

    pub(super) fn wait(&mut self) -> Result<EmulatedStaging> {
        self.device.catch_up(self.work)?;
        self.to.take().ok_or(GpuError::Recording("it was given back"))
    }
}

impl Drop for EmulatedPendingCopy {
    fn drop(&mut self) {
        // The next wait returns the error.
        let _ = self.device.catch_up(self.work);
    }
}
