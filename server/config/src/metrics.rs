//! Settings of the metrics: the address for readers, the gateway, and the families that are served.

mod push;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use omni_telemetry::{
    Catalogue, CatalogueOptions, MetricsConfig, MetricsMode, Prefix, PushOptions, Release, Undeclared,
};

use super::time::parse_duration;

use super::listen::address;
use super::raw::{LOG, METRICS};
pub use push::{RawPush, SecretUrl, hostname};

/// As typed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = METRICS)]
pub struct RawMetrics {
    /// Address to serve metrics and probes on over HTTP, or "off"; port 0 takes a free one and logs it
    #[arg(
        long,
        env = "OMNI_METRICS_LISTEN",
        default_value = "127.0.0.1:9464",
        value_name = "ADDRESS|off"
    )]
    pub metrics_listen: String,

    /// Serve metrics and probes with the server's certificate (--tls-cert), which lets other machines read them
    #[arg(long, env = "OMNI_METRICS_TLS")]
    pub metrics_tls: bool,

    /// Require a key of the scope metrics (--api-keys) to read metrics; probes need none
    #[arg(long, env = "OMNI_METRICS_KEYS")]
    pub metrics_keys: bool,

    /// Record statistics: "on" or "off"
    #[arg(long, env = "OMNI_LOG_STATS", default_value = "on", value_name = "on|off",
          value_parser = ["on", "off"])]
    #[arg(help_heading = LOG)]
    pub log_stats: String,

    /// Prefix of the pipeline's own metrics: "vllm:omni_", or "vllm_omni:" as later vLLM-Omni has it
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

    /// Bounds of a set of histogram buckets (docs/metrics.md names the sets), like seconds=0.1,0.5,1; may be repeated
    #[arg(
        long,
        env = "OMNI_METRICS_BUCKETS",
        value_name = "SET=BOUND,...",
        value_delimiter = ';'
    )]
    pub metrics_buckets: Vec<String>,

    /// Show deprecated names of metrics too that this release or a later one has hidden
    #[arg(long, env = "OMNI_SHOW_HIDDEN_METRICS_FOR_VERSION", value_name = "RELEASE")]
    pub show_hidden_metrics_for_version: Option<String>,

    /// Time between two lines of statistics in the log
    #[arg(long, env = "OMNI_LOG_STATS_INTERVAL", default_value = "5s", value_parser = parse_duration, value_name = "TIME")]
    #[arg(help_heading = LOG)]
    pub log_stats_interval: Duration,

    /// Log a table per request and per edge at level info instead of debug
    #[arg(long, env = "OMNI_LOG_REQUEST_TABLES")]
    #[arg(help_heading = LOG)]
    pub log_request_tables: bool,

    /// Time between two looks at the machine, where TorchServe's metrics go to the log
    #[arg(long, env = "OMNI_METRICS_LOG_INTERVAL", default_value = "60s", value_parser = parse_duration, value_name = "TIME")]
    #[arg(help_heading = LOG)]
    pub metrics_log_interval: Duration,

    /// Custom metrics and TorchServe's own, in the format of TorchServe's metrics.yaml
    #[arg(long, env = "OMNI_METRICS_CONFIG", value_name = "FILE")]
    pub metrics_config: Option<PathBuf>,

    /// Output of TorchServe's and custom metrics: "log", "prometheus", "legacy" (ts_* to Prometheus, others to the log)
    /// or "all"; without it the file's mode, and without that prometheus
    #[arg(long, env = "OMNI_METRICS_MODE", value_name = "MODE", value_parser = MetricsMode::WORDS)]
    pub metrics_mode: Option<String>,

    /// Let callers declare and record metrics of their own over gRPC (MetricsService): "on" or "off". With
    /// "on", all that can call the server can write what its operators look at
    #[arg(long, env = "OMNI_METRICS_SERVICE", default_value = "off", value_name = "on|off",
          value_parser = ["on", "off"])]
    pub metrics_service: String,

    /// Take samples of undeclared custom metrics, and declare them by their first sample; needs --metrics-service on
    #[arg(long, env = "OMNI_METRICS_AUTO_DECLARE")]
    pub metrics_auto_declare: bool,

    /// Settings of the Pushgateway
    #[command(flatten)]
    pub push: RawPush,
}

