//! Backend for GPUs, in f32 or bf16: kernels of `omni-gpu`, launched one by one or, for repeated steps, as graphs.
//!
//! Rows lie in device memory, and decisions during a step are made there. Host data of a step (codes, positions,
//! cache slots) is uploaded in one copy; see [`command_stream`] for graphs.

mod arena;
mod attention;
mod choices;
mod command_stream;
mod experts;
mod ids;
mod operations;
mod products;
mod signals;
mod tokens;
mod upload;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use omni_gpu::{Address, Device, Float, GpuError, Launch, Priority};

use super::{ComputeError, Result, StepKey};
use command_stream::{CommandStream, Place};
use watch::Watch;

impl From<GpuError> for ComputeError {
    fn from(error: GpuError) -> Self {
        let message = error.to_string();
        match error {
            GpuError::Lost { .. } => Self::Lost(message),
            _ => Self::Failed(message),
        }
    }
}

/// A GPU with a queue of work. Clones share the queue.
pub struct Gpu<D: Device> {
    float: Float,
    commands: Arc<Mutex<CommandStream<D>>>,
    watch: Arc<Watch>,
}

impl<D: Device> Clone for Gpu<D> {
    fn clone(&self) -> Self {
        Self {
            float: self.float,
            commands: Arc::clone(&self.commands),
            watch: Arc::clone(&self.watch),
        }
    }
}

/// `[rows, width]` of the backend's float type.
pub struct Rows<D: Device> {
    place: Place<D>,
    rows: usize,
    width: usize,
}

/// `[rows, columns]` of `u32`.
pub struct Ids<D: Device> {
    place: Place<D>,
    rows: usize,
    columns: usize,
}

/// `[outputs, inputs]`, row by row, with a bias `[outputs]` of f32 or none.
pub struct Matrix<D: Device> {
    weight: D::Memory,
    bias: Option<D::Memory>,
    outputs: usize,
    inputs: usize,
}

/// Numbers of f32, one per channel.
pub struct Vector<D: Device> {
    values: D::Memory,
}

/// `[rows, width]`.
pub struct Table<D: Device> {
    values: D::Memory,
    rows: usize,
    width: usize,
}

/// `[gate | up]` of all experts, `[experts, 2 * inner, hidden]`, and `down`, `[experts, hidden, inner]`.
pub struct Experts<D: Device> {
    gate_up: D::Memory,
    down: D::Memory,
    inner: usize,
}

/// `[slots, width]` each.
pub struct Kv<D: Device> {
    keys: D::Memory,
    values: D::Memory,
    slots: usize,
    width: usize,
}

/// `[streams, rows, width]`.
pub struct Past<D: Device> {
    values: Option<D::Memory>,
    streams: usize,
    rows: usize,
    width: usize,
}

/// Memory for rows that one step leaves for another.
pub struct Kept<D: Device>(Option<D::Memory>);

impl<D: Device> Default for Kept<D> {
    fn default() -> Self {
        Self(None)
    }
}

impl<D: Device> Gpu<D> {
    /// `graphs`: whether steps that are alike become graphs.
    pub fn new(device: D, float: Float, graphs: bool) -> Self {
        Self {
            float,
            commands: Arc::new(Mutex::new(CommandStream::new(device, graphs))),
            watch: Arc::default(),
        }
    }

    fn commands(&self) -> MutexGuard<'_, CommandStream<D>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&self, launch: Launch) -> Result<()> {
        Ok(self.commands().launch(launch, &self.watch)?)
    }

    /// Rows to be written.
    fn scratch(&self, rows: usize, width: usize) -> Result<Rows<D>> {
        let place = self.commands().take(rows * width * self.float.bytes())?;
        Ok(Rows { place, rows, width })
    }

    /// Brings words of the host.
    fn bring(&self, words: impl Iterator<Item = u32>) -> Result<Place<D>> {
        let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        Ok(self.commands().bring(&bytes)?)
    }

    /// Another queue on the same device, for a replica.
    fn fork(&self, priority: Priority) -> Result<Self> {
        let commands = self.commands();
        // Uploads must be complete before another queue reads them.
        commands.device.wait()?;
        let forked = CommandStream::new(commands.device.fork(priority)?, commands.graphs);
        Ok(Self {
            float: self.float,
            commands: Arc::new(Mutex::new(forked)),
            watch: Arc::clone(&self.watch),
        })
    }

    /// The sizes that there are up to that of `most`, largest first; none if nothing is recorded.
    fn sizes(&self, most: usize, bucket: impl Fn(usize) -> usize) -> Vec<usize> {
        if most == 0 || !self.commands().graphs {
            return Vec::new();
        }
        let next = |size: &usize| (*size < most).then(|| bucket(size + 1));
        let mut sizes: Vec<usize> = std::iter::successors(Some(bucket(1)), next).collect();
        sizes.reverse();
        sizes
    }

    /// Notes, once, that steps of this key are not done as they should be.
    fn refuse(&self, key: StepKey, reason: &str) {
        self.commands().refuse(key, reason, &self.watch);
    }

    fn run_step<T>(&self, key: StepKey, step: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let open = self.commands().begin(key, &self.watch)?;
        self.ended(open, step)
    }

    /// Computes a step and ends it, if one is `open`; else its operations are launched one by one.
    fn ended<T>(&self, open: bool, step: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let result = step(self);
        if !open {
            return result;
        }
        let mut commands = self.commands();
        match result {
            Ok(result) => {
                commands.finish(&self.watch)?;
                Ok(result)
            }
            Err(error) => {
                commands.abandon();
                Err(error)
            }
        }
    }
}

impl<D: Device> Rows<D> {
    fn count(&self) -> u32 {
        small(self.rows * self.width)
    }

    fn address(&self) -> Address {
        self.place.address()
    }
}

/// Sizes are checked against memory long before they come near the limit.
fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
