//! Sessions and speech streams.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use crate::families as f;
use crate::meter::Meter;
use crate::records::Silence;

/// The reason for which a request was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionReason {
    /// The queue of requests was full, or the wait in it too long.
    Requests,
    /// The queue of tokens, or of text, was full.
    Tokens,
    /// As many calls were open as the server takes.
    Sessions,
    /// As many of the caller's streams were open as its API key may have.
    Concurrency,
    /// The caller's API key has used up a rate.
    Rate,
}

impl RejectionReason {
    const ALL: [&'static str; 5] = [
        "max_num_queued_reqs",
        "max_num_queued_tokens",
        "max_sessions",
        "concurrency_limit",
        "rate_limited",
    ];
}

/// The reason for which a speech stream ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamAbort {
    /// The caller cancelled it.
    Cancelled,
    /// The caller went away.
    Closed,
    /// A stage was gone.
    EngineDead,
    /// Anything else.
    Error,
}

impl StreamAbort {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Cancelled, "cancelled"),
        (Self::Closed, "closed"),
        (Self::EngineDead, "engine_dead"),
        (Self::Error, "error"),
    ];
}

/// Records calls as the edge sees them.
#[derive(Debug)]
pub struct SessionInstruments {
    active: Gauge,
    opened: Counter,
    duration: Histogram,
    rejected: [Counter; RejectionReason::ALL.len()],
    completed: Counter,
    aborted: [Counter; StreamAbort::ALL.len()],
    silent: [Counter; Silence::ALL.len()],
}

impl SessionInstruments {
    /// Instruments for all sessions of a server.
    pub fn new(meter: &Meter) -> Self {
        let rejected = |reason| meter.counter(f::ADMISSION_REJECTIONS_TOTAL, [reason]);
        let aborted = |(_, reason)| meter.counter(f::OMNI_SPEECH_STREAM_ABORTED_TOTAL, [reason]);
        Self {
            active: meter.gauge(f::OMNI_SESSIONS_ACTIVE, []),
            opened: meter.counter(f::OMNI_SESSIONS_TOTAL, []),
            duration: meter.histogram(f::OMNI_SESSION_DURATION_S, []),
            rejected: RejectionReason::ALL.map(rejected),
            completed: meter.counter(f::OMNI_SPEECH_STREAM_COMPLETED_TOTAL, []),
            aborted: StreamAbort::ALL.map(aborted),
            silent: Silence::ALL
                .map(|(_, reason)| meter.counter(f::OMNI_AUDIO_SILENT_REQUESTS_TOTAL, [reason])),
        }
    }

    /// A session began.
    pub fn opened(&self) {
        self.active.increment(1.0);
        self.opened.increment(1);
    }

    /// A session that began `ago` ended.
    pub fn closed(&self, ago: Duration) {
        self.active.decrement(1.0);
        self.duration.record(ago);
    }

    /// A request was turned away at the door.
    pub fn rejected(&self, reason: RejectionReason) {
        self.rejected[reason as usize].increment(1);
    }

    /// A speech stream was sent to its end.
    pub fn stream_completed(&self) {
        self.completed.increment(1);
    }

    /// A speech stream was sent to its end, and is inaudible.
    pub fn silent(&self, why: Silence) {
        self.silent[why as usize].increment(1);
    }

    /// A speech stream ended early.
    pub fn stream_aborted(&self, reason: StreamAbort) {
        self.aborted[reason as usize].increment(1);
    }
}
