//! The exporters themselves.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics::{Counter, Gauge};

use crate::families as f;
use crate::meter::Meter;

/// Records readings and pushes.
#[derive(Debug, Clone)]
pub struct ExporterInstruments {
    scrapes: Counter,
    succeeded: Counter,
    failed: Counter,
    last_success: Gauge,
    interval: Gauge,
}

impl ExporterInstruments {
    /// Instruments for one server's exporters.
    pub fn new(meter: &Meter) -> Self {
        let push = |result| meter.counter(f::OMNI_METRICS_PUSH_TOTAL, [result]);
        Self {
            scrapes: meter.counter(f::OMNI_METRICS_SCRAPES_TOTAL, []),
            succeeded: push("success"),
            failed: push("failure"),
            last_success: meter.gauge(f::OMNI_METRICS_LAST_PUSH_SUCCESS_TIMESTAMP_S, []),
            interval: meter.gauge(f::OMNI_METRICS_PUSH_INTERVAL_S, []),
        }
    }

    /// The metrics were read over HTTP.
    pub fn scraped(&self) {
        self.scrapes.increment(1);
    }

    /// Pushes are this far apart.
    pub fn pushes_every(&self, interval: Duration) {
        self.interval.set(interval.as_secs_f64());
    }

    /// A push was accepted.
    pub fn pushed(&self, at: SystemTime) {
        self.succeeded.increment(1);
        let since: Duration = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_success.set(since.as_secs_f64());
    }

    /// A push failed.
    pub fn push_failed(&self) {
        self.failed.increment(1);
    }
}
