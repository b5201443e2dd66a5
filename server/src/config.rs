//! Configuration: as typed ([`RawConfig`] from flags and environment, the deploy file), then checked ([`Config`], nothing left
//! open).

pub mod deploy;
mod device;
mod flags;
mod keys;
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
use std::time::Duration;

use deploy::{Deploy, Given, Resolution};

pub use device::{Chosen, Probe, Wanted};
pub use keys::{Holder, KeyFile, KeyHash, Scope, hash, new_key};
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
    /// What to serve.
    pub model: ModelSource,
    /// What to compute on where the deploy file does not say.
    pub device: Chosen,
    /// How to run the stages.
    pub deploy: Deploy,
    /// The same as text, for processes that run a part of it.
    pub deploy_yaml: String,
    /// Leave the stage that answers out, and with it conversations.
    pub speech_only: bool,
    /// Where voices of callers are kept; without, in memory alone.
    pub voices: Option<PathBuf>,
    /// Refuse hints that the model cannot follow.
    pub strict: bool,
    /// Where to listen.
    pub listen: SocketAddr,
    /// What connections are encrypted with, if they are.
    pub tls: Option<TlsFiles>,
    /// What connections may take.
    pub connections: ConnectionLimits,
    /// Proxies that are believed.
    pub trusted_proxies: TrustedProxies,
    /// Hosts that are answered.
    pub allowed_hosts: AllowedHosts,
    /// Whether the page for browsers is served.
    pub studio: bool,
    /// Where operators are served, if they are.
    pub admin_listen: Option<SocketAddr>,
    /// Where Wyoming is spoken, if it is.
    pub wyoming: Option<WyomingSettings>,
    /// File of the API keys that are asked for.
    pub api_keys: Option<PathBuf>,
    /// Origins whose web pages may call, "*" for all.
    pub cors_origins: Vec<String>,
    /// Calls at once.
    pub max_sessions: usize,
    /// Utterances that are worked on at once.
    pub max_active: usize,
    /// Utterances that may wait for a place.
    pub max_waiting: usize,
    /// Longest wait for a place.
    pub max_wait: Duration,
    /// Longest wait that is begun under overload.
    pub overload_wait: Duration,
    /// UTF-8 bytes of text in one utterance.
    pub max_text_bytes: usize,
    /// UTF-8 bytes of text that wait in one session.
    pub max_buffered_text_bytes: usize,
    /// Longest audio of one utterance.
    pub max_audio: Duration,
    /// Audio that may wait for a slow reader before its production pauses.
    pub max_buffered_audio: Duration,
    /// A session in which nothing happens for this long is ended.
    pub idle_timeout: Duration,
    /// An open sequence whose text has not come for this long is ended at its last word.
    pub max_text_pause: Duration,
    /// A session of this age takes no more utterances.
    pub max_session_age: Duration,
    /// A reader that takes nothing for this long is let go.
    pub stall_timeout: Duration,
    /// How long open utterances may take to finish at shutdown.
    pub drain_timeout: Duration,
    /// Time for which the server serves on after it was told to end.
    pub drain_delay: Duration,
    /// True if no connections are accepted while it drains.
    pub drain_closes_port: bool,
    /// What of the metrics is configured.
    pub metrics: MetricsSettings,
    /// Where traces go, if they go anywhere.
    pub traces: Option<TraceSettings>,
    /// Form of log lines.
    pub log_format: LogFormat,
    /// Which log lines.
    pub log_level: LogLevel,
}

impl Config {
    /// Whether callers may watch the server at work: where the page for that is served, and those of other machines only with a key.
    #[must_use]
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

    /// As [`validate`](Self::validate), with the deploy configuration as it came about.
    ///
    /// # Errors
    /// [`ConfigError`] with one line per problem.
    pub fn resolve(self) -> Result<(Config, Resolution), ConfigError> {
        self.resolve_on(&device::probe)
    }

    /// What the configuration is, as YAML with the origin of every value; with `changed` only what is not as it is by default.
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

    /// As [`resolve`](Self::resolve), where `probe` says which devices there are.
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
        problems.extend(self.counts(max_active).into_iter().filter_map(out_of_range));
        problems.extend(self.times().into_iter().filter_map(out_of_time));
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
        // Before the others: what is said of one stage counts more.
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

