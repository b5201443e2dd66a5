//! Log lines of requests that were refused or failed: one for each, within bounds. Their spans are made here, too.
//!
//! The span identifies the request (its id, caller, key, protocol and route). A caller that is refused again and
//! again fills no disk: lines are limited per reason and time, and the next one tells the number of suppressed lines.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::id::current_request;

/// Most lines of one reason within [`WINDOW`].
const MOST: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);
/// Most reasons that are counted apart; others share one count.
const REASONS: usize = 64;

/// Party that can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The caller: the request cannot be honoured.
    Caller,
    /// The operator: the server could not do its work.
    Server,
    /// None: the caller has gone.
    Gone,
}

/// A request that was refused or failed.
pub struct Refusal<'a> {
    pub fault: Fault,
    /// Status in the protocol's own words.
    pub status: &'a dyn Display,
    /// Stable, for programs.
    pub reason: &'a str,
    /// For people; contains no text of the caller.
    pub message: &'a str,
}

impl Refusal<'_> {
    /// Writes the line, and makes the span of the request. Callers who are refused often get few of either, so that the
    /// spans of those who are served are not displaced.
    pub fn log(&self) {
        static LINES: Mutex<LineLimits> = Mutex::new(LineLimits::new());
        let taken = LINES.lock().take(self.reason, Instant::now());
        let Line::Written { suppressed } = taken else {
            return;
        };
        if let Some(request) = current_request() {
            request.refused(self);
        }
        let suppressed = (suppressed > 0).then_some(suppressed);
        let problem = Some(self.message).filter(|message| !message.is_empty());
        let status = self.status;
        let reason = self.reason;
        match self.fault {
            Fault::Caller => tracing::info!(%status, reason, problem, suppressed, "refused"),
            Fault::Server => tracing::warn!(%status, reason, problem, suppressed, "failed"),
            Fault::Gone => tracing::info!(%status, reason, suppressed, "abandoned by its caller"),
        }
    }
}

/// Decision on a line.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// Written, with the number of suppressed lines before it.
    Written {
        suppressed: u64,
    },
    Suppressed,
}

/// Counts of recent lines, by reason.
#[derive(Debug)]
struct LineLimits(BTreeMap<String, Window>);

#[derive(Debug)]
struct Window {
    began: Instant,
    written: u32,
    suppressed: u64,
}

impl LineLimits {
    const fn new() -> Self {
        Self(BTreeMap::new())
    }

    fn take(&mut self, reason: &str, now: Instant) -> Line {
        let is_own = self.0.contains_key(reason) || self.0.len() < REASONS;
        let reason = if is_own { reason } else { "" };
        let new = || Window {
            began: now,
            written: 0,
            suppressed: 0,
        };
        let window = self.0.entry(reason.to_owned()).or_insert_with(new);
        if now.saturating_duration_since(window.began) >= WINDOW {
            (window.began, window.written) = (now, 0);
        }
        if window.written == MOST {
            window.suppressed += 1;
            return Line::Suppressed;
        }
        window.written += 1;
        Line::Written {
            suppressed: std::mem::take(&mut window.suppressed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: Line = Line::Written { suppressed: 0 };

    #[test]
    fn lines_of_one_reason_are_bounded_and_the_next_says_how_many_were_not_written() {
        let mut lines = LineLimits::new();
        let begin = Instant::now();
        for _ in 0..MOST {
            assert_eq!(lines.take("API_KEY_INVALID", begin), WRITTEN);
        }
        for _ in 0..7 {
            assert_eq!(lines.take("API_KEY_INVALID", begin), Line::Suppressed);
        }
        assert_eq!(
            lines.take("VOICE_NOT_FOUND", begin),
            WRITTEN,
            "another reason has lines of its own"
        );
        let later = begin + WINDOW;
        let next = Line::Written { suppressed: 7 };
        assert_eq!(lines.take("API_KEY_INVALID", later), next);
        assert_eq!(lines.take("API_KEY_INVALID", later), WRITTEN);
    }

    #[test]
    fn reasons_are_bounded() {
        let mut lines = LineLimits::new();
        let now = Instant::now();
        for n in 0..10 * REASONS {
            lines.take(&format!("REASON_{n}"), now);
        }
        assert!(lines.0.len() <= REASONS + 1);
    }
}
