//! Settings of traces: one flag as vLLM has it, and the environment variables of OpenTelemetry.
//!
//! Sources: OpenTelemetry specification, "Environment Variable Specification" and "OTLP Exporter". A variable that is
//! empty counts as not set. What is for traces alone wins over what is for all signals. No value of a header is ever
//! shown.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use omni_telemetry::{TraceLimits, TraceSampler};
use percent_encoding::percent_decode_str;

use super::metrics::{SecretUrl, hostname};
use super::time::parse_duration;

/// Most of anything that is counted in spans.
const MOST_SPANS: usize = 1_000_000;
/// Longest of any time.
const LONGEST: Duration = Duration::from_secs(3_600);

/// As typed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Traces")]
pub struct RawTraces {
    /// Send traces of requests to this OpenTelemetry collector by OTLP over gRPC, like http://127.0.0.1:4317 (https://
    /// for TLS); OTEL_EXPORTER_OTLP_ENDPOINT and the other OTEL_* variables count too, see docs/traces.md
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub otlp_traces_endpoint: Option<SecretUrl>,

    /// Longest time that sending spans may take, and what is left of them when the server ends; a bare number is
    /// milliseconds
    #[arg(long, env = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", value_name = "TIME")]
    pub otlp_traces_timeout: Option<String>,
}

/// Checked.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// Scheme, host and port of the collector.
    pub endpoint: Uri,
    /// Headers of every batch. The values are marked as secrets.
    pub headers: HeaderMap,
    /// Whose certificates are trusted, instead of those that the system trusts.
    pub authority: Option<PathBuf>,
    /// The server's own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// True if batches are compressed.
    pub gzip: bool,
    /// Sampler of requests.
    pub sampler: TraceSampler,
    /// The queue of spans.
    pub limits: TraceLimits,
    /// Attributes of the server as a resource.
    pub resource: Vec<(String, String)>,
}

impl TraceSettings {
    /// Returns true if the connection to the collector is encrypted.
    pub fn is_tls(&self) -> bool {
        self.endpoint.scheme_str() == Some("https")
    }
}

/// Looks variables up.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl RawTraces {
    /// Checks everything; `None` if there is nowhere to send traces to.
    pub(super) fn resolve(&self, variables: Variables<'_>) -> Result<Option<TraceSettings>, Vec<String>> {
        let environment = Environment {
            variables,
            problems: Vec::new(),
        };
        environment.settings(self)
    }
}

/// Reads variables and collects their problems.
struct Environment<'a> {
    variables: Variables<'a>,
    problems: Vec<String>,
}

