//! `metrics.yaml`, in TorchServe's own format.
//!
//! In: the text of a file. Out: which of TorchServe's families are served, and the custom metrics it declares; or every problem, as
//! `file:line:column`. A bad file stops the start: TorchServe goes on without any metric, which is how they come to be missed.
//!
//! `dimensions` is a list whose anchors the metrics refer to; a map, as in TorchServe's design text, does as well. `Hostname` is
//! appended to the dimensions of `model_metrics`. Beyond TorchServe a metric may have `help` and a histogram `buckets`.

use std::fmt;
use std::path::Path;

use crate::catalogue::{Catalogue, CatalogueOptions, Sinks};
use crate::custom::{CustomMetrics, MetricError, MetricSpec};
use crate::problems::{Problem, Problems, parse};

mod metric;
#[cfg(test)]
mod tests;

/// Where TorchServe's families and the custom ones go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetricsMode {
    /// Into the log, line by line.
    Log,
    /// To Prometheus.
    #[default]
    Prometheus,
    /// TorchServe's three `ts_*` to Prometheus, the rest into the log.
    Legacy,
    /// Both.
    All,
}

impl MetricsMode {
    /// The words, in the order of the variants.
    pub const WORDS: [&'static str; 4] = ["log", "prometheus", "legacy", "all"];

    /// The mode of that word, in whatever case.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word.trim().to_ascii_lowercase().as_str() {
            // The design text's word for it.
            "log" | "tslog" => Some(Self::Log),
            "prometheus" => Some(Self::Prometheus),
            "legacy" => Some(Self::Legacy),
            "all" => Some(Self::All),
            _ => None,
        }
    }

    /// Where a family of that name goes.
    #[must_use]
    pub fn sinks(self, name: &str) -> Sinks {
        let legacy = name.starts_with("ts_");
        match self {
            Self::Log => Sinks {
                prometheus: false,
                log: true,
            },
            Self::Prometheus => Sinks {
                prometheus: true,
                log: false,
            },
            Self::Legacy => Sinks {
                prometheus: legacy,
                log: !legacy,
            },
            Self::All => Sinks {
                prometheus: true,
                log: true,
            },
        }
    }
}

/// What a file says.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsConfig {
    /// The mode, if the file names one.
    pub mode: Option<MetricsMode>,
    /// TorchServe's own families that the file lists: those are served, others of them are not.
    pub torchserve: Vec<String>,
    /// The file's own metrics.
    pub custom: Vec<MetricSpec>,
}

/// Why a file cannot be used: every problem there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsConfigError {
    /// The file as the user named it.
    pub file: String,
    /// Problems with their places.
    pub problems: Vec<Problem>,
    /// Why it cannot be read, if it cannot.
    pub unreadable: Option<String>,
}

impl fmt::Display for MetricsConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.unreadable {
            return write!(f, "{}: {why}", self.file);
        }
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}:{problem}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for MetricsConfigError {}

impl MetricsConfig {
    /// Lets the catalogue serve what the file lists. A mode that was asked for otherwise wins over the file's.
    pub fn choose(&self, options: &mut CatalogueOptions, mode: Option<MetricsMode>) {
        options.torchserve = Some(self.torchserve.clone());
        options.mode = mode.or(self.mode).unwrap_or_default();
    }

    /// Declares the file's own metrics.
    ///
    /// # Errors
    ///
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
    ///
    /// A file that cannot be read, is no YAML, or has problems: all of them.
    pub fn read(path: &Path) -> Result<Self, MetricsConfigError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => Err(MetricsConfigError {
                file,
                problems: Vec::new(),
                unreadable: Some(error.to_string()),
            }),
        }
    }

    /// Reads the text of a file that the user calls `file`.
    ///
    /// # Errors
    ///
    /// As for [`MetricsConfig::read`].
    pub fn parse(file: &str, text: &str) -> Result<Self, MetricsConfigError> {
        let failed = |problems| MetricsConfigError {
            file: file.to_owned(),
            problems,
            unreadable: None,
        };
        let root = parse(text).map_err(|problem| failed(vec![problem]))?;
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
        problems.0.sort_by_key(|problem| (problem.line, problem.column));
        Err(failed(problems.0))
    }
}

fn mode(node: &crate::problems::Node, problems: &mut Problems) -> Option<MetricsMode> {
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
