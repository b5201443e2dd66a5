//! Configuration: as typed ([`RawConfig`] from flags and environment, the deploy file), then checked ([`Config`],
//! nothing left open).

// Part of a program, and no library for others: items are documented where their names do not say enough.
#![allow(missing_docs)]

pub mod deploy;
mod device;
mod flags;
mod keys;
mod limits;
mod listen;
mod log_level;
mod metrics;
mod proxies;
mod quotas;
mod raw;
mod source;
mod time;
mod tls;
mod traces;
mod transport;
mod wyoming;

use std::net::SocketAddr;
use std::path::PathBuf;

use deploy::{Deploy, Given, Resolution};

pub use device::{Chosen, Probe, Wanted};
pub use keys::{Holder, KeyFile, KeyHash, Scope, hash, new_key};
pub use limits::CallLimits;
pub use log_level::LogLevel;
pub use metrics::{MetricsListen, MetricsSettings, RawMetrics, RawPush, SecretUrl, hostname};
pub use omni_family::{Device, ModelSource};
pub use proxies::{AllowedHosts, TrustedProxies};
pub use quotas::{Quota, Quotas};
pub use raw::{LogFormat, MetricsCommand, RawConfig, ServerCommand, StudioMode};
pub use tls::{TlsFiles, TlsIdentity, subject};
pub use traces::{RawTraces, TraceSettings};
pub use transport::{ConnectionLimits, RawTransport};
pub use wyoming::{RawWyoming, WyomingSettings};

/// A configuration that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Model to serve.
    pub model: ModelSource,
    /// Device of stages for which the deploy file names none.
    pub device: Chosen,
    /// Settings of the stages.
    pub deploy: Deploy,
    /// As YAML text, for processes that run a part of it.
    pub deploy_yaml: String,
    /// Leave the stage that answers out, and with it conversations.
    pub speech_only: bool,
    /// Folder of callers' voices; without one, they are in memory alone.
    pub voices: Option<PathBuf>,
    /// Refuse hints that the model cannot follow.
    pub strict: bool,
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Certificate and key of the port, if it is encrypted.
    pub tls: Option<TlsFiles>,
    /// Bounds of connections.
    pub connections: ConnectionLimits,
    /// Proxies that are believed.
    pub trusted_proxies: TrustedProxies,
    /// Hosts that are answered.
    pub allowed_hosts: AllowedHosts,
    /// Serves the page for browsers.
    pub studio: bool,
    /// Address at which operators are served, if they are.
    pub admin_listen: Option<SocketAddr>,
    /// Settings of the Wyoming port, if there is one.
    pub wyoming: Option<WyomingSettings>,
    /// File of the required API keys.
    pub api_keys: Option<PathBuf>,
    /// Origins whose web pages may call, "*" for all.
    pub cors_origins: Vec<String>,
    /// Utterances that are worked on at once.
    pub max_active: usize,
    /// Limits of calls and utterances.
    pub limits: CallLimits,
    /// Settings of the metrics.
    pub metrics: MetricsSettings,
    /// Settings of traces, if they are sent.
    pub traces: Option<TraceSettings>,
    /// Form of log lines.
    pub log_format: LogFormat,
    /// Filter of log lines.
    pub log_level: LogLevel,
}

impl Config {
    /// Returns true if callers may watch the server at work: the page for that is served, and to other machines only
    /// with a key.
    pub fn shows_work(&self) -> bool {
        self.studio && (self.listen.ip().is_loopback() || self.api_keys.is_some())
    }
}

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration cannot be used:\n{}", .0.iter().map(|p| format!("  {p}")).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub Vec<String>);

impl RawConfig {
    /// Checks everything and reports all problems together.
    ///
    /// # Errors
    /// [`ConfigError`] with one line per problem.
    pub fn validate(self) -> Result<Config, ConfigError> {
        self.resolve().map(|(config, _)| config)
    }

    /// As [`validate`](Self::validate), with the origins of the deploy configuration.
    ///
    /// # Errors
    /// [`ConfigError`] with one line per problem.
    pub fn resolve(self) -> Result<(Config, Resolution), ConfigError> {
        self.resolve_on(&device::probe)
    }

    /// The configuration as YAML with the origin of every value; with `changed` only values that are not the default.
    ///
    /// # Errors
    /// [`ConfigError`] with one line per problem.
    pub fn shown(self, changed: bool) -> Result<String, ConfigError> {
        let flags = self.flags.clone();
        let (config, resolution) = self.resolve()?;
        let derived = [("max-active", config.max_active.to_string())];
        let flags = flags::shown(&flags, &derived, changed);
        Ok(format!(
            "{flags}# The deploy file:\n{}",
            resolution.shown(changed)
        ))
    }

