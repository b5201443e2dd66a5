//! Errors of declaring and recording custom metrics.

use std::sync::Arc;

use crate::catalogue::Family;

/// See each.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// It was not declared.
    #[error("metric {name:?} is not declared")]
    Unknown {
        /// Requested name.
        name: String,
    },
    /// The server records it itself.
    #[error("metric {name:?} is the server's own")]
    BuiltIn {
        /// Its name.
        name: String,
    },
    /// It is declared in another way.
    #[error("metric {name:?} is declared already, with another {what}")]
    DeclaredDifferently {
        /// Its name.
        name: String,
        /// The difference.
        what: &'static str,
    },
    /// The declaration makes no sense.
    #[error("metric {name:?}: {problem}")]
    Invalid {
        /// Its name.
        name: String,
        /// The problem, and what is accepted.
        problem: String,
    },
    /// There are too many metrics.
    #[error("{most} custom metrics are declared, the most there can be")]
    TooManyMetrics {
        /// The limit.
        most: usize,
    },
    /// It is of another kind.
    #[error("metric {name:?} is a {declared}, not a {got}")]
    WrongKind {
        /// Its name.
        name: String,
        /// Its declared kind.
        declared: &'static str,
        /// The sample's kind.
        got: &'static str,
    },
    /// It is in another unit.
    #[error("metric {name:?} is in {declared}, not in {got}")]
    WrongUnit {
        /// Its name.
        name: String,
        /// Its unit.
        declared: String,
        /// The sample's.
        got: String,
    },
    /// An undeclared metric whose sample lacks kind or unit.
    #[error("metric {name:?} is not declared, and its first sample does not say its {what}")]
    Undescribed {
        /// Its name.
        name: String,
        /// The missing labels.
        what: &'static str,
    },
    /// A label has no value.
    #[error("metric {name:?} needs a value for label {label:?}")]
    MissingLabel {
        /// Its name.
        name: String,
        /// The label.
        label: String,
    },
    /// A label is not one of its own.
    #[error("metric {name:?} has no label {label:?}, it has: {known}")]
    UnknownLabel {
        /// Its name.
        name: String,
        /// The label.
        label: String,
        /// The names that there are.
        known: String,
    },
    /// A label is there twice.
    #[error("metric {name:?}: label {label:?} is there twice")]
    DuplicateLabel {
        /// Its name.
        name: String,
        /// The label.
        label: String,
    },
    /// A label's value cannot be one.
    #[error(
        "metric {name:?}: the value of label {label:?} is too long or has control characters, expected at most {most} bytes"
    )]
    LabelValue {
        /// Its name.
        name: String,
        /// The label.
        label: String,
        /// Longest value.
        most: usize,
    },
    /// The id of a request cannot be one.
    #[error("the request id is too long or has control characters, expected at most {most} bytes")]
    RequestId {
        /// Longest id.
        most: usize,
    },
    /// It has too many label sets.
    #[error("metric {name:?} has {most} label sets, the most there can be")]
    TooManySeries {
        /// Its name.
        name: String,
        /// The limit.
        most: usize,
    },
    /// All custom metrics together have too many label sets.
    #[error("the custom metrics have {most} label sets, the most there can be")]
    TooManySeriesInAll {
        /// The limit.
        most: usize,
    },
    /// A counter cannot go down.
    #[error("a counter cannot grow by {value}")]
    NegativeCounter {
        /// The value.
        value: f64,
    },
    /// Not a number, or infinite.
    #[error("{value} is not a finite number")]
    NonFinite {
        /// The value.
        value: f64,
    },
    /// So large that sums would not stay finite.
    #[error("{value:e} is too large, expected at most {most:e}")]
    TooLarge {
        /// The value.
        value: f64,
        /// The limit.
        most: f64,
    },
}

/// Most characters of an unknown name that an error repeats.
const EXCERPT: usize = 64;

/// All of `input`, or its beginning and `…`.
pub(super) fn excerpt(input: &str) -> String {
    match input.char_indices().nth(EXCERPT) {
        None => input.to_owned(),
        Some(_) => input.chars().take(EXCERPT - 1).chain(['…']).collect(),
    }
}

/// The family with the most similar name, if similar enough.
pub(super) fn similar(name: &str, families: &[Arc<Family>]) -> Option<String> {
    let most = 2.max(name.len() / 4);
    let near = families
        .iter()
        .filter(|family| family.name.len().abs_diff(name.len()) <= most)
        .map(|family| (distance(name, &family.name), &family.name));
    let (distance, nearest) = near.min()?;
    (distance <= most).then(|| nearest.to_string())
}

/// Levenshtein's distance, letters of either case being alike.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<_> = b.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, left) in a.chars().map(|c| c.to_ascii_lowercase()).enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, right) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}