/// Address for readers of metrics.
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
    /// Address for readers.
    pub listen: MetricsListen,
    /// True if that port is encrypted.
    pub tls: bool,
    /// True if readers need a key.
    pub keys: bool,
    /// Settings of pushes, if there are any.
    pub push: Option<PushOptions>,
    /// True if anything is recorded.
    pub enabled: bool,
    /// Contents of the metrics file.
    pub file: Option<MetricsConfig>,
    /// Prefix, groups and buckets of the families, for a model whose longest sequence is not known yet.
    pub catalogue: CatalogueOptions,
    /// Time between two lines of statistics.
    pub log_interval: Duration,
    /// True if tables of requests are logged at level info.
    pub log_tables: bool,
    /// Time between two looks at the machine for the log.
    pub look_interval: Duration,
    /// True if callers may declare and record metrics of their own.
    pub service: bool,
    /// Treatment of samples of undeclared custom metrics.
    pub undeclared: Undeclared,
}

impl RawMetrics {
    /// Checks everything. `insecure` allows an address that other machines can reach; `server` is where the server
    /// itself listens, which names it in a gateway.
    pub(super) fn resolve(&self, insecure: bool, server: SocketAddr) -> Result<MetricsSettings, Vec<String>> {
        let mut problems = Vec::new();
        let listen = note(&mut problems, self.listen(insecure || self.metrics_tls));
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
        let buckets: Vec<_> = self
            .metrics_buckets
            .iter()
            .filter_map(|text| note(&mut problems, buckets(text)))
            .collect();
        let show_hidden = self.show_hidden_metrics_for_version.as_deref().map(|text| {
            let problem =
                || format!("--show-hidden-metrics-for-version {text}: expected a release like 0.1.0");
            Release::parse(text).ok_or_else(problem)
        });
        let show_hidden = show_hidden.and_then(|release| note(&mut problems, release));
        for (flag, time) in [
            ("--log-stats-interval", self.log_stats_interval),
            ("--metrics-log-interval", self.metrics_log_interval),
        ] {
            if time < SHORTEST_INTERVAL {
                problems.push(format!(
                    "{flag} {time:?}: expected at least {SHORTEST_INTERVAL:?}"
                ));
            }
        }
        let (Some(listen), Some(push), Some(prefix), Ok(file)) = (listen, push, prefix, file) else {
            return Err(problems);
        };
        let mut catalogue = CatalogueOptions {
            prefix,
            enable: self.metrics_enable.clone(),
            disable: self.metrics_disable.clone(),
            buckets: buckets.into_iter().collect(),
            show_hidden,
            ..CatalogueOptions::default()
        };
        let mode = self.metrics_mode.as_deref().and_then(MetricsMode::parse);
        match &file {
            Some(file) => file.choose(&mut catalogue, mode),
            None => catalogue.mode = mode.unwrap_or_default(),
        }
        if let Err(errors) = Catalogue::built_in().with(&catalogue) {
            problems.extend(errors.iter().map(ToString::to_string));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(MetricsSettings {
            listen,
            tls: self.metrics_tls,
            keys: self.metrics_keys,
            push,
            enabled: self.log_stats == "on",
            file,
            catalogue,
            log_interval: self.log_stats_interval,
            log_tables: self.log_request_tables,
            look_interval: self.metrics_log_interval,
            service: self.metrics_service == "on",
            undeclared: if self.metrics_auto_declare {
                Undeclared::Declared
            } else {
                Undeclared::Refused
            },
        })
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
        let address = address(text)
            .map_err(|problem| format!("--metrics-listen {text}: {problem}; off for no such port"))?;
        if !address.ip().is_loopback() && !insecure {
            return Err(format!(
                "--metrics-listen {address}: other machines could read the metrics and nothing is encrypted; listen on \
                 a loopback address or add --metrics-tls (or --insecure-plaintext)"
            ));
        }
        Ok(MetricsListen::At(address))
    }
}

/// The shortest time between two lines.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// The name of a bucket set and its bounds.
fn buckets(text: &str) -> Result<(String, Vec<f64>), String> {
    let problem = || format!("--metrics-buckets {text}: expected SET=BOUND,... like seconds=0.1,0.5,1");
    let (set, bounds) = text.split_once('=').ok_or_else(problem)?;
    let bounds: Result<Vec<f64>, _> = bounds.split(',').map(|bound| bound.trim().parse()).collect();
    Ok((set.trim().to_owned(), bounds.map_err(|_| problem())?))
}

/// Keeps the problem, if there is one.
fn note<T>(problems: &mut Vec<String>, result: Result<T, String>) -> Option<T> {
    result.map_err(|problem| problems.push(problem)).ok()
}

#[cfg(test)]
mod tests;
