//! Outcomes of spans.

use metrics::Counter;

use crate::families as f;
use crate::meter::Meter;

/// Counts every span once.
#[derive(Debug, Clone)]
pub struct TraceInstruments {
    exported: Counter,
    failed: Counter,
    dropped: Counter,
}

impl TraceInstruments {
    /// Instruments for one server's spans.
    pub fn new(meter: &Meter) -> Self {
        let spans = |result| meter.counter(f::OMNI_TRACE_SPANS_TOTAL, [result]);
        Self {
            exported: spans("exported"),
            failed: spans("failed"),
            dropped: spans("dropped"),
        }
    }

    /// Spans accepted by the collector.
    pub fn exported(&self, spans: u64) {
        self.exported.increment(spans);
    }

    /// Spans that could not be sent, or were rejected.
    pub fn failed(&self, spans: u64) {
        self.failed.increment(spans);
    }

    /// Spans dropped because the queue was full or closed.
    pub fn dropped(&self, spans: u64) {
        self.dropped.increment(spans);
    }
}
