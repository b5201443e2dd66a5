//! The order in which requests are served.

/// Number of a request in the order of arrival: first come, first served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival(pub(crate) u64);