impl Environment<'_> {
    fn settings(mut self, raw: &RawTraces) -> Result<Option<TraceSettings>, Vec<String>> {
        let off = self
            .get("OTEL_SDK_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || self
                .get("OTEL_TRACES_EXPORTER")
                .is_some_and(|value| value == "none");
        let own = raw.otlp_traces_endpoint.as_ref().map(SecretUrl::reveal);
        let all = self.get("OTEL_EXPORTER_OTLP_ENDPOINT");
        let own = own.filter(|url| !url.trim().is_empty());
        let Some(url) = own.or(all.as_deref()).filter(|_| !off) else {
            return Ok(None);
        };
        let name = match own {
            Some(_) => "--otlp-traces-endpoint",
            None => "OTEL_EXPORTER_OTLP_ENDPOINT",
        };
        let endpoint = endpoint(url).map_err(|problem| format!("{name}: {problem}"));
        let endpoint = self.note(endpoint);
        self.protocol();
        let settings = TraceSettings {
            endpoint: endpoint.unwrap_or_default(),
            headers: self.headers(),
            authority: self.signal("CERTIFICATE").1.map(PathBuf::from),
            identity: self.identity(),
            gzip: self.gzip(),
            sampler: self.sampler(),
            limits: self.limits(raw),
            resource: self.resource(),
        };
        if self.problems.is_empty() {
            Ok(Some(settings))
        } else {
            Err(self.problems)
        }
    }

    fn get(&self, name: &str) -> Option<String> {
        (self.variables)(name).filter(|value| !value.trim().is_empty())
    }

    /// A variable of the exporter: that for traces, or else that for all signals; with its name.
    fn signal(&self, what: &str) -> (String, Option<String>) {
        let own = format!("OTEL_EXPORTER_OTLP_TRACES_{what}");
        match self.get(&own) {
            Some(value) => (own, Some(value)),
            None => {
                let all = format!("OTEL_EXPORTER_OTLP_{what}");
                let value = self.get(&all);
                (all, value)
            }
        }
    }

    /// Keeps the problem, if there is one.
    fn note<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|problem| self.problems.push(problem)).ok()
    }

    fn protocol(&mut self) {
        if let (name, Some(value)) = self.signal("PROTOCOL")
            && value != "grpc"
        {
            self.problems.push(format!(
                "{name} {value}: expected grpc, which is the only protocol spoken"
            ));
        }
    }

    fn gzip(&mut self) -> bool {
        match self.signal("COMPRESSION") {
            (_, Some(value)) if value == "gzip" => true,
            (name, Some(value)) if value != "none" => {
                self.problems
                    .push(format!("{name} {value}: expected gzip or none"));
                false
            }
            _ => false,
        }
    }

    /// The values are never repeated.
    fn headers(&mut self) -> HeaderMap {
        let (name, Some(text)) = self.signal("HEADERS") else {
            return HeaderMap::new();
        };
        let headers: Result<HeaderMap, String> = pairs(&text)
            .map(|pair| {
                let (key, value) = pair?;
                let key: HeaderName = key
                    .parse()
                    .map_err(|_| "there is a name that is no name of a header".to_owned())?;
                let value = HeaderValue::from_str(&value);
                let mut value = value.map_err(|_| format!("the value of {key} cannot be sent"))?;
                value.set_sensitive(true);
                Ok((key, value))
            })
            .collect();
        let headers = headers.map_err(|problem| format!("{name}: {problem}"));
        self.note(headers).unwrap_or_default()
    }

    fn identity(&mut self) -> Option<(PathBuf, PathBuf)> {
        match (self.signal("CLIENT_CERTIFICATE"), self.signal("CLIENT_KEY")) {
            ((_, Some(certificate)), (_, Some(key))) => Some((certificate.into(), key.into())),
            ((_, None), (_, None)) => None,
            ((given, Some(_)), (absent, None)) | ((absent, None), (given, Some(_))) => {
                self.problems
                    .push(format!("{given}: expected {absent} beside it, or neither"));
                None
            }
        }
    }

    fn sampler(&mut self) -> TraceSampler {
        let Some(name) = self.get("OTEL_TRACES_SAMPLER") else {
            return TraceSampler::default();
        };
        let argument = self.get("OTEL_TRACES_SAMPLER_ARG");
        let sampler = TraceSampler::parse(&name, argument.as_deref());
        let sampler = sampler.map_err(|error| format!("OTEL_TRACES_SAMPLER: {error}"));
        self.note(sampler).unwrap_or_default()
    }

    fn limits(&mut self, raw: &RawTraces) -> TraceLimits {
        let TraceLimits {
            queue,
            batch,
            delay,
            timeout,
        } = TraceLimits::default();
        let own = raw.otlp_traces_timeout.clone();
        let timeout = match own.filter(|value| !value.trim().is_empty()) {
            Some(value) => self.time("--otlp-traces-timeout", &value),
            None => self
                .get("OTEL_EXPORTER_OTLP_TIMEOUT")
                .map_or(Some(timeout), |value| {
                    self.time("OTEL_EXPORTER_OTLP_TIMEOUT", &value)
                }),
        };
        let delay = match self.get("OTEL_BSP_SCHEDULE_DELAY") {
            Some(value) => self.time("OTEL_BSP_SCHEDULE_DELAY", &value),
            None => Some(delay),
        };
        let queue = self.spans("OTEL_BSP_MAX_QUEUE_SIZE", queue);
        TraceLimits {
            queue,
            batch: self.spans("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", batch).min(queue),
            delay: delay.unwrap_or_default(),
            timeout: timeout.unwrap_or_default(),
        }
    }

    fn spans(&mut self, name: &str, default: usize) -> usize {
        let Some(value) = self.get(name) else {
            return default;
        };
        let count = value
            .trim()
            .parse::<usize>()
            .ok()
            .filter(|count| (1..=MOST_SPANS).contains(count));
        let count = count.ok_or_else(|| format!("{name} {value}: expected 1 to {MOST_SPANS}"));
        self.note(count).unwrap_or(default)
    }

    /// A bare number is milliseconds.
    fn time(&mut self, name: &str, value: &str) -> Option<Duration> {
        let value = value.trim();
        let time = match value.parse() {
            Ok(millis) => Ok(Duration::from_millis(millis)),
            Err(_) => parse_duration(value),
        };
        let fits = time.ok().filter(|time| !time.is_zero() && *time <= LONGEST);
        let time = fits.ok_or_else(|| {
            format!(
                "{name} {value}: expected milliseconds, or a time like 10s, of more than 0 and at most 1h"
            )
        });
        self.note(time)
    }

    /// Attributes of the server: those of the environment, and defaults for those that it leaves out.
    fn resource(&mut self) -> Vec<(String, String)> {
        let text = self.get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let given: Result<Vec<_>, String> = pairs(&text).collect();
        let given = given.map_err(|problem| format!("OTEL_RESOURCE_ATTRIBUTES: {problem}"));
        let mut resource = self.note(given).unwrap_or_default();
        if let Some(name) = self.get("OTEL_SERVICE_NAME") {
            resource.retain(|(key, _)| key != "service.name");
            resource.push(("service.name".to_owned(), name));
        }
        for (key, value) in [
            ("service.name", "omni-server".to_owned()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("host.name", hostname()),
            ("process.pid", std::process::id().to_string()),
            (
                "service.instance.id",
                format!("{}:{}", hostname(), std::process::id()),
            ),
        ] {
            if !resource.iter().any(|(given, _)| given == key) {
                resource.push((key.to_owned(), value));
            }
        }
        resource
    }
}

