//! Ctrl-C and termination, as events instead of sudden death.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::failure::Failure;

/// Number of the signal that Ctrl-C sends.
pub(crate) const SIGINT: u8 = 2;
/// Number of the signal that asks a program to end.
const SIGTERM: u8 = 15;

/// Time for closing files after a second signal. Only a reader that is stuck needs more.
const LAST_CHANCE: Duration = Duration::from_millis(500);

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

    /// Waits for the next one; returns its number.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.int.recv() => SIGINT,
            _ = self.term.recv() => SIGTERM,
        }
    }

    /// Waits until files are closed. A signal cuts that short, but only the second one, including those `before`.
    /// Even then the files get a moment: a written file must be valid, and one without audio must be removed.
    ///
    /// Even then the files get a moment: what is in one shall be valid, and one without audio shall be gone.
    pub(crate) async fn while_closing(
        &mut self,
        before: u32,
        closing: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let mut closing = std::pin::pin!(closing);
        for _ in before..2 {
            tokio::select! {
                result = &mut closing => return result,
                _ = self.next() => {}
            }
        }
        timeout(LAST_CHANCE, closing)
            .await
            .unwrap_or(Err(Failure::Interrupted(SIGINT)))
    }
}
