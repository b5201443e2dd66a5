//! The catalogue as it is written: every value with its place, nothing checked yet.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::check::{CatalogueError, Problem};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCatalogue {
    pub(super) version: Spanned<u32>,
    pub(super) supplied: Vec<String>,
    pub(super) bucket_sets: BTreeMap<String, Spanned<RawBuckets>>,
    pub(super) groups: Vec<RawGroup>,
    pub(super) absent: Vec<RawAbsent>,
}

/// Bounds, or the rule that gives them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum RawBuckets {
    Bounds(Vec<f64>),
    Rule(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGroup {
    pub(super) name: Spanned<String>,
    pub(super) about: String,
    pub(super) enabled: bool,
    pub(super) sinks: Vec<Spanned<String>>,
    pub(super) series: usize,
    pub(super) metrics: Vec<RawFamily>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFamily {
    pub(super) name: Spanned<String>,
    pub(super) kind: Spanned<String>,
    pub(super) unit: Spanned<String>,
    pub(super) help: Spanned<String>,
    pub(super) labels: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) values: BTreeMap<String, Spanned<Vec<String>>>,
    pub(super) buckets: Option<Spanned<String>>,
    pub(super) series: Option<usize>,
    pub(super) sinks: Option<Vec<Spanned<String>>>,
    /// Keeps a foreign name that breaks the naming rules.
    #[serde(default)]
    pub(super) bare_name: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAbsent {
    pub(super) reason: String,
    #[serde(default)]
    pub(super) names: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) prefixes: Vec<Spanned<String>>,
}

pub(super) fn read(text: &str) -> Result<RawCatalogue, CatalogueError> {
    serde_saphyr::from_str(text).map_err(|error| {
        let at = error.location();
        CatalogueError(vec![Problem {
            line: at.map_or(0, |at| at.line()),
            column: at.map_or(0, |at| at.column()),
            what: error.without_snippet().to_string(),
        }])
    })
}
