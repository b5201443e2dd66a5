//! NVIDIA devices, through the driver's library if it can be loaded. Also under TorchServe's names.

use metrics::Gauge;
use nvml_wrapper::Nvml as Library;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;

use crate::exposition::Collector;
use crate::families as f;
use crate::family::GaugeFamily;
use crate::meter::Meter;

/// The figures that a device reports.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GpuReading {
    /// Share of time in which a kernel ran, 0 to 1.
    pub busy: Option<f64>,
    /// Share of time in which memory was accessed, 0 to 1.
    pub memory_busy: Option<f64>,
    /// Bytes in use and bytes there are.
    pub memory: Option<(u64, u64)>,
    /// Watts.
    pub power: Option<f64>,
    /// Degrees Celsius.
    pub temperature: Option<f64>,
}

/// Looks at every device.
pub trait GpuReader: Send + Sync {
    /// Readings in the order of the devices.
    fn read(&self) -> Vec<GpuReading>;
}

/// The driver's library.
#[derive(derive_more::Debug)]
#[debug("Nvml")]
pub struct Nvml(Library);

impl Nvml {
    /// The library, if there is one and it finds a device.
    pub fn find() -> Option<Self> {
        let library = Library::init().ok()?;
        let devices = library.device_count().ok()?;
        (devices > 0).then_some(Self(library))
    }
}

impl GpuReader for Nvml {
    fn read(&self) -> Vec<GpuReading> {
        let devices = 0..self.0.device_count().unwrap_or(0);
        devices.map(|index| reading(&self.0, index)).collect()
    }
}

fn reading(library: &Library, index: u32) -> GpuReading {
    let Ok(device) = library.device_by_index(index) else {
        return GpuReading::default();
    };
    let utilization = device.utilization_rates().ok();
    let percent = |percent: u32| f64::from(percent) / 100.0;
    GpuReading {
        busy: utilization.as_ref().map(|rates| percent(rates.gpu)),
        memory_busy: utilization.as_ref().map(|rates| percent(rates.memory)),
        memory: device
            .memory_info()
            .ok()
            .map(|memory| (memory.used, memory.total)),
        power: device
            .power_usage()
            .ok()
            .map(|milliwatts| f64::from(milliwatts) / 1e3),
        temperature: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
    }
}

/// Reads the devices.
#[derive(Debug)]
pub struct GpuCollector<R> {
    meter: Meter,
    reader: R,
}

impl<R: GpuReader> GpuCollector<R> {
    /// Reads through `reader` for `meter`.
    pub fn new(meter: &Meter, reader: R) -> Self {
        Self {
            meter: meter.clone(),
            reader,
        }
    }

    fn record(&self, device: &str, reading: &GpuReading) {
        // A gauge that a device does not feed must not exist, so handles are made with the first value. It is off the
        // hot path.
        let set = |family: GaugeFamily<1>, value: Option<f64>| {
            if let Some(value) = value {
                self.meter.gauge(family, [device]).set(value);
            }
        };
        let used = reading.memory.map(|(used, _)| used as f64);
        let total = reading.memory.map(|(_, total)| total as f64);
        set(f::OMNI_GPU_UTILIZATION_RATIO, reading.busy);
        set(f::OMNI_GPU_MEMORY_CONTROLLER_RATIO, reading.memory_busy);
        set(f::OMNI_GPU_MEMORY_USED_BYTES, used);
        set(f::OMNI_GPU_MEMORY_TOTAL_BYTES, total);
        set(f::OMNI_GPU_POWER_WATTS, reading.power);
        set(f::OMNI_GPU_TEMPERATURE_CELSIUS, reading.temperature);
        let share = used.zip(total).filter(|(_, total)| *total > 0.0);
        self.torchserve(
            device,
            f::TS_GPUUTILIZATION,
            reading.busy.map(|busy| busy * 100.0),
        );
        self.torchserve(
            device,
            f::TS_GPUMEMORY_USED,
            used.map(|used| used / (1024.0 * 1024.0)),
        );
        self.torchserve(
            device,
            f::TS_GPUMEMORY_UTILIZATION,
            share.map(|(used, total)| used / total * 100.0),
        );
    }

    fn torchserve(&self, device: &str, family: GaugeFamily<2>, value: Option<f64>) {
        if let Some(value) = value {
            let gauge: Gauge = self.meter.gauge(family, ["Host", device]);
            gauge.set(value);
        }
    }
}

impl<R: GpuReader> Collector for GpuCollector<R> {
    fn collect(&self) {
        for (index, reading) in self.reader.read().iter().enumerate() {
            self.record(&index.to_string(), reading);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Selection, Telemetry, TelemetryOptions};

    struct Fake;

    impl GpuReader for Fake {
        fn read(&self) -> Vec<GpuReading> {
            let silent = GpuReading::default();
            let reading = GpuReading {
                busy: Some(0.5),
                memory: Some((1 << 30, 4 << 30)),
                ..silent
            };
            vec![silent, reading]
        }
    }

    #[test]
    fn what_a_device_does_not_report_has_no_series() {
        let telemetry = Telemetry::new(&TelemetryOptions::default()).expect("good options");
        GpuCollector::new(telemetry.meter(), Fake).collect();
        let text = telemetry.exposition().render(&Selection::default());
        assert!(text.contains("vllm:omni_gpu_utilization_ratio{device=\"1\"} 0.5\n"));
        assert!(text.contains("vllm:omni_gpu_memory_used_bytes{device=\"1\"} 1073741824.0\n"));
        assert!(!text.contains("device=\"0\""));
        assert!(!text.contains("vllm:omni_gpu_power_watts{"));
    }
}
