//! The one monotonic clock of the process.
//!
//! Whoever needs the time is given a [`Clock`]; intervals are differences of its stamps. Wall-clock time appears in log
//! lines only.

use std::time::{Duration, Instant};

use omni_engine::Stamp;

/// Reads time as [`Stamp`]s, counted from when it was made. Copies agree with each other.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Stamp {
        Stamp(self.origin.elapsed())
    }

    /// Time since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: Stamp) -> Duration {
        self.now().since(earlier)
    }
}
