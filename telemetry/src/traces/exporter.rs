//! Between the SDK's batch processor and the wire: tries a batch again, and counts what became of every span.
//!
//! The processor calls from a thread of its own, which has no runtime. A batch is therefore delivered by a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::instruments::TraceInstruments;

/// Times that a batch is tried.
const ATTEMPTS: u32 = 5;
/// Pause after the first failure; doubled after every further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The reason why a batch did not arrive. None of the messages contains a secret.
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

/// Transport of spans.
pub trait SpanTransport: Send + Sync + 'static {
    /// Sends them all; the count of those that the collector rejected. Dropping the future gives up.
    ///
    /// # Errors
    /// If none arrived.
    fn send(&self, spans: Vec<SpanData>) -> impl Future<Output = Result<u64, SpanSendError>> + Send;
}

/// Room in the queue, and the end of it. The tracer takes room, the exporter gives it back.
#[derive(Debug)]
pub(super) struct Queue {
    size: usize,
    used: AtomicUsize,
    closed: AtomicBool,
    /// The server stops: nothing is tried again.
    pub(super) exit: CancellationToken,
    /// The time for what is left is up.
    pub(super) give_up: CancellationToken,
}

impl Queue {
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            used: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            exit: CancellationToken::new(),
            give_up: CancellationToken::new(),
        }
    }

    /// Takes room for a span, if there is some.
    pub(super) fn enter(&self) -> bool {
        let more = |used| (used < self.size).then_some(used + 1);
        let entered = || self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        !self.closed.load(Ordering::Acquire) && entered().is_ok()
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.exit.cancel();
    }

    /// Spans that entered and that the processor did not take any more.
    pub(super) fn left(&self) -> u64 {
        self.used.load(Ordering::Acquire) as u64
    }

    fn leave(&self, spans: usize) {
        self.used.fetch_sub(spans, Ordering::AcqRel);
    }
}

/// Hands the processor's batches to tasks of `runtime`.
#[derive(derive_more::Debug)]
#[debug("BatchExporter {{ .. }}")]
pub(super) struct BatchExporter<T> {
    runtime: Handle,
    delivery: Arc<Delivery<T>>,
}

impl<T: SpanTransport> BatchExporter<T> {
    pub(super) fn new(
        transport: T,
        queue: Arc<Queue>,
        timeout: Duration,
        instruments: TraceInstruments,
    ) -> Self {
        Self {
            runtime: Handle::current(),
            delivery: Arc::new(Delivery {
                transport,
                queue,
                timeout,
                instruments,
                failing: AtomicBool::new(false),
            }),
        }
    }
}

impl<T: SpanTransport> SpanExporter for BatchExporter<T> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let delivery = Arc::clone(&self.delivery);
        let delivered = self
            .runtime
            .spawn(async move { delivery.deliver(batch).await })
            .await;
        delivered.map_err(|error| OTelSdkError::InternalFailure(error.to_string()))
    }
}

struct Delivery<T> {
    transport: T,
    queue: Arc<Queue>,
    timeout: Duration,
    instruments: TraceInstruments,
    failing: AtomicBool,
}

impl<T: SpanTransport> Delivery<T> {
    async fn deliver(&self, batch: Vec<SpanData>) {
        let spans = batch.len();
        self.queue.leave(spans);
        let spans = spans as u64;
        let outcome = tokio::select! {
            outcome = self.attempts(batch) => outcome,
            () = self.queue.give_up.cancelled() => Err(SpanSendError::Timeout(self.timeout)),
        };
        match outcome {
            Ok(rejected) => {
                self.instruments.exported(spans.saturating_sub(rejected));
                self.instruments.failed(rejected.min(spans));
                if self.failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("sending spans works again");
                }
            }
            Err(error) => {
                self.warn(&error);
                self.instruments.failed(spans);
            }
        }
    }

    async fn attempts(&self, batch: Vec<SpanData>) -> Result<u64, SpanSendError> {
        let exit = &self.queue.exit;
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match self.send(batch.clone()).await {
                Err(error) if error.may_pass() && !exit.is_cancelled() => self.warn(&error),
                outcome => return outcome,
            }
            tokio::select! {
                () = exit.cancelled() => {}
                () = tokio::time::sleep(pause) => pause *= 2,
            }
        }
        self.send(batch).await
    }

    async fn send(&self, batch: Vec<SpanData>) -> Result<u64, SpanSendError> {
        let sent = tokio::time::timeout(self.timeout, self.transport.send(batch)).await;
        sent.unwrap_or(Err(SpanSendError::Timeout(self.timeout)))
    }

    /// Says so once until it works again.
    fn warn(&self, error: &SpanSendError) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "sending spans failed");
        }
    }
}

#[cfg(test)]
mod tests;
