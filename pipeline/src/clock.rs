//! The monotonic clock of the machine.
//!
//! Code that needs the time is given a [`Clock`]; intervals are differences of its stamps. Wall-clock time appears
//! only in log lines, in traces and in operators' views.

use std::time::Duration;

use omni_engine::Stamp;
use rustix::time::{ClockId, clock_gettime};

/// Reads time as [`Stamp`]s: `CLOCK_MONOTONIC`, counted from the start of the machine. Clocks agree with each other,
/// also across the processes of one machine.
#[derive(Debug, Clone, Copy)]
pub struct Clock(());

impl Clock {
    /// Creates a clock.
    pub fn start() -> Self {
        Self(())
    }

    /// The time now.
    pub fn now(&self) -> Stamp {
        let now = clock_gettime(ClockId::Monotonic);
        Stamp(Duration::try_from(now).unwrap_or_default())
    }

    /// Time since `earlier`.
    pub fn since(&self, earlier: Stamp) -> Duration {
        self.now().since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_agree_and_never_go_back() {
        let first = Clock::start();
        let second = Clock::start();
        let mut last = first.now();
        for clock in [second, first].into_iter().cycle().take(100) {
            let now = clock.now();
            assert!(now >= last, "{now:?} comes after {last:?}");
            last = now;
        }
    }
}
