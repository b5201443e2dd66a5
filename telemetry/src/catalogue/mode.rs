//! The outputs of TorchServe's and of custom families.

use super::Sinks;

/// Outputs of TorchServe's families and of custom ones.
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

    /// Parses a mode, case-insensitively.
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

    /// Outputs of a family of that name.
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