    /// What is wrong with where operators are served, given the API keys that there are.
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

    /// Every number: flag, value, least, most. The bounds are far beyond what makes sense, and keep memory and sums in bounds.
    fn counts(&self, max_active: usize) -> [(&'static str, usize, usize, usize); 9] {
        let transport = &self.transport;
        let streams = usize::try_from(transport.max_streams_per_connection).unwrap_or(usize::MAX);
        [
            ("--max-sessions", self.max_sessions, 1, 100_000),
            ("--max-active", max_active, 1, 100_000),
            ("--max-waiting", self.max_waiting, 0, 100_000),
            ("--max-text-bytes", self.max_text_bytes, 1, 16 << 20),
            (
                "--max-buffered-text-bytes",
                self.max_buffered_text_bytes,
                1,
                64 << 20,
            ),
            ("--max-connections", transport.max_connections, 1, 100_000),
            (
                "--max-connections-per-peer",
                transport.max_connections_per_peer,
                1,
                100_000,
            ),
            ("--max-streams-per-connection", streams, 1, 10_000),
            (
                "--max-message-bytes",
                transport.max_message_bytes,
                1 << 10,
                64 << 20,
            ),
        ]
    }

    /// Every duration: flag, value, least, most. The longest end with the process or the patience of an operator.
    fn times(&self) -> [(&'static str, Duration, Duration, Duration); 12] {
        const ZERO: Duration = Duration::ZERO;
        const LEAST: Duration = Duration::from_millis(10);
        const HOUR: Duration = Duration::from_secs(3_600);
        const DAY: Duration = Duration::from_secs(24 * 3_600);
        let handshake = self.transport.handshake_timeout;
        let keep_alive = self.transport.keep_alive_timeout;
        [
            ("--max-wait", self.max_wait, ZERO, HOUR),
            ("--overload-wait", self.overload_wait, ZERO, HOUR),
            ("--max-audio", self.max_audio, LEAST, DAY),
            ("--max-buffered-audio", self.max_buffered_audio, LEAST, HOUR / 6),
            ("--idle-timeout", self.idle_timeout, LEAST, DAY),
            ("--max-text-pause", self.max_text_pause, LEAST, HOUR),
            ("--max-session-age", self.max_session_age, LEAST, DAY * 30),
            ("--stall-timeout", self.stall_timeout, LEAST, HOUR),
            ("--drain-timeout", self.drain_timeout, ZERO, DAY),
            ("--drain-delay", self.drain_delay, ZERO, HOUR),
            ("--keep-alive-timeout", keep_alive, LEAST * 10, DAY),
            ("--handshake-timeout", handshake, LEAST * 10, HOUR / 12),
        ]
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
            max_sessions: self.max_sessions,
            max_active: self.max_active.unwrap_or_default(),
            max_waiting: self.max_waiting,
            max_wait: self.max_wait,
            overload_wait: self.overload_wait,
            max_text_bytes: self.max_text_bytes,
            max_buffered_text_bytes: self.max_buffered_text_bytes,
            max_audio: self.max_audio,
            max_buffered_audio: self.max_buffered_audio,
            idle_timeout: self.idle_timeout,
            max_text_pause: self.max_text_pause,
            max_session_age: self.max_session_age,
            stall_timeout: self.stall_timeout,
            drain_timeout: self.drain_timeout,
            drain_delay: self.drain_delay,
            drain_closes_port: self.drain_closes_port,
            log_format: self.log_format,
            log_level: self.log_level,
        }
    }
}

/// Whether this is what a browser sends as the origin of a page, or all of them.
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

fn out_of_range((flag, count, least, most): (&str, usize, usize, usize)) -> Option<String> {
    let fits = (least..=most).contains(&count);
    (!fits).then(|| format!("{flag} {count}: expected {least} to {most}"))
}

fn out_of_time((flag, time, least, most): (&str, Duration, Duration, Duration)) -> Option<String> {
    let fits = (least..=most).contains(&time);
    let [time, least, most] = [time, least, most].map(time::written);
    (!fits).then(|| format!("{flag} {time}: expected {least} to {most}"))
}

#[cfg(test)]
mod tests;
