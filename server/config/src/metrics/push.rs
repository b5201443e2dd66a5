//! Pushes to a Pushgateway: its address, credentials and labels.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use omni_telemetry::{Catalogue, Credentials, PushOptions, PushTarget, Secret};

use crate::time::{parse_duration, written};

/// Bounds of the times of a push.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3_600);

/// A URL that may hold a password: never shown.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("***")]
pub struct SecretUrl(String);

impl From<String> for SecretUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl SecretUrl {
    /// The secret in full.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

/// As typed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Metrics pushed to a Pushgateway")]
pub struct RawPush {
    /// Push the metrics to this Pushgateway as well, like https://gateway:9091; a name and a password may be part of
    /// the URL, which other users of the machine can read unless it comes from the environment
    #[arg(long, env = "OMNI_PUSH_GATEWAY", hide_env_values = true, value_name = "URL")]
    pub push_gateway: Option<SecretUrl>,

    /// Time between two pushes
    #[arg(long, env = "OMNI_PUSH_INTERVAL", default_value = "15s", value_parser = parse_duration, value_name = "TIME")]
    pub push_interval: Duration,

    /// Longest time one push may take
    #[arg(long, env = "OMNI_PUSH_TIMEOUT", default_value = "10s", value_parser = parse_duration, value_name = "TIME")]
    pub push_timeout: Duration,

    /// Job of the group in the gateway
    #[arg(long, env = "OMNI_PUSH_JOB", default_value = "omni", value_name = "NAME")]
    pub push_job: String,

    /// A further label of the group; may be repeated. Without one it is instance=HOST:PORT, of the address served
    #[arg(
        long,
        env = "OMNI_PUSH_GROUPING",
        value_name = "LABEL=VALUE",
        value_delimiter = ','
    )]
    pub push_grouping: Vec<String>,

    /// File with a bearer token for the gateway
    #[arg(long, env = "OMNI_PUSH_TOKEN_FILE", value_name = "FILE")]
    pub push_token_file: Option<PathBuf>,

    /// Trust the certificates of this PEM file instead of the system's
    #[arg(long, env = "OMNI_PUSH_CA_FILE", value_name = "FILE")]
    pub push_ca_file: Option<PathBuf>,

    /// Leave the group in the gateway when the server ends, instead of deleting it
    #[arg(long, env = "OMNI_PUSH_KEEP")]
    pub push_keep: bool,

    /// Leave the last push in the gateway for so long before the group is deleted, so that Prometheus reads it: at
    /// least the interval of its scrapes. The server ends as much later
    #[arg(long, env = "OMNI_PUSH_LINGER", default_value = "0s", value_parser = parse_duration, value_name = "TIME")]
    pub push_linger: Duration,
}

impl RawPush {
    /// Checks everything. The URL is never repeated.
    pub(super) fn resolve(&self, server: SocketAddr) -> Result<Option<PushOptions>, String> {
        let Some(url) = self.push_gateway.as_ref().map(SecretUrl::reveal) else {
            return Ok(None);
        };
        for (flag, time) in [
            ("--push-interval", self.push_interval),
            ("--push-timeout", self.push_timeout),
        ] {
            if !(SHORTEST..=LONGEST).contains(&time) {
                let [time, least, most] = [time, SHORTEST, LONGEST].map(written);
                return Err(format!("{flag} {time}: expected {least} to {most}"));
            }
        }
        if self.push_linger > LONGEST {
            let [time, most] = [self.push_linger, LONGEST].map(written);
            return Err(format!("--push-linger {time}: expected at most {most}"));
        }
        let grouping = self.grouping(server)?;
        let grouping: Vec<_> = grouping
            .iter()
            .map(|(label, value)| (label.as_str(), value.as_str()))
            .collect();
        let mut target = PushTarget::new(url, &self.push_job, &grouping)
            .map_err(|error| format!("--push-gateway: {error}"))?;
        target
            .check(Catalogue::built_in().families().iter().map(AsRef::as_ref))
            .map_err(|error| format!("--push-grouping: {error}"))?;
        if let Some(file) = &self.push_token_file {
            target = target.with_credentials(Credentials::Bearer(token(file)?));
        }
        if let Some(file) = &self.push_ca_file {
            target = target.trusting(file.clone());
        }
        Ok(Some(PushOptions {
            interval: self.push_interval,
            timeout: self.push_timeout,
            delete_on_exit: !self.push_keep,
            linger: self.push_linger,
            ..PushOptions::new(target)
        }))
    }

    /// The labels of the group besides its job. The default stays the same when the server starts anew, so that a group
    /// which a crash left behind is overwritten; without a port of its own nothing else tells two servers of a machine
    /// apart.
    fn grouping(&self, server: SocketAddr) -> Result<Vec<(String, String)>, String> {
        if self.push_grouping.is_empty() {
            let port = match server.port() {
                0 => std::process::id(),
                port => u32::from(port),
            };
            return Ok(vec![("instance".to_owned(), format!("{}:{port}", hostname()))]);
        }
        let pairs = self.push_grouping.iter().map(|pair| {
            let (label, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("--push-grouping {pair}: expected LABEL=VALUE"))?;
            Ok((label.to_owned(), value.to_owned()))
        });
        pairs.collect()
    }
}

fn token(file: &Path) -> Result<Secret, String> {
    let failed = |problem: &str| format!("--push-token-file {}: {problem}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error.to_string()))?;
    match text.trim() {
        token if token.is_empty() || token.contains(char::is_control) => {
            Err(failed("expected one line with a token"))
        }
        token => Ok(Secret::new(token)),
    }
}

/// The machine's name, as the kernel has it.
pub fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}
