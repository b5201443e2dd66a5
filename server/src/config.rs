//! Configuration: as typed ([`RawConfig`] from flags and environment, the deploy file), then checked ([`Config`], nothing left
//! open).

pub mod deploy;
mod keys;
mod metrics;
mod raw;
mod time;
mod traces;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use deploy::{Deploy, Resolution};

pub use keys::{Holder, KeyFile, Scope, new_key};
pub use metrics::{MetricsListen, MetricsSettings, RawMetrics, RawPush, SecretUrl, hostname};
pub use raw::{LogFormat, MetricsCommand, RawConfig, ServerCommand};
pub use traces::{RawTraces, TraceSettings};

/// Where the model comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// The one inside the program.
    Embedded,
    /// A checkpoint directory.
    Directory(PathBuf),
}

/// Bounds of what can be configured. They are far beyond what makes sense, and keep sums and queues from overflowing.
const MAX_COUNT: usize = 1_000_000;
const MAX_BYTES: usize = 1 << 30;
const MAX_TIME: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A configuration that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// What to serve.
    pub model: ModelSource,
    /// How to run the stages.
    pub deploy: Deploy,
    /// The same as text, for processes that run a part of it.
    pub deploy_yaml: String,
    /// Leave the thinker out, and with it conversations.
    pub speech_only: bool,
    /// Where to listen.
    pub listen: SocketAddr,
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
    /// What of the metrics is configured.
    pub metrics: MetricsSettings,
    /// Where traces go, if they go anywhere.
    pub traces: Option<TraceSettings>,
    /// Form of log lines.
    pub log_format: LogFormat,
    /// Which log lines.
    pub log_level: String,
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
        let mut problems = Vec::new();
        if !self.listen.ip().is_loopback() && !self.insecure_plaintext {
            problems.push(format!(
                "--listen {}: other machines could reach it and nothing is encrypted; listen on a loopback address \
                 or add --insecure-plaintext",
                self.listen
            ));
        }
        let model = match self.model.as_str() {
            "embedded" => ModelSource::Embedded,
            path => {
                let path = PathBuf::from(path);
                if !path.join("config.json").is_file() {
                    problems.push(format!(
                        "--model {}: expected \"embedded\" or a directory with a config.json",
                        path.display()
                    ));
                }
                ModelSource::Directory(path)
            }
        };
        if let Some(Err(wrong)) = self.api_keys.as_deref().map(KeyFile::read) {
            problems.extend(wrong.into_iter().map(|problem| format!("--api-keys {problem}")));
        }
        let origins = self.cors_origin.iter().filter(|origin| !is_origin(origin));
        problems.extend(origins.map(|origin| {
            format!(
                "--cors-origin {origin}: expected \"*\" or scheme://host[:port], like https://example.org"
            )
        }));
        problems.extend(self.counts().into_iter().filter_map(out_of_range));
        problems.extend(self.times().into_iter().filter_map(out_of_time));
        let metrics = self.metrics.resolve(self.insecure_plaintext, self.listen);
        let traces = self.traces.resolve(&|name| std::env::var(name).ok());
        let deploy = deploy::resolve(self.deploy.as_deref(), &self.set, self.max_active);
        match (deploy, metrics, traces) {
            (Ok(resolution), Ok(metrics), Ok(traces)) if problems.is_empty() => {
                let config = self.into_config(model, &resolution, metrics, traces);
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

    /// Every number: flag, value, least, most.
    fn counts(&self) -> [(&'static str, usize, usize, usize); 5] {
        [
            ("--max-sessions", self.max_sessions, 1, MAX_COUNT),
            ("--max-active", self.max_active, 1, MAX_COUNT),
            ("--max-waiting", self.max_waiting, 0, MAX_COUNT),
            ("--max-text-bytes", self.max_text_bytes, 1, MAX_BYTES),
            (
                "--max-buffered-text-bytes",
                self.max_buffered_text_bytes,
                1,
                MAX_BYTES,
            ),
        ]
    }

    /// Every duration: flag, value, whether it may be zero.
    fn times(&self) -> [(&'static str, Duration, bool); 8] {
        [
            ("--max-wait", self.max_wait, true),
            ("--max-audio", self.max_audio, false),
            ("--max-buffered-audio", self.max_buffered_audio, false),
            ("--idle-timeout", self.idle_timeout, false),
            ("--max-text-pause", self.max_text_pause, false),
            ("--max-session-age", self.max_session_age, false),
            ("--stall-timeout", self.stall_timeout, false),
            ("--drain-timeout", self.drain_timeout, true),
        ]
    }

    fn into_config(
        self,
        model: ModelSource,
        resolution: &Resolution,
        metrics: MetricsSettings,
        traces: Option<TraceSettings>,
    ) -> Config {
        Config {
            metrics,
            traces,
            model,
            deploy: resolution.deploy.clone(),
            deploy_yaml: resolution.yaml(),
            speech_only: self.speech_only,
            listen: self.listen,
            api_keys: self.api_keys,
            cors_origins: self.cors_origin,
            max_sessions: self.max_sessions,
            max_active: self.max_active,
            max_waiting: self.max_waiting,
            max_wait: self.max_wait,
            max_text_bytes: self.max_text_bytes,
            max_buffered_text_bytes: self.max_buffered_text_bytes,
            max_audio: self.max_audio,
            max_buffered_audio: self.max_buffered_audio,
            idle_timeout: self.idle_timeout,
            max_text_pause: self.max_text_pause,
            max_session_age: self.max_session_age,
            stall_timeout: self.stall_timeout,
            drain_timeout: self.drain_timeout,
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

fn out_of_time((flag, time, may_be_zero): (&str, Duration, bool)) -> Option<String> {
    let fits = time <= MAX_TIME && (may_be_zero || !time.is_zero());
    let least = if may_be_zero { "0" } else { "more than 0" };
    let most = MAX_TIME.as_secs() / 3_600;
    (!fits).then(|| format!("{flag} {time:?}: expected {least} and at most {most}h (a year)"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn raw(args: &[&str]) -> RawConfig {
        RawConfig::try_parse_from(["omni-server"].iter().chain(args)).unwrap()
    }

    #[test]
    fn the_defaults_are_usable() {
        let config = raw(&[]).validate().unwrap();
        assert_eq!(config.model, ModelSource::Embedded);
        assert!(config.listen.ip().is_loopback());
    }

    #[test]
    fn all_problems_are_reported_together() {
        let raw = raw(&[
            "--listen",
            "0.0.0.0:1",
            "--max-sessions",
            "0",
            "--idle-timeout",
            "0s",
            "--model",
            "/nowhere",
        ]);
        let ConfigError(problems) = raw.validate().unwrap_err();
        assert_eq!(problems.len(), 4, "{problems:?}");
    }

    #[test]
    fn what_is_out_of_range_is_named_with_what_is_allowed() {
        for (flag, value, allowed) in [
            ("--max-sessions", "1000001", "1000000"),
            ("--max-active", "18446744073709551615", "1000000"),
            ("--max-waiting", "1000001", "1000000"),
            ("--max-text-bytes", "1073741825", "1073741824"),
            ("--max-wait", "8761h", "8760h"),
            ("--idle-timeout", "5000000000h", "8760h"),
            ("--drain-timeout", "31536001s", "8760h"),
            ("--max-text-pause", "0s", "more than 0"),
        ] {
            let ConfigError(problems) = raw(&[flag, value]).validate().unwrap_err();
            assert!(
                problems.len() == 1 && problems[0].contains(flag) && problems[0].contains(allowed),
                "{problems:?}"
            );
        }
        let most = [
            "--max-active",
            "1000000",
            "--max-waiting",
            "0",
            "--max-wait",
            "8760h",
        ];
        assert!(raw(&most).validate().is_ok());
    }

    #[test]
    fn listening_for_other_machines_in_plaintext_must_be_asked_for() {
        assert!(raw(&["--listen", "[::]:5"]).validate().is_err());
        assert!(
            raw(&["--listen", "[::]:5", "--insecure-plaintext"])
                .validate()
                .is_ok()
        );
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        RawConfig::command().debug_assert();
    }
}
