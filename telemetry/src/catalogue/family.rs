//! One metric family: the validated declaration.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What a family's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FamilyKind {
    /// A whole number that only grows.
    Counter,
    /// A real number that only grows. The facade counts in whole numbers only, so it is recorded as a gauge that is only ever
    /// incremented, and served as a counter.
    FloatCounter,
    /// A value that goes up and down.
    Gauge,
    /// A distribution over fixed buckets.
    Histogram,
    /// A sum and a count.
    Summary,
}

impl FamilyKind {
    /// The word in a declaration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::FloatCounter => "float_counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }

    /// The word in a `# TYPE` line.
    #[must_use]
    pub fn exposed(self) -> &'static str {
        match self {
            Self::Counter | Self::FloatCounter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// Where a family's values go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sinks {
    /// Pull and push.
    pub prometheus: bool,
    /// One line per update in TorchServe's format.
    pub log: bool,
}

/// Upper bounds of a histogram's buckets: finite and strictly increasing, `+Inf` not among them.
#[derive(Debug, Clone, PartialEq)]
pub struct Buckets {
    /// The set they were taken from.
    pub set: Arc<str>,
    /// The bounds.
    pub bounds: Vec<f64>,
    /// Whether the bounds follow the longest sequence the model allows.
    pub by_length: bool,
}

/// A metric family.
#[derive(Debug, Clone)]
pub struct Family {
    /// Full name, as exposed.
    pub name: Arc<str>,
    /// What its values are.
    pub kind: FamilyKind,
    /// Unit of a value.
    pub unit: String,
    /// What it says, in one or two sentences.
    pub help: String,
    /// Labels as they are recorded, in order. `engine` becomes `stage` and `replica`.
    pub labels: Vec<Arc<str>>,
    /// Labels with a closed set of values.
    pub values: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// Bounds, for histograms.
    pub buckets: Option<Buckets>,
    /// Its group.
    pub group: Arc<str>,
    /// Where its values go.
    pub sinks: Sinks,
    /// The source that it still waits for.
    pub pending: Option<String>,
    /// Most label sets that are kept.
    pub series: usize,
}

impl Family {
    /// Labels as they are exposed: `engine` replaced in place by `stage` and `replica`.
    #[must_use]
    pub fn exposed_labels(&self) -> Vec<&str> {
        let mut labels = Vec::with_capacity(self.labels.len() + 1);
        for label in &self.labels {
            match label.as_ref() {
                ENGINE => labels.extend([STAGE, REPLICA]),
                other => labels.push(other),
            }
        }
        labels
    }

    /// Whether it has that label, as recorded.
    #[must_use]
    pub fn has_label(&self, label: &str) -> bool {
        self.labels.iter().any(|known| known.as_ref() == label)
    }
}

/// The flat index of a replica, as recorded.
pub(crate) const ENGINE: &str = "engine";
/// The stage's id, as exposed.
pub(crate) const STAGE: &str = "stage";
/// The replica's id within its stage, as exposed.
pub(crate) const REPLICA: &str = "replica";
