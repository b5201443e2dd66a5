//! The declaration of a custom metric.

use std::sync::Arc;

use super::{MetricError, Sample};
use crate::catalogue::{Buckets, FamilyKind, Sinks, check_bounds, is_label_name, is_metric_name};

/// What a custom metric's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CustomKind {
    /// A number that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

impl CustomKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Counter, Self::Gauge, Self::Histogram];

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.family().exposed()
    }

    pub(super) fn family(self) -> FamilyKind {
        match self {
            Self::Counter => FamilyKind::FloatCounter,
            Self::Gauge => FamilyKind::Gauge,
            Self::Histogram => FamilyKind::Histogram,
        }
    }
}

/// The declaration of a custom metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSpec {
    /// Its name, as exposed.
    pub name: String,
    /// What its values are.
    pub kind: CustomKind,
    /// Unit of a value: any word, or TorchServe's (`ms`, `percent`, `MB` ...).
    pub unit: String,
    /// What it says. Made of kind and unit if empty.
    pub help: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// A histogram's upper bounds. Made of the unit if none.
    pub bounds: Option<Vec<f64>>,
    /// Where it goes, if not where custom metrics go.
    pub sinks: Option<Sinks>,
}

/// Most labels of one metric.
const MOST_LABELS: usize = 16;

impl MetricSpec {
    /// Whether it can be declared.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), MetricError> {
        match self.problem() {
            None => Ok(()),
            Some(problem) => Err(MetricError::Invalid {
                name: self.name.clone(),
                problem,
            }),
        }
    }

    fn problem(&self) -> Option<String> {
        if !is_metric_name(&self.name) {
            return Some("the name has characters other than letters, digits, _ and :".to_owned());
        }
        let derived = ["_bucket", "_sum", "_count"];
        if let Some(suffix) = derived.iter().find(|suffix| self.name.ends_with(**suffix)) {
            return Some(format!(
                "the name ends in {suffix}, which belongs to histograms' series"
            ));
        }
        if self.unit.trim().is_empty() {
            return Some("the unit is empty".to_owned());
        }
        if self.labels.len() > MOST_LABELS {
            return Some(format!(
                "{} labels, expected at most {MOST_LABELS}",
                self.labels.len()
            ));
        }
        for (index, label) in self.labels.iter().enumerate() {
            if !is_label_name(label) {
                return Some(format!("{label:?} cannot be the name of a label"));
            }
            if self.labels[..index].contains(label) {
                return Some(format!("label {label:?} is there twice"));
            }
        }
        match (&self.bounds, self.kind) {
            (Some(bounds), CustomKind::Histogram) => check_bounds(bounds).err(),
            (Some(_), _) => Some("only a histogram has bounds".to_owned()),
            (None, _) => None,
        }
    }

    pub(super) fn help_text(&self) -> String {
        if self.help.trim().is_empty() {
            return format!("Custom {} in {}.", self.kind.name(), self.unit);
        }
        self.help.trim().to_owned()
    }

    pub(super) fn buckets(&self) -> Option<Buckets> {
        (self.kind == CustomKind::Histogram).then(|| Buckets {
            set: Arc::from("custom"),
            bounds: self.bounds.clone().unwrap_or_else(|| default_bounds(&self.unit)),
            by_length: false,
        })
    }
}

/// TorchServe's words for units; others stand for themselves.
pub(super) fn unit_word(unit: &str) -> &str {
    match unit {
        "ms" => "Milliseconds",
        "s" => "Seconds",
        "percent" => "Percent",
        "count" => "Count",
        "MB" => "Megabytes",
        "GB" => "Gigabytes",
        "kB" => "Kilobytes",
        "B" => "Bytes",
        other => other,
    }
}

/// Bounds that fit the unit: a histogram of milliseconds with bounds for seconds has one bucket.
fn default_bounds(unit: &str) -> Vec<f64> {
    let seconds = [
        0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    ];
    match unit_word(unit) {
        "Milliseconds" => seconds.map(|bound| bound * 1e3).to_vec(),
        "Percent" => (1..=10).map(|step| f64::from(step) * 10.0).collect(),
        "Bytes" => (5..=14).map(|power| 4_f64.powi(power)).collect(),
        "Kilobytes" | "Megabytes" | "Gigabytes" | "Count" => (0..=6).map(|power| 4_f64.powi(power)).collect(),
        _ => seconds.to_vec(),
    }
}

/// The declaration that the first sample of an undeclared metric amounts to.
pub(super) fn of_sample(sample: &Sample) -> Result<MetricSpec, MetricError> {
    let undescribed = |what| MetricError::Undescribed {
        name: sample.name.clone(),
        what,
    };
    Ok(MetricSpec {
        name: sample.name.clone(),
        kind: sample.kind.ok_or_else(|| undescribed("kind"))?,
        unit: sample.unit.clone().ok_or_else(|| undescribed("unit"))?,
        help: String::new(),
        labels: sample.labels.iter().map(|(label, _)| label.clone()).collect(),
        bounds: None,
        sinks: None,
    })
}
