//! The task that sends spans, batch by batch.
//!
//! A batch that cannot be delivered for a reason that may pass is tried again later and later, a bounded number of times, while
//! the queue fills behind it. In the end everything that is left has the time of one batch together.

use std::fmt;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::span::Span;
use super::tracer::TraceLimits;
use crate::instruments::TraceInstruments;

/// Times that a batch is tried.
const ATTEMPTS: u32 = 5;
/// Pause after the first failure; doubled after every further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Why a batch did not arrive. None of the messages contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpanSendError {
    /// It may be tried again.
    #[error("{0}")]
    Transient(String),
    /// That would be of no use.
    #[error("{0}")]
    Refused(String),
    /// It took too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

impl SpanSendError {
    fn may_pass(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

/// How spans leave the server.
pub trait SpanTransport: Send {
    /// Sends them all; says how many of them were not wanted. Dropping the future gives up.
    ///
    /// # Errors
    ///
    /// If none arrived.
    fn send(&mut self, spans: &[Span]) -> impl Future<Output = Result<u64, SpanSendError>> + Send;
}

/// The sending task. A value with a `run` method: the composition root decides when it runs.
pub struct SpanExporter<T> {
    queue: mpsc::Receiver<Span>,
    /// Taken from the queue and not delivered yet.
    batch: Vec<Span>,
    limits: TraceLimits,
    instruments: TraceInstruments,
    transport: T,
    failing: bool,
}

impl<T> fmt::Debug for SpanExporter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanExporter")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl<T: SpanTransport> SpanExporter<T> {
    pub(super) fn new(
        queue: mpsc::Receiver<Span>,
        limits: TraceLimits,
        instruments: TraceInstruments,
        transport: T,
    ) -> Self {
        Self {
            queue,
            batch: Vec::new(),
            limits,
            instruments,
            transport,
            failing: false,
        }
    }

    /// Sends until `exit`, and what is queued by then for as long as one batch may take.
    pub async fn run(mut self, exit: CancellationToken) {
        let patience = self.limits.timeout;
        let over = async {
            exit.cancelled().await;
            tokio::time::sleep(patience).await;
        };
        tokio::select! {
            () = self.serve(&exit) => {}
            () = over => {}
        }
        let left = self.batch.len() + self.queue.len();
        if left > 0 {
            tracing::warn!(
                spans = left,
                "spans are lost: the collector did not take them in time"
            );
            self.instruments.failed(left as u64);
        }
    }

    async fn serve(&mut self, exit: &CancellationToken) {
        loop {
            self.gather(exit).await;
            if self.batch.is_empty() {
                return;
            }
            self.deliver(exit).await;
        }
    }

    /// Waits for a span, and then for others to go with it. Comes back with none on `exit` only.
    async fn gather(&mut self, exit: &CancellationToken) {
        tokio::select! {
            biased;
            _ = self.queue.recv_many(&mut self.batch, self.limits.batch) => {}
            () = exit.cancelled() => return,
        }
        let late = tokio::time::sleep(self.limits.delay);
        tokio::pin!(late);
        while self.batch.len() < self.limits.batch {
            let room = self.limits.batch - self.batch.len();
            tokio::select! {
                biased;
                got = self.queue.recv_many(&mut self.batch, room) => if got == 0 { return },
                () = exit.cancelled() => return,
                () = &mut late => return,
            }
        }
    }

    /// Sends the batch; it is empty afterwards.
    async fn deliver(&mut self, exit: &CancellationToken) {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let last = attempt == ATTEMPTS || exit.is_cancelled();
            match self.send().await {
                Ok(unwanted) => return self.delivered(unwanted),
                Err(error) if last || !error.may_pass() => return self.lost(&error),
                Err(error) => self.fails(&error),
            }
            tokio::select! {
                () = exit.cancelled() => {}
                () = tokio::time::sleep(pause) => pause *= 2,
            }
        }
    }

    async fn send(&mut self) -> Result<u64, SpanSendError> {
        let limit = self.limits.timeout;
        let sent = tokio::time::timeout(limit, self.transport.send(&self.batch)).await;
        sent.unwrap_or(Err(SpanSendError::Timeout(limit)))
    }

    fn delivered(&mut self, unwanted: u64) {
        let sent = std::mem::take(&mut self.batch).len() as u64;
        self.instruments.exported(sent.saturating_sub(unwanted));
        self.instruments.failed(unwanted.min(sent));
        if std::mem::take(&mut self.failing) {
            tracing::info!("sending spans works again");
        }
    }

    fn lost(&mut self, error: &SpanSendError) {
        self.fails(error);
        let lost = std::mem::take(&mut self.batch).len() as u64;
        self.instruments.failed(lost);
    }

    fn fails(&mut self, error: &SpanSendError) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(%error, "sending spans failed");
        }
    }
}

#[cfg(test)]
mod tests;
