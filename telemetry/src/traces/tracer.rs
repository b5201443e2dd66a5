//! Decides which requests are traced, and queues their spans.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;

use super::context::{TraceContext, TraceId, TraceParent};
use super::exporter::{SpanExporter, SpanTransport};
use super::sampler::TraceSampler;
use super::span::Span;
use crate::instruments::TraceInstruments;

/// Bounds of the queue, and how it is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceLimits {
    /// Spans that may wait; more are dropped.
    pub queue: usize,
    /// Most spans that are sent at once.
    pub batch: usize,
    /// Longest time that spans wait for others to be sent with.
    pub delay: Duration,
    /// Longest time that sending a batch may take, and all that is left in the end together.
    pub timeout: Duration,
}

impl Default for TraceLimits {
    /// Those of the OpenTelemetry specification.
    fn default() -> Self {
        Self {
            queue: 2048,
            batch: 512,
            delay: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
        }
    }
}

/// Takes spans. Copies feed the same queue.
#[derive(Clone)]
pub struct Tracer {
    sampler: TraceSampler,
    queue: mpsc::Sender<Span>,
    instruments: TraceInstruments,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer")
            .field("sampler", &self.sampler)
            .finish_non_exhaustive()
    }
}

impl Tracer {
    /// A tracer, and the task that empties its queue through `transport`.
    #[must_use]
    pub fn new<T: SpanTransport>(
        sampler: TraceSampler,
        limits: TraceLimits,
        instruments: TraceInstruments,
        transport: T,
    ) -> (Self, SpanExporter<T>) {
        let (queue, spans) = mpsc::channel(limits.queue.max(1));
        let exporter = SpanExporter::new(spans, limits, instruments.clone(), transport);
        let tracer = Self {
            sampler,
            queue,
            instruments,
        };
        (tracer, exporter)
    }

    /// A request begins at the stamp `now`: where its spans belong, if it is traced.
    #[must_use]
    pub fn begin(&self, parent: Option<&TraceParent>, now: Duration) -> Option<Arc<TraceContext>> {
        let trace = parent.map_or_else(TraceId::random, |parent| parent.trace);
        let taken = self.sampler.takes(trace, parent);
        taken.then(|| Arc::new(TraceContext::new(trace, parent, now, SystemTime::now())))
    }

    /// Queues a span, or counts it as dropped. Never waits.
    pub fn span(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.instruments.dropped(1);
        }
    }
}