/// Scheme, host and port. The URL is never repeated: it may hold a password.
fn endpoint(url: &str) -> Result<Uri, &'static str> {
    const FORM: &str = "is not of the form http://host:port or https://host:port";
    let uri: Uri = url.trim().parse().map_err(|_| FORM)?;
    let scheme = match uri.scheme_str() {
        Some("http" | "grpc") => "http",
        Some("https" | "grpcs") => "https",
        _ => return Err(FORM),
    };
    let authority = uri.authority().ok_or(FORM)?.as_str();
    if authority.contains('@') {
        return Err("holds a name or a password: put them into OTEL_EXPORTER_OTLP_TRACES_HEADERS");
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(FORM);
    }
    let authority = match uri.port() {
        Some(_) => authority.to_owned(),
        None => format!("{authority}:4317"),
    };
    let whole = Uri::builder()
        .scheme(scheme)
        .authority(authority)
        .path_and_query("/");
    whole.build().map_err(|_| FORM)
}

/// `key=value,key=value`, with percent-encoded values. Errors do not contain them.
fn pairs(text: &str) -> impl Iterator<Item = Result<(String, String), String>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| {
        let (key, value) = part.split_once('=').ok_or("expected KEY=VALUE,KEY=VALUE")?;
        let value = percent_decode_str(value.trim()).decode_utf8();
        let value = value.map_err(|_| format!("the value of {} is not UTF-8", key.trim()))?;
        Ok((key.trim().to_owned(), value.into_owned()))
    })
}

#[cfg(test)]
mod tests;
