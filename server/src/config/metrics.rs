//! What of the metrics can be configured: where they are read, where they are pushed, which there are.

mod push;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use omni_telemetry::{
    Catalogue, CatalogueOptions, MetricsConfig, MetricsMode, Prefix, PushOptions, Undeclared,
};

pub use push::{RawPush, SecretUrl, hostname};

/// As typed.
#[derive(Debug, Clone, Args)]
pub struct RawMetrics {
    /// Address to serve metrics and probes on over HTTP, or "off"; port 0 takes a free one and logs it
    #[arg(
        long,
        env = "OMNI_METRICS_LISTEN",
        default_value = "127.0.0.1:9464",
        value_name = "ADDRESS|off"
    )]
    pub metrics_listen: String,

    /// Whether statistics are recorded at all: "on" or "off"
    #[arg(long, env = "OMNI_LOG_STATS", default_value = "on", value_name = "on|off",
          value_parser = ["on", "off"])]
    pub log_stats: String,

    /// What the pipeline's own metrics begin with: "vllm:omni_", or "vllm_omni:" as later vLLM-Omni has it
    #[arg(
        long,
        env = "OMNI_METRICS_PREFIX",
        default_value = "vllm:omni_",
        value_name = "PREFIX"
    )]
    pub metrics_prefix: String,

    /// Serve a group of metrics that is off by default, like torchserve; may be repeated
    #[arg(
        long,
        env = "OMNI_METRICS_ENABLE",
        value_name = "GROUP",
        value_delimiter = ','
    )]
    pub metrics_enable: Vec<String>,

    /// Leave a group of metrics out, like host or gpu; may be repeated
    #[arg(
        long,
        env = "OMNI_METRICS_DISABLE",
        value_name = "GROUP",
        value_delimiter = ','
    )]
    pub metrics_disable: Vec<String>,

    /// Custom metrics and TorchServe's own, in the format of TorchServe's metrics.yaml
    #[arg(long, env = "OMNI_METRICS_CONFIG", value_name = "FILE")]
    pub metrics_config: Option<PathBuf>,

    /// Where TorchServe's and custom metrics go: "log", "prometheus", "legacy" (ts_* to Prometheus, others to the log) or
    /// "all"; without it the file's mode, and without that prometheus
    #[arg(long, env = "OMNI_METRICS_MODE", value_name = "MODE", value_parser = MetricsMode::WORDS)]
    pub metrics_mode: Option<String>,

    /// Whether callers may declare and record metrics of their own over gRPC (MetricsService): "on" or "off". Whoever can
    /// call the server can then write what its operators look at
    #[arg(long, env = "OMNI_METRICS_SERVICE", default_value = "off", value_name = "on|off",
          value_parser = ["on", "off"])]
    pub metrics_service: String,

    /// Take samples of custom metrics that nobody declared, and declare them by their first sample; needs --metrics-service on
    #[arg(long, env = "OMNI_METRICS_AUTO_DECLARE")]
    pub metrics_auto_declare: bool,

    /// Where metrics are pushed
    #[command(flatten)]
    pub push: RawPush,
}

/// Where metrics are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsListen {
    /// Nowhere.
    Off,
    /// Here.
    At(SocketAddr),
}

/// Checked.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsSettings {
    /// Where they are read.
    pub listen: MetricsListen,
    /// Where and how they are pushed.
    pub push: Option<PushOptions>,
    /// Whether anything is recorded.
    pub enabled: bool,
    /// What the metrics file says.
    pub file: Option<MetricsConfig>,
    /// Where TorchServe's metrics and custom ones go.
    pub mode: MetricsMode,
    /// What the pipeline's own metrics begin with.
    pub prefix: Prefix,
    /// Groups served although they are off by default.
    pub enable: Vec<String>,
    /// Groups left out.
    pub disable: Vec<String>,
    /// Whether callers may declare and record metrics of their own.
    pub service: bool,
    /// What happens to samples of custom metrics that nobody declared.
    pub undeclared: Undeclared,
}

impl MetricsSettings {
    /// The families that are served, for a model whose longest sequence is not known yet.
    #[must_use]
    pub fn catalogue(&self) -> CatalogueOptions {
        let mut options = CatalogueOptions {
            prefix: self.prefix,
            enable: self.enable.clone(),
            disable: self.disable.clone(),
            mode: self.mode,
            ..CatalogueOptions::default()
        };
        if let Some(file) = &self.file {
            file.choose(&mut options, Some(self.mode));
        }
        options
    }
}

impl RawMetrics {
    /// Checks everything. `insecure` allows an address that other machines can reach; `server` is where the server itself
    /// listens, which names it in a gateway.
    pub(super) fn resolve(&self, insecure: bool, server: SocketAddr) -> Result<MetricsSettings, Vec<String>> {
        let mut problems = Vec::new();
        let listen = note(&mut problems, self.listen(insecure));
        let push = note(&mut problems, self.push.resolve(server));
        let prefix = Prefix::parse(&self.metrics_prefix).map_err(|error| error.to_string());
        let prefix = note(
            &mut problems,
            prefix.map_err(|problem| format!("--metrics-prefix: {problem}")),
        );
        let file = self
            .metrics_config
            .as_deref()
            .map(MetricsConfig::read)
            .transpose();
        if let Err(error) = &file {
            problems.extend(error.to_string().lines().map(str::to_owned));
        }
        problems.extend(self.service_problem());
        let (Some(listen), Some(push), Some(prefix), Ok(file)) = (listen, push, prefix, file) else {
            return Err(problems);
        };
        let mode = self.metrics_mode.as_deref().and_then(MetricsMode::parse);
        let settings = MetricsSettings {
            listen,
            push,
            enabled: self.log_stats == "on",
            mode: mode
                .or(file.as_ref().and_then(|file| file.mode))
                .unwrap_or_default(),
            file,
            prefix,
            enable: self.metrics_enable.clone(),
            disable: self.metrics_disable.clone(),
            service: self.metrics_service == "on",
            undeclared: match self.metrics_auto_declare {
                true => Undeclared::Declared,
                false => Undeclared::Refused,
            },
        };
        match Catalogue::built_in().with(&settings.catalogue()) {
            Ok(_) if problems.is_empty() => Ok(settings),
            Ok(_) => Err(problems),
            Err(errors) => {
                problems.extend(errors.iter().map(ToString::to_string));
                Err(problems)
            }
        }
    }

    fn service_problem(&self) -> Option<String> {
        match (self.metrics_service == "on", self.log_stats == "on") {
            (true, false) => {
                Some("--metrics-service on: nothing is recorded with --log-stats off".to_owned())
            }
            (false, _) if self.metrics_auto_declare => Some(
                "--metrics-auto-declare: samples come over gRPC only, add --metrics-service on".to_owned(),
            ),
            _ => None,
        }
    }

    fn listen(&self, insecure: bool) -> Result<MetricsListen, String> {
        let text = self.metrics_listen.as_str();
        if text == "off" {
            return Ok(MetricsListen::Off);
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            format!("--metrics-listen {text}: expected an address like 127.0.0.1:9464, or off")
        })?;
        if !address.ip().is_loopback() && !insecure {
            return Err(format!(
                "--metrics-listen {address}: other machines could read the metrics and nothing is encrypted; listen on \
                 a loopback address or add --insecure-plaintext"
            ));
        }
        Ok(MetricsListen::At(address))
    }
}

/// Keeps the problem, if there is one.
fn note<T>(problems: &mut Vec<String>, result: Result<T, String>) -> Option<T> {
    result.map_err(|problem| problems.push(problem)).ok()
}

#[cfg(test)]
mod tests;
