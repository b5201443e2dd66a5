//! Identifiers and time stamps shared by engines, models and the workers that drive them.

use std::time::Duration;

/// One sequence inside one stage replica. Never reused within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeqId(pub u64);

/// One block of KV rows in a stage replica's pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// A reading of the caller's monotonic clock, counted from any fixed origin.
///
/// Engines read no clock: the caller passes the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Stamp(pub Duration);

impl Stamp {
    /// Time from `earlier` to `self`, zero if `earlier` is later.
    pub fn since(self, earlier: Stamp) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Stamp {
    type Output = Stamp;

    fn add(self, rhs: Duration) -> Stamp {
        Stamp(self.0 + rhs)
    }
}
