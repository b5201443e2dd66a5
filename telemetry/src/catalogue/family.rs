//! One metric family: the validated declaration.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

/// Type of a family's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FamilyKind {
    /// A whole number that only grows.
    Counter,
    /// A real number that only grows. The facade counts in whole numbers only, so it is recorded as a gauge that is
    /// only ever incremented, and served as a counter.
    FloatCounter,
    /// A value that goes up and down.
    Gauge,
    /// A distribution over fixed buckets.
    Histogram,
    /// A sum and a count.
    Summary,
}

impl FamilyKind {
    /// The word in a `# TYPE` line.
    pub fn exposed(self) -> &'static str {
        match self {
            Self::Counter | Self::FloatCounter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// Outputs of a family's values.
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
    /// True if the bounds follow the longest sequence that the model allows.
    pub by_length: bool,
}

/// A metric family.
#[derive(Debug, Clone)]
pub struct Family {
    /// Full name, as exposed.
    pub name: Arc<str>,
    /// Type of its values.
    pub kind: FamilyKind,
    /// Unit of a value.
    pub unit: String,
    /// Meaning, in one or two sentences.
    pub help: String,
    /// Labels as they are recorded, in order. `engine` becomes `stage` and `replica`.
    pub labels: Vec<Arc<str>>,
    /// Labels with a closed set of values.
    pub values: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// Bounds, for histograms.
    pub buckets: Option<Buckets>,
    /// Its group.
    pub group: Arc<str>,
    /// Outputs of its values.
    pub sinks: Sinks,
    /// The source that it still waits for.
    pub pending: Option<String>,
    /// Most label sets that are kept.
    pub series: usize,
}

impl Family {
    /// Labels as they are exposed: `engine` replaced in place by `stage` and `replica`.
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

    /// Returns true if it has that label, as recorded.
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

/// Bounds are finite, there is at least one, and they increase.
pub(crate) fn check_bounds(bounds: &[f64]) -> Result<(), String> {
    if bounds.is_empty() {
        return Err("no bounds, expected at least one".to_owned());
    }
    if let Some(bound) = bounds.iter().find(|bound| !bound.is_finite()) {
        return Err(format!(
            "bound {bound} is not finite; +Inf is added by the exporter"
        ));
    }
    match bounds.windows(2).find(|pair| pair[1] <= pair[0]) {
        Some(pair) => Err(format!(
            "bound {} follows {}, expected increasing bounds",
            pair[1], pair[0]
        )),
        None => Ok(()),
    }
}

/// 1, 2, 5, 10, 20, 50 ... up to `limit`.
pub(crate) fn one_two_five(limit: u32) -> Vec<f64> {
    let limit = u64::from(limit.max(1));
    let series = (0..).flat_map(|power: u32| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    series
        .take_while(|bound| *bound <= limit)
        .map(|bound| bound as f64)
        .collect()
}
