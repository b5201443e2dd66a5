//! Exemplars: the trace of one observation per bucket, for readers of OpenMetrics.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

thread_local! {
    static TRACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls `record`; histogram observations in it get this trace id as exemplar.
pub fn with_exemplar<T>(trace: Option<String>, record: impl FnOnce() -> T) -> T {
    let before = TRACE.replace(trace);
    let result = record();
    TRACE.set(before);
    result
}

/// One observation and its trace.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exemplar {
    pub(super) trace: String,
    pub(super) value: f64,
    /// Seconds since 1970.
    pub(super) at: f64,
}

impl Exemplar {
    /// Exemplar of the current observation, if it belongs to a trace.
    pub(super) fn of(value: f64) -> Option<Self> {
        let trace = TRACE.with_borrow(Clone::clone)?;
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(Self {
            trace,
            value,
            at: (at.as_secs_f64() * 1e3).round() / 1e3,
        })
    }
}
