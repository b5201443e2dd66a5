//! A whole benchmark as plain data: how it was made and every single measurement. Written as JSON.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;

use super::figures::Shape;
use super::level::{Level, Offered};
use super::record::Served;

/// The machine this program ran on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Machine {
    pub(crate) os: String,
    pub(crate) architecture: String,
    pub(crate) processor: Option<String>,
    pub(crate) cpus: Option<usize>,
    pub(crate) memory_bytes: Option<u64>,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let line = |file: &str, name: &str| {
            let text = fs::read_to_string(file).ok()?;
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = line("/proc/meminfo", "MemTotal").and_then(|text| {
            let kibibytes: u64 = text.split_whitespace().next()?.parse().ok()?;
            Some(kibibytes * 1_024)
        });
        Self {
            os: std::env::consts::OS.to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
            processor: line("/proc/cpuinfo", "model name"),
            cpus: std::thread::available_parallelism().map(usize::from).ok(),
            memory_bytes: memory,
        }
    }

    /// One-line description.
    pub(crate) fn line(&self) -> String {
        let mut parts = vec![
            self.processor
                .clone()
                .unwrap_or_else(|| self.architecture.clone()),
        ];
        parts.extend(self.cpus.map(|cpus| format!("{cpus} cores")));
        parts.extend(
            self.memory_bytes
                .map(|bytes| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30))),
        );
        parts.push(self.os.clone());
        parts.join(", ")
    }
}

/// Requests that were cancelled on their way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Cancelling {
    pub(crate) share: f64,
    pub(crate) from_seconds: f64,
    pub(crate) to_seconds: f64,
}

/// One step of the search for the most streams.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Step {
    pub(crate) streams: u32,
    /// Violated criteria; empty if the load was carried.
    pub(crate) complaints: Vec<String>,
}

/// The most streams that were carried.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Capacity {
    pub(crate) streams: u32,
    /// As many as were allowed were carried: it may be more.
    pub(crate) at_least: bool,
    pub(crate) steps: Vec<Step>,
}

/// Everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) client_version: String,
    pub(crate) started_unix_seconds: u64,
    pub(crate) command: Vec<String>,
    pub(crate) endpoint: String,
    pub(crate) machine: Machine,
    pub(crate) served: Option<Served>,
    /// `speak` or `chat`.
    pub(crate) mode: String,
    pub(crate) turns: Option<u32>,
    pub(crate) spoken: bool,
    /// As requested; empty: the server's choice.
    pub(crate) voice: String,
    pub(crate) model: String,
    pub(crate) seed: Option<u64>,
    /// Seed of arrivals and cancels.
    pub(crate) load_seed: u64,
    pub(crate) requests: u32,
    pub(crate) warmup: u32,
    pub(crate) tokens_per_second: Option<f64>,
    pub(crate) real_time_readers: bool,
    pub(crate) cancel: Option<Cancelling>,
    /// As typed.
    pub(crate) slo: Option<String>,
    pub(crate) max_streams: Option<Capacity>,
    pub(crate) texts: Vec<String>,
    pub(crate) levels: Vec<Level>,
}

impl Report {
    pub(crate) fn shape(&self) -> Shape {
        let open = |level: &Level| matches!(level.offered, Offered::RequestsPerSecond(_));
        Shape {
            chat: self.mode == "chat",
            spoken: self.spoken,
            open: self.levels.iter().any(open),
            streamed: self.tokens_per_second.is_some(),
            cancelled: self.cancel.is_some(),
        }
    }

    /// The load in words.
    pub(crate) fn manner(&self) -> String {
        let mut parts = vec![match (self.shape().open, self.mode.as_str()) {
            (true, _) => "open loop, Poisson arrivals".to_owned(),
            (false, "chat") => "closed loop of conversations".to_owned(),
            (false, _) => "closed loop".to_owned(),
        }];
        parts.extend(
            self.tokens_per_second
                .map(|rate| format!("text at {rate} words/s")),
        );
        parts.extend(self.real_time_readers.then(|| "readers in real time".to_owned()));
        parts.extend(self.cancel.map(|mix| {
            let share = mix.share * 100.0;
            let from = mix.from_seconds;
            let to = mix.to_seconds;
            format!("{share} % cancelled after {from} to {to} s")
        }));
        parts.push("warm-up discarded".to_owned());
        parts.push(format!("load seed {}", self.load_seed));
        parts.join("; ")
    }

    /// The report file's content.
    pub(crate) fn json(&self) -> String {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        json["levels"] = Value::Array(self.levels.iter().map(Level::json).collect());
        format!("{json:#}\n")
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// A moment as `2026-01-31 12:00 UTC`.
pub(crate) fn utc(unix_seconds: u64) -> String {
    let moment = rfc3339(unix_seconds);
    format!("{} {} UTC", &moment[..10], &moment[11..16])
}

/// The day of a moment, in UTC, as `2026-01-31`.
pub fn day(unix_seconds: u64) -> String {
    rfc3339(unix_seconds)[..10].to_owned()
}

fn rfc3339(unix_seconds: u64) -> String {
    /// End of the year 9999, the last that the format can express.
    const LATEST: u64 = 253_402_300_799;
    let since = Duration::from_secs(unix_seconds.min(LATEST));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_the_calendar_has_them() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_827_696, "2000-02-29 12:34 UTC"),
            (1_795_132_800, "2026-11-20 00:00 UTC"),
            (4_102_444_799, "2099-12-31 23:59 UTC"),
            (u64::MAX, "9999-12-31 23:59 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
