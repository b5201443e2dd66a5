//! `process_*`, from `/proc/self`.

use std::fs;

use metrics::Gauge;

use super::kilobytes;
use crate::exposition::Collector;
use crate::families as f;
use crate::meter::{FloatCounter, Meter};

const SELF: &str = "self";

/// Another process of the server, now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneProcess {
    /// Processor time used, in seconds.
    pub cpu: f64,
    /// Memory that is resident, in bytes.
    pub resident: f64,
    /// Start time, in seconds since 1970.
    pub started: f64,
}

impl OneProcess {
    /// The process of that id. None if it has gone, or is not to be looked at.
    pub fn read(id: u32) -> Option<Self> {
        let process = id.to_string();
        let ticks_per_second = ticks_per_second();
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        Some(Self {
            cpu: Stat::read(&process)?.cpu_ticks as f64 / ticks_per_second,
            resident: kilobytes(&status, "VmRSS")?,
            started: start_time(&process, ticks_per_second)?,
        })
    }
}

/// Reads the server's own process.
#[derive(Debug)]
pub struct ProcessCollector {
    cpu: FloatCounter,
    resident: Gauge,
    virtual_memory: Gauge,
    open_files: Gauge,
    ticks_per_second: f64,
}

impl ProcessCollector {
    /// Reads for `meter`. What never changes is read at once.
    pub fn new(meter: &Meter) -> Self {
        let ticks_per_second = ticks_per_second();
        let started = meter.gauge(f::PROCESS_START_TIME_SECONDS, []);
        if let Some(at) = start_time(SELF, ticks_per_second) {
            started.set(at);
        }
        let limit = meter.gauge(f::PROCESS_MAX_FDS, []);
        if let Some(files) = most_files() {
            limit.set(files);
        }
        Self {
            cpu: meter.float_counter(f::PROCESS_CPU_SECONDS_TOTAL, []),
            resident: meter.gauge(f::PROCESS_RESIDENT_MEMORY_BYTES, []),
            virtual_memory: meter.gauge(f::PROCESS_VIRTUAL_MEMORY_BYTES, []),
            open_files: meter.gauge(f::PROCESS_OPEN_FDS, []),
            ticks_per_second,
        }
    }
}

impl Collector for ProcessCollector {
    fn collect(&self) {
        if let Some(stat) = Stat::read(SELF) {
            self.cpu.raise_to(stat.cpu_ticks as f64 / self.ticks_per_second);
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (gauge, name) in [(&self.resident, "VmRSS"), (&self.virtual_memory, "VmSize")] {
            if let Some(bytes) = kilobytes(&status, name) {
                gauge.set(bytes);
            }
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // The directory itself is open while it is read.
            self.open_files.set(files.count().saturating_sub(1) as f64);
        }
    }
}

/// The needed fields of `/proc/self/stat`.
struct Stat {
    cpu_ticks: u64,
    started_ticks: u64,
}

impl Stat {
    fn read(process: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// Fields are counted from behind the command, which may contain spaces and parentheses.
    fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<_> = fields.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            started_ticks: field(22)?,
        })
    }
}

/// Seconds since 1970.
fn start_time(process: &str, ticks_per_second: f64) -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let boot = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    let boot: f64 = boot.trim().parse().ok()?;
    Some(boot + Stat::read(process)?.started_ticks as f64 / ticks_per_second)
}

fn most_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// From the auxiliary vector, entry `AT_CLKTCK`. 100 wherever Linux is known to run.
fn ticks_per_second() -> f64 {
    const AT_CLKTCK: u64 = 17;
    let auxiliary = fs::read("/proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).unwrap_or_default();
    let mut pairs = auxiliary
        .chunks_exact(16)
        .map(|pair| (word(&pair[..8]), word(&pair[8..])));
    let found = pairs.find(|(name, value)| *name == AT_CLKTCK && *value > 0);
    found.map_or(100.0, |(_, value)| value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_there_has_figures_and_one_that_is_not_has_none() {
        let own = OneProcess::read(std::process::id()).expect("this process");
        assert!(own.resident > 0.0 && own.started > 0.0, "{own:?}");
        assert_eq!(OneProcess::read(u32::MAX), None);
    }

    #[test]
    fn a_command_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let mut fields: Vec<_> = (3..=52).map(|n| n.to_string()).collect();
        fields[0] = "S".to_owned();
        let stat = Stat::parse(&format!("1 (a b) c)) {}", fields.join(" "))).expect("a stat line");
        assert_eq!((stat.cpu_ticks, stat.started_ticks), (14 + 15, 22));
    }
}
