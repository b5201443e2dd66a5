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
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let spans = |result| meter.counter(f::OMNI_TRACE_SPANS_TOTAL, [result]);
        Self {
            exported: spans("exported"),
            failed: spans("failed"),
            dropped: spans("dropped"),
        }
    }

    /// The collector took so many.
    pub fn exported(&self, spans: u64) {
        self.exported.increment(spans);
    }

    /// So many could not be sent, or were not wanted.
    pub fn failed(&self, spans: u64) {
        self.failed.increment(spans);
    }

    /// So many came while the queue was full, or after its end.
    pub fn dropped(&self, spans: u64) {
        self.dropped.increment(spans);
    }
}
