//! Programs that judge and measure a server from outside, over real sockets: `omni-soak` and `omni-service`;
//! `omni-gpu` does so with a device. Their callers and the rules by which they judge are those of the end-to-end
//! tests.

pub mod gpu;
mod line;
mod process;
pub mod service;
pub mod soak;

pub use process::ServerProcess;
