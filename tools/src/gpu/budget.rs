//! The time that there is.

use std::time::{Duration, Instant};

/// A time by which everything is to be over.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    begun: Instant,
    whole: Duration,
}

impl Budget {
    /// From now on.
    pub fn of(whole: Duration) -> Self {
        Self {
            begun: Instant::now(),
            whole,
        }
    }

    /// Time left.
    pub fn left(&self) -> Duration {
        self.whole.saturating_sub(self.begun.elapsed())
    }

    /// Time spent.
    pub fn gone(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns true if something that takes `need` can be begun.
    pub fn allows(&self, need: Duration) -> bool {
        self.left() > need
    }
}
