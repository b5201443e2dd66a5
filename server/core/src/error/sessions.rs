//! A server without room for another session.

use std::time::Duration;

use super::{ErrorKind, ServeError};

/// Retry delay of a refused caller.
const RETRY: Duration = Duration::from_secs(1);

/// The server accepts no more sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{limit} sessions are open, no more are accepted now")]
pub struct TooManySessions {
    pub limit: usize,
}

impl From<TooManySessions> for ServeError {
    fn from(error: TooManySessions) -> Self {
        Self::new(ErrorKind::TooManySessions, "CONCURRENCY_LIMIT", error.to_string())
            .with_limit(error.limit)
            .retry_in(RETRY)
    }
}
