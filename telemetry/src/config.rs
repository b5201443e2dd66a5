//! `metrics.yaml`, in TorchServe's own format.
//!
//! In: the text of a file. Out: which of TorchServe's families are served, and the custom metrics it declares; or every
//! problem, as `file:line:column`. A bad file stops the start: TorchServe goes on without any metric, which is how they
//! come to be missed.
//!
//! `dimensions` is a list whose anchors the metrics refer to; a map, as in TorchServe's design text, does as well.
//! `Hostname` is appended to the dimensions of `model_metrics`. Beyond TorchServe a metric may have `help` and a
//! histogram `buckets`.

use std::path::Path;

use omni_yaml::{Aliases, Place};

use crate::catalogue::{Catalogue, CatalogueOptions, MetricsMode};
use crate::custom::{CustomMetrics, MetricError, MetricSpec};
use crate::problems::{Node, Problem, Problems};

mod metric;
#[cfg(test)]
mod tests;

/// Contents of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsConfig {
    /// The mode, if the file names one.
    pub mode: Option<MetricsMode>,
    /// TorchServe's own families that the file lists: those are served, others of them are not.
    pub torchserve: Vec<String>,
    /// The file's own metrics.
    pub custom: Vec<MetricSpec>,
}

/// A file that cannot be used, with every problem there is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct MetricsConfigError(pub Vec<Problem>);

impl MetricsConfig {
    /// Selects the families that the file lists. An explicit mode takes precedence over the file's.
    pub fn choose(&self, options: &mut CatalogueOptions, mode: Option<MetricsMode>) {
        options.torchserve = Some(self.torchserve.clone());
        options.mode = mode.or(self.mode).unwrap_or_default();
    }

    /// Declares the file's own metrics.
    ///
    /// # Errors
    /// The first that cannot be declared; [`MetricsConfig::parse`] has found most of those.
    pub fn declare(&self, custom: &CustomMetrics, mode: MetricsMode) -> Result<(), MetricError> {
        self.custom.iter().try_for_each(|spec| {
            custom.declare(&MetricSpec {
                sinks: Some(mode.sinks(&spec.name)),
                ..spec.clone()
            })
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, is no YAML, or has problems: all of them.
    pub fn read(path: &Path) -> Result<Self, MetricsConfigError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => Err(MetricsConfigError(vec![Problem {
                place: Place::of(&file),
                message: error.to_string(),
            }])),
        }
    }

    /// Reads the text of a file that the user calls `file`.
    ///
    /// # Errors
    /// As for [`MetricsConfig::read`].
    pub fn parse(file: &str, text: &str) -> Result<Self, MetricsConfigError> {
        // TorchServe's files use aliases.
        let root = omni_yaml::parse(file, text, Aliases::Follow)
            .map_err(|problem| MetricsConfigError(vec![problem]))?;
        let mut problems = Problems::default();
        let keys = ["mode", "dimensions", "ts_metrics", "model_metrics"];
        let entries = problems.map(&root, "metrics file", &keys);
        let mode = entries.get("mode").and_then(|node| mode(node, &mut problems));
        if let Some(node) = entries.get("dimensions") {
            metric::dimensions(node, &mut problems);
        }
        let mut declared = Vec::new();
        for (section, model) in [("ts_metrics", false), ("model_metrics", true)] {
            if let Some(node) = entries.get(section) {
                declared.extend(metric::section(node, section, model, &mut problems));
            }
        }
        if declared.is_empty() && problems.0.is_empty() {
            problems.at(
                &root,
                "no metric is declared, expected some in ts_metrics or model_metrics",
            );
        }
        metric::unique(&declared, &mut problems);
        let catalogue = Catalogue::built_in();
        let mut config = Self {
            mode,
            torchserve: Vec::new(),
            custom: Vec::new(),
        };
        for declared in declared {
            match metric::own_or_custom(declared, &catalogue, &mut problems) {
                metric::Origin::TorchServe(name) => config.torchserve.push(name),
                metric::Origin::Custom(spec) => config.custom.push(spec),
                metric::Origin::Neither => {}
            }
        }
        if problems.0.is_empty() {
            return Ok(config);
        }
        problems.0.sort();
        Err(MetricsConfigError(problems.0))
    }
}

fn mode(node: &Node, problems: &mut Problems) -> Option<MetricsMode> {
    let word = problems.text(node, "mode")?;
    let mode = MetricsMode::parse(&word.value);
    if mode.is_none() {
        let expected = MetricsMode::WORDS.join(", ");
        problems.at(
            &word,
            format!("mode {:?}, expected one of {expected}", word.value),
        );
    }
    mode
}
