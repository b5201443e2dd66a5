//! Decides which requests are traced, and queues their spans.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::InstrumentationScope;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SpanProcessor as _};
use tokio::time::Instant;

use super::context::{TraceContext, TraceParent, new_trace_id};
use super::exporter::{BatchExporter, Queue, SpanTransport};
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
#[derive(Clone, derive_more::Debug)]
#[debug("Tracer {{ sampler: {:?}, .. }}", self.sampler)]
pub struct Tracer {
    sampler: TraceSampler,
    scope: InstrumentationScope,
    processor: Arc<BatchSpanProcessor>,
    queue: Arc<Queue>,
    timeout: Duration,
    instruments: TraceInstruments,
}

impl Tracer {
    /// A tracer for the spans of `scope`. Its queue is emptied through `transport`, by a thread and by tasks of the
    /// current runtime, until [`Tracer::close`]. Has to be called within a runtime.
    pub fn new<T: SpanTransport>(
        sampler: TraceSampler,
        limits: TraceLimits,
        scope: InstrumentationScope,
        instruments: TraceInstruments,
        transport: T,
    ) -> Self {
        let queue = Arc::new(Queue::new(limits.queue.max(1)));
        let exporter = BatchExporter::new(transport, Arc::clone(&queue), limits.timeout, instruments.clone());
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(limits.queue.max(1))
            .with_max_export_batch_size(limits.batch.max(1))
            .with_scheduled_delay(limits.delay);
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(config.build());
        Self {
            sampler,
            scope,
            processor: Arc::new(processor.build()),
            queue,
            timeout: limits.timeout,
            instruments,
        }
    }

    /// A request begins at the stamp `now`: where its spans belong, if it is traced.
    pub fn begin(&self, parent: Option<&TraceParent>, now: Duration) -> Option<Arc<TraceContext>> {
        let trace = parent.map_or_else(new_trace_id, |parent| parent.trace);
        let taken = self.sampler.takes(trace, parent);
        taken.then(|| Arc::new(TraceContext::new(trace, parent, now, SystemTime::now())))
    }

    /// Queues a span, or counts it as dropped. Never waits.
    pub fn span(&self, span: Span) {
        // The processor drops what its queue has no room for, too, but without a count.
        if self.queue.enter() {
            self.processor.on_end(span.into_data(&self.scope));
        } else {
            self.instruments.dropped(1);
        }
    }

    /// Sends what is queued, for as long as one batch may take but not beyond `deadline`, and ends the thread. Later
    /// spans are dropped.
    pub async fn close(self, deadline: Instant) {
        self.queue.close();
        let patience = deadline
            .saturating_duration_since(Instant::now())
            .min(self.timeout);
        let processor = Arc::clone(&self.processor);
        // Deliveries that are given up end at once; the thread is joined long before this.
        let limit = patience + Duration::from_secs(5);
        let mut shutdown = tokio::task::spawn_blocking(move || processor.shutdown_with_timeout(limit));
        let ended = tokio::select! {
            ended = &mut shutdown => ended,
            () = tokio::time::sleep(patience) => {
                tracing::warn!("the collector takes too long, the last spans are lost");
                self.queue.give_up.cancel();
                shutdown.await
            }
        };
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the thread that sends spans did not end"),
            Err(error) => tracing::error!(%error, "ending the traces failed"),
        }
        self.instruments.dropped(self.queue.left());
    }
}
