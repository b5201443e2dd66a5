//! Ctrl-C and termination, as events instead of sudden death.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;

/// Number of the signal that Ctrl-C sends.
pub(crate) const SIGINT: u8 = 2;
/// Number of the signal that asks a program to end.
const SIGTERM: u8 = 15;

/// The signals that ask the program to stop.
#[derive(Debug)]
pub(crate) struct Interrupts {
    int: Signal,
    term: Signal,
}

impl Interrupts {
    pub(crate) fn catch() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::io("cannot catch signals", error));
        Ok(Self {
            int: listen(SignalKind::interrupt())?,
            term: listen(SignalKind::terminate())?,
        })
    }

    /// The next one, as its number.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.int.recv() => SIGINT,
            _ = self.term.recv() => SIGTERM,
        }
    }
}
