//! Resources that a server holds: the system's figures of its process, and its own.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use omni_tests::Reading;
use serde_json::{Value, json};

use super::Target;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// A thread for blocking work ends ten seconds after the last of it.
const QUIET: Duration = Duration::from_secs(12);

/// Resources held at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// Bytes of memory.
    pub resident: u64,
    /// Open file descriptors.
    pub files: u64,
    /// Threads.
    pub threads: u64,
    /// Open sessions.
    pub sessions: f64,
    /// Requests in the engines and before them.
    pub requests: f64,
    /// Share of the KV blocks in use, summed over replicas.
    pub kv: f64,
    /// Calls that began and have not ended.
    pub calls: f64,
}

/// The system's figures of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Process {
    resident: u64,
    files: u64,
    threads: u64,
}

impl Process {
    fn now(process: u32) -> anyhow::Result<Self> {
        Ok(Self {
            resident: resident(process)?,
            files: entries(process, "fd")?,
            threads: entries(process, "task")?,
        })
    }

    fn same(&self, other: &Self) -> bool {
        (self.files, self.threads) == (other.files, other.threads)
    }
}

impl Held {
    async fn now(target: Target, process: Process) -> anyhow::Result<Self> {
        let reading = Reading::at(target.metrics).await;
        let sum = |name: &str| reading.sum(name, &[]);
        let requests = [
            "vllm:num_requests_running",
            "vllm:num_requests_waiting",
            "vllm:omni_num_requests_running",
            "vllm:omni_num_requests_waiting",
        ];
        Ok(Self {
            resident: process.resident,
            files: process.files,
            threads: process.threads,
            sessions: sum("vllm:omni_sessions_active"),
            requests: requests.into_iter().map(sum).sum(),
            kv: sum("vllm:kv_cache_usage_perc"),
            calls: sum("grpc_server_started_total") - sum("grpc_server_handled_total"),
        })
    }

    /// Resources held once they no longer change; with `before`, once no more is held than then, or after `patience`.
    ///
    /// The server is asked only when its process looks as expected, and not again before [`QUIET`] has passed: every
    /// answer uses a thread for blocking work, and frequent requests would keep all of these alive, because idle ones
    /// are used in turn.
    pub(super) async fn settled(
        target: Target,
        before: Option<&Self>,
        allowance: u64,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let late = Instant::now() + patience;
        let mut asked: Option<Instant> = None;
        let mut last = Process::now(target.process)?;
        let mut since = Instant::now();
        loop {
            tokio::time::sleep(LOOK).await;
            let now = Process::now(target.process)?;
            if !now.same(&last) {
                since = Instant::now();
            }
            last = now;
            let fits = match before {
                None => since.elapsed() >= QUIET,
                Some(before) => {
                    now.resident <= before.resident + allowance
                        && now.files <= before.files
                        && now.threads <= before.threads
                }
            };
            let over = Instant::now() > late;
            if over || (fits && asked.is_none_or(|asked| asked.elapsed() >= QUIET)) {
                let held = Self::now(target, now).await?;
                asked = Some(Instant::now());
                let done = match before {
                    None => held.is_idle(),
                    Some(before) => before.exceeded(&held, allowance).is_empty(),
                };
                if done || over {
                    return Ok(held);
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.sessions == 0.0 && self.requests == 0.0 && self.kv == 0.0 && self.calls == 0.0
    }

    /// In what `after` is more than this.
    pub(super) fn exceeded(&self, after: &Self, allowance: u64) -> Vec<String> {
        let more = |what: &str, before: f64, after: f64, allowance: f64| {
            (after > before + allowance).then(|| format!("{what}: {before} before, {after} after"))
        };
        let found = [
            more(
                "resident bytes",
                self.resident as f64,
                after.resident as f64,
                allowance as f64,
            ),
            more("file descriptors", self.files as f64, after.files as f64, 0.0),
            more("threads", self.threads as f64, after.threads as f64, 0.0),
            more("sessions", 0.0, after.sessions, 0.0),
            more("requests", 0.0, after.requests, 0.0),
            more("KV blocks (share)", 0.0, after.kv, 0.0),
            more("calls without an end", 0.0, after.calls, 0.0),
        ];
        found.into_iter().flatten().collect()
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "resident_bytes": self.resident, "file_descriptors": self.files, "threads": self.threads,
            "sessions": self.sessions, "requests": self.requests, "kv_usage": self.kv, "open_calls": self.calls,
        })
    }
}

/// Bytes of memory that a process has.
pub(crate) fn resident(process: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line
        .and_then(|line| line.split_whitespace().nth(1))
        .and_then(|kib| kib.parse::<u64>().ok());
    Ok(1024 * kib.with_context(|| format!("{path} has no VmRSS"))?)
}

fn entries(process: u32, what: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{process}/{what}");
    let entries = fs::read_dir(&path).with_context(|| format!("cannot read {path}"))?;
    Ok(entries.count() as u64)
}
