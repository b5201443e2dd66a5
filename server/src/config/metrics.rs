//! What of the metrics can be configured: where they are read, where they are pushed, which there are.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use omni_telemetry::{MetricsConfig, MetricsMode, Prefix, PushTarget};

/// Where metrics are read unless somebody says otherwise.
const DEFAULT_LISTEN: &str = "127.0.0.1:9464";

/// As typed.
#[derive(Debug, Clone, Args)]
pub struct RawMetrics {
    /// Address to serve metrics and probes on over HTTP, or "off" [default: 127.0.0.1:9464, unless that is taken]
    #[arg(long, env = "OMNI_METRICS_LISTEN", value_name = "ADDRESS|off")]
    pub metrics_listen: Option<String>,

    /// Push the metrics to this Pushgateway as well; a name and a password may be part of the URL
    #[arg(long, env = "OMNI_PUSH_GATEWAY", hide_env_values = true, value_name = "URL")]
    pub push_gateway: Option<String>,

    /// Whether statistics are recorded at all: "on" or "off"
    #[arg(long, env = "OMNI_LOG_STATS", default_value = "on", value_name = "on|off",
          value_parser = ["on", "off"])]
    pub log_stats: String,

    /// Custom metrics and TorchServe's own, in the format of TorchServe's metrics.yaml
    #[arg(long, env = "OMNI_METRICS_CONFIG", value_name = "FILE")]
    pub metrics_config: Option<PathBuf>,

    /// What the pipeline's own metrics begin with: "vllm:omni_", or "vllm_omni:" as later vLLM-Omni has it
    #[arg(
        long,
        env = "OMNI_METRICS_PREFIX",
        default_value = "vllm:omni_",
        value_name = "PREFIX"
    )]
    pub metrics_prefix: String,
}

/// Where metrics are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsListen {
    /// Nowhere.
    Off,
    /// Here, because nobody said otherwise: if somebody else is there, nowhere.
    Default(SocketAddr),
    /// Here, because somebody asked for it.
    At(SocketAddr),
}

/// Checked.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsSettings {
    /// Where they are read.
    pub listen: MetricsListen,
    /// Where they are pushed.
    pub push: Option<PushTarget>,
    /// Whether anything is recorded.
    pub enabled: bool,
    /// What the metrics file says.
    pub file: Option<MetricsConfig>,
    /// What the pipeline's own metrics begin with.
    pub prefix: Prefix,
}

impl MetricsSettings {
    /// Where TorchServe's metrics and the file's own go.
    #[must_use]
    pub fn mode(&self) -> MetricsMode {
        self.file.as_ref().and_then(|file| file.mode).unwrap_or_default()
    }
}

impl RawMetrics {
    /// Checks everything. `insecure` allows an address that other machines can reach.
    pub(super) fn resolve(&self, insecure: bool) -> Result<MetricsSettings, Vec<String>> {
        let mut problems = Vec::new();
        let listen = self.listen(insecure).map_err(|problem| problems.push(problem));
        let push = self.push_gateway.as_deref().map(push_target).transpose();
        let push = push.map_err(|problem| problems.push(problem));
        let file = self
            .metrics_config
            .as_deref()
            .map(MetricsConfig::read)
            .transpose();
        let file = file.map_err(|error| problems.extend(error.to_string().lines().map(str::to_owned)));
        let prefix = Prefix::parse(&self.metrics_prefix).map_err(|error| problems.push(error.to_string()));
        match (listen, push, file, prefix) {
            (Ok(listen), Ok(push), Ok(file), Ok(prefix)) => Ok(MetricsSettings {
                listen,
                push,
                enabled: self.log_stats == "on",
                file,
                prefix,
            }),
            _ => Err(problems),
        }
    }

    fn listen(&self, insecure: bool) -> Result<MetricsListen, String> {
        let Some(text) = self.metrics_listen.as_deref() else {
            let address = DEFAULT_LISTEN.parse();
            return address.map_or(Ok(MetricsListen::Off), |address| {
                Ok(MetricsListen::Default(address))
            });
        };
        if text == "off" {
            return Ok(MetricsListen::Off);
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            format!("--metrics-listen {text}: expected an address like {DEFAULT_LISTEN}, or off")
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

/// The group of this process. The URL is not repeated: it may hold a password.
fn push_target(url: &str) -> Result<PushTarget, String> {
    let instance = format!("{}:{}", hostname(), std::process::id());
    PushTarget::new(url, "omni", &[("instance", &instance)])
        .map_err(|error| format!("--push-gateway: {error}"))
}

/// The machine's name, as the kernel has it.
#[must_use]
pub fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::config::RawConfig;

    fn resolve(args: &[&str]) -> Result<MetricsSettings, String> {
        let raw = RawConfig::try_parse_from(["omni-server"].iter().chain(args)).expect("arguments");
        raw.validate()
            .map(|config| config.metrics)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn metrics_are_on_and_local_by_default() {
        let settings = resolve(&[]).expect("the defaults");
        assert!(settings.enabled);
        assert!(matches!(settings.listen, MetricsListen::Default(address) if address.port() == 9464));
        assert_eq!(
            resolve(&["--metrics-listen", "off"]).expect("off").listen,
            MetricsListen::Off
        );
        assert!(!resolve(&["--log-stats", "off"]).expect("off").enabled);
    }

    #[test]
    fn what_is_wrong_is_told_together_and_without_secrets() {
        let error = resolve(&[
            "--metrics-listen",
            "0.0.0.0:1",
            "--push-gateway",
            "ftp://ann:s3cret@h",
            "--metrics-config",
            "/no/such/file.yaml",
            "--metrics-prefix",
            "omni_",
        ])
        .expect_err("problems");
        for expected in [
            "0.0.0.0:1: other machines",
            "--push-gateway: ",
            "/no/such/file.yaml: ",
            "prefix \"omni_\"",
        ] {
            assert!(error.contains(expected), "{expected} in {error}");
        }
        assert!(!error.contains("s3cret"), "{error}");
    }
}
