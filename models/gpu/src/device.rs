//! Interface of a device: memory, copies, launches, and graphs of recorded launches.

use std::fmt;
use std::time::Duration;

use crate::launch::{Address, Launch};

/// Error of a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// The device does not exist or cannot be used.
    #[error("no GPU can be used: {0}")]
    Unavailable(String),
    /// There is not enough memory.
    #[error("out of device memory: {asked} bytes requested: {reason}")]
    Memory {
        /// Bytes asked for.
        asked: usize,
        /// The driver's message.
        reason: String,
    },
    /// A kernel was launched with invalid arguments, or failed a check while running.
    #[error("kernel {kernel}: {reason}")]
    Kernel {
        /// Its name.
        kernel: &'static str,
        /// Message of the driver.
        reason: String,
    },
    /// This cannot be done while launches are recorded, or only then.
    #[error("{0}")]
    Recording(&'static str),
    /// A copy to or from a place that is not a buffer's.
    #[error("{bytes} bytes at {address:#x} are not in one buffer")]
    Address {
        /// Address of the access.
        address: u64,
        /// Bytes of the access.
        bytes: usize,
    },
    /// The driver failed such that the device is unusable until the process restarts.
    #[error("{call}: {reason}; the device is lost to this process")]
    Lost {
        /// Name of the call.
        call: &'static str,
        /// The driver's message.
        reason: String,
    },
    /// The driver failed.
    #[error("{call}: {reason}")]
    Driver {
        /// Name of the call.
        call: &'static str,
        /// The driver's message.
        reason: String,
    },
}

/// Result of device operations.
pub type Result<T> = std::result::Result<T, GpuError>;

/// A buffer in device memory, given back when dropped.
pub trait Memory: fmt::Debug + Send + Sync + 'static {
    /// First address; a multiple of 256.
    fn address(&self) -> Address;
    /// Bytes that it holds.
    fn bytes(&self) -> usize;
}

/// Memory of the host that the device can read and write while the processor does something else.
pub trait Staging: fmt::Debug + Send + 'static {
    /// Its content.
    fn content(&self) -> &[u8];
    /// Its content, to be changed. Not while a copy that uses it may still be running.
    fn content_mut(&mut self) -> &mut [u8];
}

/// Memory of a device, and memory of the host that it can reach.
pub trait Allocate: Clone + fmt::Debug + Send + Sync + 'static {
    /// Device memory.
    type Memory: Memory;
    /// Pinned host memory.
    type Staging: Staging;

    /// Bytes of memory that are free, and that there are.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn room(&self) -> Result<(usize, usize)>;

    /// A buffer of at least one byte, with any content.
    ///
    /// # Errors
    /// [`GpuError::Memory`].
    fn alloc(&self, bytes: usize) -> Result<Self::Memory>;

    /// Allocates zeroed host memory for [`Copies::upload_async`] and [`Copies::download_async`].
    ///
    /// # Errors
    /// [`GpuError::Memory`].
    fn staging(&self, bytes: usize) -> Result<Self::Staging>;
}

/// Copies between host and device.
pub trait Copies: Allocate {
    /// A download in flight, with its host memory. Dropping it waits for it.
    type PendingCopy: fmt::Debug + Send + 'static;

    /// Copies `from` to the device. `from` may be reused when this returns.
    ///
    /// # Errors
    /// [`GpuError::Recording`] while recording; [`GpuError::Address`], [`GpuError::Driver`].
    fn upload(&self, to: Address, from: &[u8]) -> Result<()>;

    /// Copies from the device after all work queued so far, and waits for it.
    ///
    /// # Errors
    /// As [`Copies::upload`], and the errors of earlier work.
    fn download(&self, from: Address, to: &mut [u8]) -> Result<()>;

    /// Queues a copy of the first `bytes` of `from` to the device. `from` must not be changed or dropped until
    /// [`Device::wait`] or [`Copies::download`] has returned, or [`Copies::wait_copy`] of a later copy.
    ///
    /// # Errors
    /// As [`Copies::upload`].
    fn upload_async(&self, to: Address, from: &Self::Staging, bytes: usize) -> Result<()>;

    /// Queues a copy from the device into the first `bytes` of `to`, without waiting: [`Copies::wait_copy`] does, and
    /// returns `to`.
    ///
    /// # Errors
    /// As [`Copies::upload`].
    fn download_async(&self, from: Address, to: Self::Staging, bytes: usize) -> Result<Self::PendingCopy>;

    /// Waits for the copy and the work queued before it; later work continues.
    ///
    /// # Errors
    /// Errors of the work so far, as far as known; [`GpuError::Recording`] while recording.
    fn wait_copy(&self, pending: Self::PendingCopy) -> Result<Self::Staging>;
}

/// Launches that are recorded and run again.
pub trait Graphs: Clone + fmt::Debug + Send + Sync + 'static {
    /// Recorded launches, ready to be run again. It refers to the buffers that they name and does not keep them.
    type Graph: fmt::Debug + Send + 'static;

    /// Records launches of this queue from now on instead of running them.
    ///
    /// # Errors
    /// [`GpuError::Recording`] if it is recording already; [`GpuError::Driver`].
    fn record(&self) -> Result<()>;

    /// Ends what [`Graphs::record`] began, also after an error.
    ///
    /// # Errors
    /// [`GpuError::Recording`] if nothing is recorded; [`GpuError::Driver`] if the driver cannot make a graph of it.
    fn recorded(&self) -> Result<Self::Graph>;

    /// Runs recorded launches again.
    ///
    /// # Errors
    /// As [`Device::launch`].
    fn replay(&self, graph: &Self::Graph) -> Result<()>;

    /// Time that the device worked on recorded launches of this queue that have finished since the last call. May
    /// leave out some if it is called seldom.
    fn take_busy(&self) -> Duration;
}

/// Priority of a queue's launches among those of several queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// Behind all urgent ones.
    #[default]
    Usual,
    /// Before all others that have not begun.
    Urgent,
}

/// A device with one queue of work, which runs asynchronously and in order.
///
/// Clones share the queue; [`Device::fork`] makes another queue on the same device. All queues may use every buffer
/// of a device once the work that fills it is complete (see [`Device::wait`]).
pub trait Device: Allocate + Copies + Graphs {
    /// Name for people.
    fn name(&self) -> String;

    /// Same device with a queue of its own.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn fork(&self, priority: Priority) -> Result<Self>;

    /// Reason why this process has lost the device, if it has; to be called after an error. Not while recording.
    fn lost(&self) -> Option<String> {
        None
    }

    /// Queues a launch, or records it while recording. A launch without blocks does nothing.
    ///
    /// # Errors
    /// [`GpuError::Kernel`] if it is invalid. Errors of its run are returned by the next call that waits.
    fn launch(&self, launch: &Launch) -> Result<()>;

    /// Waits until all queued work is complete.
    ///
    /// # Errors
    /// Errors of that work; [`GpuError::Recording`] while recording.
    fn wait(&self) -> Result<()>;
}
