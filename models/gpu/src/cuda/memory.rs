//! Device memory and pinned host memory.

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, DriverError, result, sys};

use super::failure::{failed, text};
use crate::device::{GpuError, Memory, Result, Staging};
use crate::launch::Address;

/// A buffer on the device.
#[derive(Debug)]
pub struct CudaMemory {
    at: sys::CUdeviceptr,
    bytes: usize,
    context: Arc<CudaContext>,
}

/// Error of an allocation of `asked` bytes.
fn none(asked: usize) -> impl Fn(DriverError) -> GpuError {
    move |error| match failed("cuMemAlloc")(error) {
        lost @ GpuError::Lost { .. } => lost,
        _ => GpuError::Memory {
            asked,
            reason: text(error),
        },
    }
}

impl CudaMemory {
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self> {
        context.bind_to_thread().map_err(failed("cuCtxSetCurrent"))?;
        #[expect(unsafe_code, reason = "the driver's interface is C")]
        // SAFETY: the context is bound; the size is not zero.
        let at = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(none(bytes))?;
        Ok(Self {
            at,
            bytes,
            context: context.clone(),
        })
    }
}

impl Memory for CudaMemory {
    fn address(&self) -> Address {
        Address(self.at)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_err() {
            return;
        }
        #[expect(unsafe_code, reason = "the driver's interface is C")]
        // SAFETY: from `malloc_sync`, freed here only; the driver waits for work that uses it.
        let freed = unsafe { result::free_sync(self.at) };
        // An error here has been reported before.
        let _ = freed;
    }
}

/// Host memory that does not move.
#[derive(Debug)]
pub struct CudaStaging {
    at: NonNull<u8>,
    bytes: usize,
    context: Arc<CudaContext>,
}

#[expect(unsafe_code, reason = "memory that is owned")]
// SAFETY: plain bytes with one owner.
unsafe impl Send for CudaStaging {}

impl CudaStaging {
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self> {
        context.bind_to_thread().map_err(failed("cuCtxSetCurrent"))?;
        #[expect(unsafe_code, reason = "the driver's interface is C")]
        // SAFETY: the context is bound; the size is not zero. The memory is as long as requested and zeroed before
        // it is read.
        let at = unsafe {
            let at = result::malloc_host(bytes.max(1), 0).map_err(none(bytes))?;
            std::ptr::write_bytes(at.cast::<u8>(), 0, bytes.max(1));
            at
        };
        let Some(at) = NonNull::new(at.cast()) else {
            let reason = "the driver gave none".to_owned();
            return Err(GpuError::Memory { asked: bytes, reason });
        };
        Ok(Self {
            at,
            bytes,
            context: context.clone(),
        })
    }

    fn too_short(&self, bytes: usize) -> GpuError {
        GpuError::Address {
            address: self.at.as_ptr() as u64,
            bytes,
        }
    }

    pub(super) fn first(&self, bytes: usize) -> Result<&[u8]> {
        self.content().get(..bytes).ok_or_else(|| self.too_short(bytes))
    }

    pub(super) fn first_mut(&mut self, bytes: usize) -> Result<&mut [u8]> {
        let error = self.too_short(bytes);
        self.content_mut().get_mut(..bytes).ok_or(error)
    }
}

impl Staging for CudaStaging {
    fn content(&self) -> &[u8] {
        #[expect(unsafe_code, reason = "memory of the driver's")]
        // SAFETY: `bytes` bytes that are initialised and owned.
        unsafe {
            std::slice::from_raw_parts(self.at.as_ptr(), self.bytes)
        }
    }

    fn content_mut(&mut self) -> &mut [u8] {
        #[expect(unsafe_code, reason = "memory of the driver's")]
        // SAFETY: as above, and borrowed nowhere else.
        unsafe {
            std::slice::from_raw_parts_mut(self.at.as_ptr(), self.bytes)
        }
    }
}

impl Drop for CudaStaging {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_err() {
            return;
        }
        #[expect(unsafe_code, reason = "the driver's interface is C")]
        // SAFETY: from `malloc_host`, freed here only.
        let freed = unsafe { result::free_host(self.at.as_ptr().cast()) };
        let _ = freed;
    }
}

/// Host memory that a copy goes to, and an event behind the copy.
#[derive(derive_more::Debug)]
#[debug("CudaPendingCopy {{ .. }}")]
pub struct CudaPendingCopy {
    event: CudaEvent,
    /// None once it was given back.
    to: Option<CudaStaging>,
}

impl CudaPendingCopy {
    pub(super) fn new(event: CudaEvent, to: CudaStaging) -> Self {
        Self { event, to: Some(to) }
    }

    pub(super) fn wait(&mut self) -> Result<CudaStaging> {
        self.event.synchronize().map_err(failed("cuEventSynchronize"))?;
        self.to.take().ok_or(GpuError::Recording("it was given back"))
    }
}

impl Drop for CudaPendingCopy {
    fn drop(&mut self) {
        if self.to.is_some() {
            // An error of another caller's, kept until the next call, would keep this from waiting.
            let _ = self.event.context().bind_to_thread();
            // A device that fails here writes no more.
            let _ = self.event.synchronize();
        }
    }
}
