//! Refused series and updates: counted by cause, and logged once per metric and cause.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The reason why a series or an update was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The family has its greatest number of label sets already.
    Cardinality,
    /// The family is of another kind.
    KindMismatch,
    /// The labels are not those of the family.
    LabelMismatch,
    /// A label has a value that it cannot have.
    LabelValue,
    /// The log writer cannot keep up.
    LogOverflow,
    /// A value that is not finite, or a counter that would go down.
    NonFinite,
    /// The index of an engine that was not registered.
    UnknownEngine,
    /// Unknown metric.
    UnknownMetric,
}

impl DropReason {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::Cardinality,
        Self::KindMismatch,
        Self::LabelMismatch,
        Self::LabelValue,
        Self::LogOverflow,
        Self::NonFinite,
        Self::UnknownEngine,
        Self::UnknownMetric,
    ];

    /// The value of the label `reason`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cardinality => "cardinality",
            Self::KindMismatch => "kind_mismatch",
            Self::LabelMismatch => "label_mismatch",
            Self::LabelValue => "label_value",
            Self::LogOverflow => "log_overflow",
            Self::NonFinite => "non_finite",
            Self::UnknownEngine => "unknown_engine",
            Self::UnknownMetric => "unknown_metric",
        }
    }
}

/// Most different complaints that are logged; later ones are only counted.
const MOST_COMPLAINTS: usize = 1024;

/// The tally. Shared by the layers and the stores.
#[derive(Debug, Default)]
pub struct Drops {
    counts: [AtomicU64; DropReason::ALL.len()],
    complained: Mutex<BTreeSet<(String, DropReason)>>,
}

impl Drops {
    /// Counts a refusal of `metric`, and logs the first of its kind.
    pub fn refuse(&self, reason: DropReason, metric: &str, why: &str) {
        self.count(reason);
        let mut complained = self.complained.lock();
        if complained.len() < MOST_COMPLAINTS && complained.insert((metric.to_owned(), reason)) {
            tracing::warn!(metric, reason = reason.label(), "metric refused: {why}");
        }
    }

    /// Counts a refusal where no name is at hand.
    pub fn count(&self, reason: DropReason) {
        self.counts[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Refusals with this reason so far.
    pub fn total(&self, reason: DropReason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }
}
