//! Who goes first.

/// The lower class, then the earlier arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    pub(crate) priority: i32,
    pub(crate) arrival: u64,
}
