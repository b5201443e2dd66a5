//! Programs that test and measure a server from outside, over real sockets: `omni-soak` and `omni-service`;
//! `omni-gpu` does so for a device, and `omni-drift` for speech. Their callers and protocol checks are shared with
//! the end-to-end tests.

pub mod drift;
pub mod gpu;
mod line;
mod process;
pub mod service;
pub mod soak;

pub use process::ServerProcess;
