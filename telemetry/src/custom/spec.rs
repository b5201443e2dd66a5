//! The declaration of a custom metric.

use std::sync::Arc;

use super::error::excerpt;
use super::{MetricError, Sample};
use crate::catalogue::{Buckets, ENGINE, FamilyKind, Sinks, check_bounds, is_label_name, is_metric_name};

/// Type of a custom metric's values.
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
    /// Type of its values.
    pub kind: CustomKind,
    /// Unit of a value: any word, or TorchServe's (`ms`, `percent`, `MB` ...).
    pub unit: String,
    /// Help text. Empty: derived from kind and unit.
    pub help: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// Upper bounds of a histogram. Empty: derived from the unit.
    pub bounds: Option<Vec<f64>>,
    /// Outputs, if not those of custom metrics.
    pub sinks: Option<Sinks>,
}

/// Most labels of one metric.
const MOST_LABELS: usize = 16;
/// Most bounds of a histogram.
const MOST_BOUNDS: usize = 64;
/// Longest name of a metric, and of a label, in bytes.
const LONGEST_NAME: usize = 128;
/// Longest word for a unit, in bytes.
const LONGEST_UNIT: usize = 32;
/// Longest help, in bytes.
const LONGEST_HELP: usize = 512;
/// Prefixes reserved for the server's own families, even if it uses another one: dashboards rely on them.
const RESERVED: [&str; 2] = ["vllm:", "vllm_omni:"];

/// A name that is too long is neither looked up nor repeated.
pub(super) fn check_length(name: &str) -> Result<(), MetricError> {
    if name.len() <= LONGEST_NAME {
        return Ok(());
    }
    Err(MetricError::Invalid {
        name: excerpt(name),
        problem: format!(
            "the name has {} bytes, expected at most {LONGEST_NAME}",
            name.len()
        ),
    })
}

impl MetricSpec {
    /// Checks that it can be declared.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), MetricError> {
        check_length(&self.name)?;
        match self.problem() {
            None => Ok(()),
            Some(problem) => Err(MetricError::Invalid {
                name: self.name.clone(),
                problem,
            }),
        }
    }

    fn problem(&self) -> Option<String> {
        self.name_problem()
            .or_else(|| self.text_problem())
            .or_else(|| self.labels_problem())
            .or_else(|| self.bounds_problem())
    }

    fn name_problem(&self) -> Option<String> {
        if !is_metric_name(&self.name) {
            return Some(
                "the name has characters other than letters, digits, _ and :, begins with a digit or is empty"
                    .to_owned(),
            );
        }
        if let Some(prefix) = RESERVED.iter().find(|prefix| self.name.starts_with(**prefix)) {
            return Some(format!(
                "the name begins with {prefix}, which is for the server's own"
            ));
        }
        let derived = ["_bucket", "_sum", "_count"];
        let suffix = derived.iter().find(|suffix| self.name.ends_with(**suffix))?;
        Some(format!(
            "the name ends in {suffix}, which belongs to histograms' series"
        ))
    }

    fn text_problem(&self) -> Option<String> {
        if self.unit.trim().is_empty() {
            return Some("the unit is empty".to_owned());
        }
        // It stands between `.` and `:` in a line of the log.
        let separates = |c: char| c.is_control() || matches!(c, ':' | '|' | '#' | ',');
        if self.unit.len() > LONGEST_UNIT || self.unit.contains(separates) {
            return Some(format!(
                "the unit is {:?}, expected at most {LONGEST_UNIT} bytes without : | # , and control characters",
                excerpt(&self.unit)
            ));
        }
        if self.help.len() > LONGEST_HELP || self.help.contains(|c: char| c.is_control() && c != '\n') {
            return Some(format!(
                "the help has {} bytes or control characters, expected at most {LONGEST_HELP} and none",
                self.help.len()
            ));
        }
        None
    }

    fn labels_problem(&self) -> Option<String> {
        if self.labels.len() > MOST_LABELS {
            return Some(format!(
                "{} labels, expected at most {MOST_LABELS}",
                self.labels.len()
            ));
        }
        for (index, label) in self.labels.iter().enumerate() {
            if !is_label_name(label) || label.len() > LONGEST_NAME {
                return Some(format!("{:?} cannot be the name of a label", excerpt(label)));
            }
            if label == ENGINE {
                return Some(format!("label {ENGINE:?} is for the server's own"));
            }
            if self.labels[..index].contains(label) {
                return Some(format!("label {label:?} is there twice"));
            }
        }
        None
    }

    fn bounds_problem(&self) -> Option<String> {
        match (&self.bounds, self.kind) {
            (Some(bounds), CustomKind::Histogram) if bounds.len() > MOST_BOUNDS => {
                Some(format!("{} bounds, expected at most {MOST_BOUNDS}", bounds.len()))
            }
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
