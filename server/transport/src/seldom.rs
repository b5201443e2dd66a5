//! Lines of the log that any caller can cause: one a minute of each kind, so that a scanner fills no disk.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time between two lines of a kind.
const PAUSE: Duration = Duration::from_secs(60);

/// One kind of line.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// A kind of which no line was written.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// True if a line may be written now; if so, it counts as written.
    pub fn now(&self) -> bool {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> bool {
        let mut last = self.0.lock();
        let may = last.is_none_or(|last| now.saturating_duration_since(last) >= PAUSE);
        if may {
            *last = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_once_a_minute() {
        let line = Seldom::new();
        let begun = Instant::now();
        let after = |seconds| line.at(begun + Duration::from_secs(seconds));
        assert_eq!(
            [0, 1, 59, 60, 61, 130].map(after),
            [true, false, false, true, false, true]
        );
    }
}
