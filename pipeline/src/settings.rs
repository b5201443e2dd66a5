//! Settings of replicas, as plain values.

use std::time::Duration;

/// Retry of a sequence on another replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// Number of attempts.
    pub attempts: u32,
    /// Longest wait for a replica that takes work.
    pub wait: Duration,
}

/// Choice of an utterance's replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// The replica with the least work in flight.
    LeastQueue,
    /// Replicas in turn.
    RoundRobin,
}

/// Schedule by which a replica that died is rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// Wait after the first failure; doubled with every further one in a row.
    pub first_delay: Duration,
    /// Longest wait.
    pub max_delay: Duration,
    /// Time of health after which a failure counts as the first.
    pub healthy_after: Duration,
}

/// Entry of a replica in a list with one entry for all replicas, or one for each.
pub fn of_replica<T>(list: &[T], replica: u32) -> Option<&T> {
    list.get(replica as usize % list.len().max(1))
}
