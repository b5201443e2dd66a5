//! The machine: processors, memory, the root file system. Also under TorchServe's names.

use std::fs;

use metrics::Gauge;
use parking_lot::Mutex;

use super::kilobytes;
use crate::exposition::Collector;
use crate::families as f;
use crate::family::GaugeFamily;
use crate::meter::Meter;

const MEGABYTE: f64 = 1024.0 * 1024.0;
const GIGABYTE: f64 = 1024.0 * MEGABYTE;

/// A file system, in bytes, as `df` counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskReading {
    /// Its size.
    pub total: f64,
    /// Taken.
    pub used: f64,
    /// Left for users other than the superuser.
    pub available: f64,
}

impl DiskReading {
    /// The share in use, 0 to 1: of what is not kept for the superuser, as `df` and psutil have it.
    fn share(&self) -> f64 {
        self.used / (self.used + self.available).max(1.0)
    }
}

/// One look at the machine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostReading {
    /// Busy and all processor time since boot, in ticks.
    pub cpu: Option<(u64, u64)>,
    /// Memory there is and memory that can be had, in bytes.
    pub memory: Option<(f64, f64)>,
    /// The root file system.
    pub disk: Option<DiskReading>,
}

impl HostReading {
    /// Looks.
    pub fn now() -> Self {
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory = kilobytes(&memory, "MemTotal").zip(kilobytes(&memory, "MemAvailable"));
        let disk = rustix::fs::statvfs("/").ok().map(|disk| {
            let block = disk.f_frsize as f64;
            DiskReading {
                total: disk.f_blocks as f64 * block,
                used: disk.f_blocks.saturating_sub(disk.f_bfree) as f64 * block,
                available: disk.f_bavail as f64 * block,
            }
        });
        Self {
            cpu: fs::read_to_string("/proc/stat")
                .ok()
                .and_then(|stat| cpu_ticks(&stat)),
            memory,
            disk,
        }
    }
}

/// Busy and all ticks of the line that sums up the processors.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // user nice system idle iowait irq softirq steal; guest time is part of user time already.
    let ticks: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .filter_map(|tick| tick.parse().ok())
        .collect();
    let all: u64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((all - idle, all))
}

/// Reads the machine.
#[derive(Debug)]
pub struct HostCollector {
    cpu: Gauge,
    memory_total: Gauge,
    memory_available: Gauge,
    disk_total: Gauge,
    disk_taken: Gauge,
    disk_available: Gauge,
    torchserve: TorchServeGauges,
    /// Processor time at the reading before.
    before: Mutex<Option<(u64, u64)>>,
}

#[derive(Debug)]
struct TorchServeGauges {
    cpu: Gauge,
    memory_used: Gauge,
    memory_available: Gauge,
    memory_share: Gauge,
    disk_used: Gauge,
    disk_available: Gauge,
    disk_share: Gauge,
}

impl HostCollector {
    /// Reads for `meter`.
    pub fn new(meter: &Meter) -> Self {
        let of = |family: GaugeFamily<1>| meter.gauge(family, ["Host"]);
        Self {
            cpu: meter.gauge(f::OMNI_HOST_CPU_RATIO, []),
            memory_total: meter.gauge(f::OMNI_HOST_MEMORY_TOTAL_BYTES, []),
            memory_available: meter.gauge(f::OMNI_HOST_MEMORY_AVAILABLE_BYTES, []),
            disk_total: meter.gauge(f::OMNI_HOST_DISK_TOTAL_BYTES, []),
            disk_taken: meter.gauge(f::OMNI_HOST_DISK_USED_BYTES, []),
            disk_available: meter.gauge(f::OMNI_HOST_DISK_AVAILABLE_BYTES, []),
            torchserve: TorchServeGauges {
                cpu: of(f::TS_CPUUTILIZATION),
                memory_used: of(f::TS_MEMORY_USED),
                memory_available: of(f::TS_MEMORY_AVAILABLE),
                memory_share: of(f::TS_MEMORY_UTILIZATION),
                disk_used: of(f::TS_DISK_USAGE),
                disk_available: of(f::TS_DISK_AVAILABLE),
                disk_share: of(f::TS_DISK_UTILIZATION),
            },
            before: Mutex::new(HostReading::now().cpu),
        }
    }

    fn record(&self, reading: &HostReading) {
        let ts = &self.torchserve;
        if let Some(busy) = reading.cpu.and_then(|now| self.busy_since(now)) {
            self.cpu.set(busy);
            ts.cpu.set(busy * 100.0);
        }
        if let Some((total, available)) = reading.memory {
            self.memory_total.set(total);
            self.memory_available.set(available);
            ts.memory_used.set((total - available) / MEGABYTE);
            ts.memory_available.set(available / MEGABYTE);
            ts.memory_share.set((total - available) / total * 100.0);
        }
        if let Some(disk) = &reading.disk {
            self.disk_total.set(disk.total);
            self.disk_taken.set(disk.used);
            self.disk_available.set(disk.available);
            ts.disk_used.set(disk.used / GIGABYTE);
            ts.disk_available.set(disk.available / GIGABYTE);
            ts.disk_share.set(disk.share() * 100.0);
        }
    }

    /// The busy share since the reading before. None if no tick has passed.
    fn busy_since(&self, now: (u64, u64)) -> Option<f64> {
        let mut before = self.before.lock();
        let (busy, all) = before.unwrap_or_default();
        let passed = now.1.checked_sub(all).filter(|passed| *passed > 0)?;
        *before = Some(now);
        Some(now.0.saturating_sub(busy) as f64 / passed as f64)
    }
}

impl Collector for HostCollector {
    fn collect(&self) {
        self.record(&HostReading::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_everything_but_idle_and_waiting_for_disks() {
        let stat = "cpu  10 1 20 100 30 2 3 4 9 9\ncpu0 1 1 1 1\n";
        assert_eq!(cpu_ticks(stat), Some((40, 170)));
        assert_eq!(cpu_ticks("intr 1"), None);
    }

    #[test]
    fn what_is_kept_for_the_superuser_is_neither_taken_nor_available() {
        let disk = DiskReading {
            total: 100.0,
            used: 20.0,
            available: 60.0,
        };
        assert_eq!(disk.share(), 0.25);
    }

    #[test]
    fn the_share_is_that_since_the_reading_before() {
        let telemetry = crate::Telemetry::new(&crate::TelemetryOptions::default()).expect("good options");
        let host = HostCollector::new(telemetry.meter());
        *host.before.lock() = Some((100, 1000));
        assert_eq!(host.busy_since((150, 1200)), Some(0.25));
        assert_eq!(host.busy_since((150, 1200)), None);
        assert_eq!(host.busy_since((250, 1300)), Some(1.0));
    }
}
