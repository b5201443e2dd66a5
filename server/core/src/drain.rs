//! Shutdown of the server on request, and the time limit for work in progress.
//!
//! An operator requests it, and the process ends as on SIGTERM.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use omni_engine::Stamp;
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorKind, ServeError};

/// The reason that a server takes no work, or gives up what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShutdownError {
    #[error("the server is shutting down and takes nothing new, another one may")]
    Draining,
    #[error("the server stopped")]
    Stopped,
}

impl From<ShutdownError> for ServeError {
    fn from(error: ShutdownError) -> Self {
        let reason = match error {
            ShutdownError::Draining => "DRAINING",
            ShutdownError::Stopped => "STOPPED",
        };
        // No time to try again: this server will not come back, and another one may take it at once.
        Self::new(ErrorKind::ShuttingDown, reason, error.to_string())
    }
}

/// Phases of a shutdown. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Phases {
    leaving: CancellationToken,
    draining: CancellationToken,
    /// True if no connections are accepted while it drains.
    closes_listener: bool,
}

impl Phases {
    /// Phases of a server that accepts connections while it drains, or does not (`closes_listener`).
    pub fn new(closes_listener: bool) -> Self {
        Self {
            closes_listener,
            ..Self::default()
        }
    }

    /// Reports not ready, but still serves: load balancers get time to route elsewhere.
    pub fn leave(&self) {
        self.leaving.cancel();
    }

    /// Takes no more work.
    pub fn drain(&self) {
        self.leaving.cancel();
        self.draining.cancel();
    }

    /// True if it is not ready because it ends.
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_cancelled()
    }

    /// Returns true if no more work is taken.
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Resolves when the server reports not ready.
    pub async fn leaving(&self) {
        self.leaving.cancelled().await;
    }

    /// Resolves when no more work is taken.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Cancelled when no more work is taken.
    pub fn draining_token(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// Resolves when no more connections are accepted, if that comes before the end.
    pub async fn listener_closes(&self) {
        self.draining.cancelled().await;
        if !self.closes_listener {
            std::future::pending::<()>().await;
        }
    }
}

/// Clones share the request.
#[derive(Debug, Clone, Default)]
pub struct Drain(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    asked: CancellationToken,
    /// Told with the wish, if it was.
    timeout: OnceLock<Option<Duration>>,
    /// The time at which what was begun must be over.
    deadline: OnceLock<Stamp>,
}

impl Drain {
    /// Requests the shutdown. Work in progress has `timeout`, or the configured time. Only the first request counts.
    pub fn ask(&self, timeout: Option<Duration>) {
        let _ = self.0.timeout.set(timeout);
        self.0.asked.cancel();
    }

    /// Waits for the request.
    pub async fn asked(&self) {
        self.0.asked.cancelled().await;
    }

    /// Begins the shutdown at `now`, requested or not; `configured` is the time limit unless the request has one.
    /// Returns the limit.
    pub fn begin(&self, configured: Duration, now: Stamp) -> Duration {
        let time = self.0.timeout.get().copied().flatten().unwrap_or(configured);
        let _ = self.0.deadline.set(now + time);
        time
    }

    /// The rest of that time at `now`, once it has begun.
    pub fn time_left(&self, now: Stamp) -> Option<Duration> {
        self.0.deadline.get().map(|deadline| deadline.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_who_asks_decides_how_long_it_may_take() {
        let drain = Drain::default();
        drain.ask(Some(Duration::from_secs(3)));
        drain.ask(None);
        drain.asked().await;
        let now = Stamp(Duration::from_secs(10));
        assert_eq!(drain.time_left(now), None);
        assert_eq!(drain.begin(Duration::from_secs(30), now), Duration::from_secs(3));
        let later = now + Duration::from_secs(1);
        assert_eq!(drain.time_left(later), Some(Duration::from_secs(2)));
        assert_eq!(
            drain.time_left(now + Duration::from_secs(9)),
            Some(Duration::ZERO)
        );
    }
}
