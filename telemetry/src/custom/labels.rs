//! A sample's labels against those of its family: by name, in any order.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::MetricError;
use super::error::excerpt;
use crate::catalogue::Family;
use crate::recorder::{LONGEST_VALUE, MODEL_NAME};

/// Values that the recorder supplies for labels that are not given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Supplied<'a> {
    /// The labels.
    pub(super) labels: &'a [Arc<str>],
    /// Returns true if the model's name is known. A series keeps its labels: one made before would never have it.
    pub(super) knows_model: bool,
}

impl Supplied<'_> {
    fn has(self, label: &Arc<str>) -> bool {
        self.labels.contains(label) && (self.knows_model || label.as_ref() != MODEL_NAME)
    }
}

/// Labels and values in the declared order. Those that the recorder supplies may be missing, those with a default are
/// filled in.
pub(super) fn values(
    family: &Family,
    given: &[(String, String)],
    defaults: &BTreeMap<String, String>,
    supplied: Supplied<'_>,
) -> Result<Vec<(String, String)>, MetricError> {
    check(family, given)?;
    let mut values = Vec::with_capacity(family.labels.len());
    for label in &family.labels {
        let own = given.iter().find(|(name, _)| name.as_str() == label.as_ref());
        let value = own
            .map(|(_, value)| value)
            .or_else(|| defaults.get(label.as_ref()));
        match value {
            Some(value) => values.push((label.to_string(), value.clone())),
            None if supplied.has(label) => {}
            None => {
                return Err(MetricError::MissingLabel {
                    name: family.name.to_string(),
                    label: label.to_string(),
                });
            }
        }
    }
    Ok(values)
}

fn check(family: &Family, given: &[(String, String)]) -> Result<(), MetricError> {
    let name = || family.name.to_string();
    for (index, (label, value)) in given.iter().enumerate() {
        if !family.has_label(label) {
            let known: Vec<_> = family.labels.iter().map(AsRef::as_ref).collect();
            return Err(MetricError::UnknownLabel {
                name: name(),
                label: excerpt(label),
                known: known.join(", "),
            });
        }
        if given[..index].iter().any(|(before, _)| before == label) {
            return Err(MetricError::DuplicateLabel {
                name: name(),
                label: label.clone(),
            });
        }
        if value.len() > LONGEST_VALUE || value.chars().any(char::is_control) {
            return Err(MetricError::LabelValue {
                name: name(),
                label: label.clone(),
                most: LONGEST_VALUE,
            });
        }
    }
    Ok(())
}
