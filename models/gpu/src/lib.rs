//! GPU support: device memory, launches and graphs, the kernels, and an emulator that runs them without a device.
//!
//! A kernel is CUDA C++ in `kernels/` plus a struct of its arguments here ([`kernels`]). The struct becomes a
//! [`Launch`], a plain value that can be compared, hashed and kept; a [`Device`] runs it, or records it into a graph.
//! `Emulated` (feature `emulator`) runs the same source on the CPU, so tests cover the shipped kernels. `Cuda`
//! (feature `cuda`) is an NVIDIA device. This crate knows no models.

#![cfg_attr(
    not(any(feature = "cuda", feature = "emulator")),
    allow(dead_code, reason = "devices check what they launch, and there is none")
)]

#[cfg(feature = "cuda")]
mod cuda;
mod device;
#[cfg(feature = "emulator")]
mod emulated;
pub mod kernels;
mod launch;

#[cfg(feature = "cuda")]
pub use cuda::{Cuda, CudaMemory, CudaPendingCopy, CudaStaging, RecordedGraph};
pub use device::{Allocate, Copies, Device, GpuError, Graphs, Memory, Priority, Result, Staging};
#[cfg(feature = "emulator")]
pub use emulated::{Emulated, EmulatedGraph, EmulatedMemory, EmulatedPendingCopy, EmulatedStaging, Order};
pub use launch::{Address, Args, Dims, Float, Kernel, Launch};

#[cfg(all(test, feature = "emulator"))]
mod tests;
