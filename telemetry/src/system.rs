//! Figures of the kernel and the driver: the process, the machine, its GPUs. Read when the metrics are read.
//!
//! What cannot be read is left out: no file, no device and no permission is an error here.

use std::sync::Arc;

use crate::exposition::Exposition;
use crate::meter::Meter;

mod gpu;
mod host;
mod process;

pub use gpu::{GpuCollector, GpuReader, GpuReading, Nvml};
pub use host::{DiskReading, HostCollector, HostReading};
pub use process::{OneProcess, ProcessCollector};

/// Lets `exposition` ask the kernel and the driver before every rendering.
pub fn collect_system(exposition: &Exposition, meter: &Meter) {
    exposition.collect_from(Arc::new(ProcessCollector::new(meter)));
    exposition.collect_from(Arc::new(HostCollector::new(meter)));
    if let Some(nvml) = Nvml::find() {
        exposition.collect_from(Arc::new(GpuCollector::new(meter, nvml)));
    }
}

/// The value in kilobytes of a line like `VmRSS:     1234 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number = line.trim_start_matches(':').split_whitespace().next()?;
    Some(number.parse::<u64>().ok()? as f64 * 1024.0)
}
