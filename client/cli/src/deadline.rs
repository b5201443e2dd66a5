//! One time limit over everything a command does.

use std::time::Duration;

use omni_client::{ClientError, Code, RpcError};
use tokio::time::{Instant, sleep_until};

use super::failure::Failure;

/// Deadline after which the command gives up; or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Option<(Instant, Duration)>,
}

impl Deadline {
    pub(crate) fn after(limit: Option<Duration>) -> Self {
        Self {
            at: limit.map(|limit| (Instant::now() + limit, limit)),
        }
    }

    /// Fails at the deadline; pends for ever without one.
    pub(crate) async fn passed(self) -> Failure {
        match self.at {
            Some((at, limit)) => {
                sleep_until(at).await;
                Failure::Rpc(exceeded(limit))
            }
            None => std::future::pending().await,
        }
    }

    /// Runs `work` within the limit.
    pub(crate) async fn within<T, E: Into<Failure>>(
        self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            result = work => result.map_err(Into::into),
            failure = self.passed() => Err(failure),
        }
    }
}

/// The error for a deadline that has passed here; the server gives the same one.
pub(crate) fn exceeded(limit: Duration) -> ClientError {
    let message = format!("not done within {} s", limit.as_secs_f64());
    ClientError::Rpc(Box::new(RpcError::new(Code::DeadlineExceeded, message)))
}
