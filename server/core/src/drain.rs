//! The wish that the server ends, and how long what was begun may take then.
//!
//! An operator asks for it here, and the process ends as on SIGTERM.

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

/// The phases of a server's end. Copies are the same.
#[derive(Debug, Clone, Default)]
pub struct Phases {
    leaving: CancellationToken,
    draining: CancellationToken,
    /// True if no connections are accepted while it drains.
    closes_listener: bool,
}

impl Phases {
    /// The end of a server that goes on accepting connections while it drains, or does not (`closes_listener`).
    #[must_use]
    pub fn new(closes_listener: bool) -> Self {
        Self {
            closes_listener,
            ..Self::default()
        }
    }

    /// It is not ready any more, and serves all the same: who asks has time to go elsewhere.
    pub fn leave(&self) {
        self.leaving.cancel();
    }

    /// It takes no more work.
    pub fn drain(&self) {
        self.leaving.cancel();
        self.draining.cancel();
    }

    /// True if it is not ready because it ends.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_cancelled()
    }

    /// True if it takes no more work.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Resolves when it is not ready any more.
    pub async fn leaving(&self) {
        self.leaving.cancelled().await;
    }

    /// Resolves when it takes no more work.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Cancelled when it takes no more work.
    #[must_use]
    pub fn draining_token(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// Resolves when no more connections are accepted, if that is before everything is over.
    pub async fn listener_closes(&self) {
        self.draining.cancelled().await;
        if !self.closes_listener {
            std::future::pending::<()>().await;
        }
    }
}

/// Copies are the same wish.
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
    /// Asks for it. What was begun may take `timeout`, or as long as is configured. The first request decides.
    pub fn ask(&self, timeout: Option<Duration>) {
        let _ = self.0.timeout.set(timeout);
        self.0.asked.cancel();
    }

    /// Waits until it is asked for.
    pub async fn asked(&self) {
        self.0.asked.cancelled().await;
    }

    /// It begins at `now`, asked for or not; `configured` is how long what was begun may take unless that was said. Returns
    /// how long that is.
    pub fn begin(&self, configured: Duration, now: Stamp) -> Duration {
        let time = self.0.timeout.get().copied().flatten().unwrap_or(configured);
        let _ = self.0.deadline.set(now + time);
        time
    }

    /// The rest of that time at `now`, once it has begun.
    #[must_use]
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