    /// As [`resolve`](Self::resolve), with the devices from `probe`.
    fn resolve_on(mut self, probe: Probe<'_>) -> Result<(Config, Resolution), ConfigError> {
        let mut problems: Vec<_> = self.translate().err().into_iter().collect();
        let device = self.device.choose(probe).unwrap_or_else(|why| {
            problems.push(format!("--device {why}"));
            Chosen::default()
        });
        let max_active = self
            .max_active
            .unwrap_or_else(|| device::max_active(device.device));
        let tls = self.transport.tls(self.listen).unwrap_or_else(|wrong| {
            problems.extend(wrong);
            None
        });
        let model = source::parse(&self.model).unwrap_or_else(|reason| {
            problems.push(format!("--model {}: {reason}", self.model));
            ModelSource::Embedded
        });
        let keys = self.api_keys.as_deref().map(KeyFile::read);
        let known = keys.as_ref().and_then(|keys| keys.as_ref().ok());
        problems.extend(self.admin_problems(known, tls.is_some()));
        let named = keys.as_ref().map(|keys| keys.as_ref().ok());
        problems.extend(self.wyoming.problems(named, self.transport.insecure_plaintext));
        if let Some(Err(wrong)) = keys {
            problems.extend(wrong.into_iter().map(|problem| format!("--api-keys {problem}")));
        }
        let origins = self.cors_origin.iter().filter(|origin| !is_origin(origin));
        problems.extend(origins.map(|origin| {
            format!(
                "--cors-origin {origin}: expected \"*\" or scheme://host[:port], like https://example.org"
            )
        }));
        problems.extend(
            self.counts(max_active)
                .into_iter()
                .filter_map(limits::out_of_range),
        );
        problems.extend(self.times().into_iter().filter_map(limits::out_of_time));
        let metrics = self
            .metrics
            .resolve(self.transport.insecure_plaintext, self.listen);
        let variable = |name: &str| std::env::var(name).ok().filter(|_| !self.without_environment);
        let traces = self.traces.resolve(&variable);
        let given = Given {
            max_active,
            device: device.device,
            probe,
        };
        // Before the others: settings of a single stage take precedence.
        let weights = self
            .weights
            .iter()
            .flat_map(|weights| deploy::all_weights(weights));
        let sets: Vec<_> = weights.chain(self.set.iter().cloned()).collect();
        let deploy = deploy::resolve(self.deploy.as_deref(), &sets, given);
        match (deploy, metrics, traces) {
            (Ok(resolution), Ok(metrics), Ok(traces)) if problems.is_empty() => {
                let config = Config {
                    device,
                    max_active,
                    ..self.into_config(model, &resolution, tls, metrics, traces)
                };
                Ok((config, resolution))
            }
            (deploy, metrics, traces) => {
                problems.extend(metrics.err().into_iter().flatten());
                problems.extend(traces.err().into_iter().flatten());
                problems.extend(deploy.err().into_iter().flatten());
                Err(ConfigError(problems))
            }
        }
    }

    /// Problems of the operators' port, given the API keys that there are.
    fn admin_problems(&self, keys: Option<&KeyFile>, encrypted: bool) -> Vec<String> {
        let Some(listen) = self.admin_listen.filter(|listen| !listen.ip().is_loopback()) else {
            return Vec::new();
        };
        let mut problems = Vec::new();
        if !self.transport.insecure_plaintext && !encrypted {
            problems.push(format!(
                "--admin-listen {listen}: other machines could reach it and nothing is encrypted; listen on a loopback \
                 address, name --tls-cert and --tls-key, or add --insecure-plaintext"
            ));
        }
        if !keys.is_some_and(|keys| keys.opens(Scope::Admin)) {
            problems.push(format!(
                "--admin-listen {listen}: whoever reaches it could shut the server down; listen on a loopback address or \
                 name --api-keys with a key of the scope admin"
            ));
        }
        problems
    }

    fn into_config(
        self,
        model: ModelSource,
        resolution: &Resolution,
        tls: Option<TlsFiles>,
        metrics: MetricsSettings,
        traces: Option<TraceSettings>,
    ) -> Config {
        Config {
            metrics,
            traces,
            model,
            device: Chosen::default(),
            deploy: resolution.deploy.clone(),
            deploy_yaml: resolution.yaml(),
            speech_only: self.speech_only,
            voices: self.voices.or_else(|| resolution.deploy.voices.dir.clone()),
            strict: self.strict,
            listen: self.listen,
            tls,
            connections: self.transport.limits(),
            trusted_proxies: TrustedProxies::new(self.transport.trusted_proxies),
            allowed_hosts: AllowedHosts::new(self.transport.allowed_hosts),
            studio: self.studio.serves(self.listen),
            admin_listen: self.admin_listen,
            wyoming: self.wyoming.settings(),
            api_keys: self.api_keys,
            cors_origins: self.cors_origin,
            max_active: self.max_active.unwrap_or_default(),
            limits: self.limits,
            log_format: self.log_format,
            log_level: self.log_level,
        }
    }
}

/// Returns true for the origin of a page as browsers send it, and for "*".
fn is_origin(text: &str) -> bool {
    let host = |rest: &str| {
        !rest.is_empty()
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'?' | b'#' | b'@'))
    };
    text == "*"
        || text
            .split_once("://")
            .is_some_and(|(scheme, rest)| matches!(scheme, "http" | "https") && host(rest))
}

#[cfg(test)]
mod tests;
