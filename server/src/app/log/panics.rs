//! Panics in the form of the log.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic;

/// From now on a panic is a line of the log, also where it is caught; with a stack trace where `RUST_BACKTRACE` asks for one.
pub(super) fn log() {
    panic::set_hook(Box::new(|panicked| {
        let current = std::thread::current();
        let trace = Backtrace::capture();
        let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
        tracing::error!(
            thread = current.name(),
            location = panicked.location().map(tracing::field::display),
            backtrace = trace,
            "panic: {}",
            panicked.payload_as_str().unwrap_or("(no message)")
        );
    }));
}
