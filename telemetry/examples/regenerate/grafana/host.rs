//! The machine, the process, its GPUs, and the metrics themselves.

use super::model::{Dashboard, OF_HOST, Row, lines, row, stack, stat};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "omni-host",
        title: "Omni / Host",
        about: "The machines and the processes that serve, and how well they can be observed.",
        variables: OF_HOST,
        rows: vec![machine(), process(), gpu(), metrics()],
    }
}

const NO_GPU: &str = "there is no NVIDIA device, or it does not tell";

fn machine() -> Row {
    let memory =
        "1 - vllm:omni_host_memory_available_bytes{@host} / vllm:omni_host_memory_total_bytes{@host}";
    let disk = "vllm:omni_host_disk_used_bytes{@host} \
                / (vllm:omni_host_disk_used_bytes{@host} + vllm:omni_host_disk_available_bytes{@host})";
    let panels = vec![
        stat("Processors busy", "percentunit")
            .about("Busiest machine: share of its processor time that was busy between two readings.")
            .query("busiest", "max(vllm:omni_host_cpu_ratio{@host})")
            .share()
            .limits(0.8, 0.95)
            .wide(8),
        stat("Memory in use", "percentunit")
            .about("Fullest machine: share of its memory that cannot be had without swapping.")
            .query("fullest", &format!("max({memory})"))
            .share()
            .limits(0.85, 0.95)
            .wide(8),
        stat("Disk in use", "percentunit")
            .about("Fullest machine: share of its root file system in use.")
            .query("fullest", &format!("max({disk})"))
            .share()
            .limits(0.85, 0.95)
            .wide(8),
        lines("Processors busy", "percentunit")
            .about("Share of each machine's processor time that was busy.")
            .query("{{instance}}", "vllm:omni_host_cpu_ratio{@host}")
            .share(),
        lines("Memory to be had", "bytes")
            .about("Memory that can be had without swapping.")
            .query("{{instance}}", "vllm:omni_host_memory_available_bytes{@host}"),
        lines("Disk to be had", "bytes")
            .about("Room left in the root file system.")
            .query("{{instance}}", "vllm:omni_host_disk_available_bytes{@host}"),
    ];
    row("Machine", panels)
}

fn process() -> Row {
    let panels = vec![
        lines("Processors used", "none")
            .about("Processors that the server keeps busy, in whole processors.")
            .query("{{instance}}", "rate(process_cpu_seconds_total{@host}[@rate])"),
        lines("Memory", "bytes")
            .about("Memory of the server that is resident. Grows with the conversations that are open, and must come back.")
            .query("{{instance}}", "process_resident_memory_bytes{@host}"),
        lines("Memory of replicas' processes", "bytes")
            .about("Memory that is resident, of replicas that have a process of their own. The server's own is not in it.")
            .query(
                "{{stage}}/{{replica}}",
                "vllm:omni_stage_process_resident_memory_bytes{@host}",
            )
            .empty_while("no replica has a process of its own", "no processes"),
        lines("Processors used by replicas' processes", "none")
            .about("Processors that they keep busy, in whole processors.")
            .query(
                "{{stage}}/{{replica}}",
                "rate(vllm:omni_stage_process_cpu_seconds_total{@host}[@rate])",
            )
            .empty_while("no replica has a process of its own", "no processes"),
        lines("Address space", "bytes")
            .about("Includes files that are mapped, such as weights.")
            .query("{{instance}}", "process_virtual_memory_bytes{@host}"),
        lines("Files open", "none")
            .about("File descriptors, sockets among them, and how many there may be.")
            .query("{{instance}}", "process_open_fds{@host}")
            .query("{{instance}} may", "process_max_fds{@host}")
            .wide(12),
        lines("Running for", "s")
            .about("Time since the server started. A saw shows restarts.")
            .query("{{instance}}", "time() - process_start_time_seconds{@host}")
            .wide(12),
    ];
    row("Server", panels)
}

fn gpu() -> Row {
    let of = |title, unit, about: &str, family: &str| {
        lines(title, unit)
            .about(about)
            .query("{{instance}} GPU {{device}}", &format!("{family}{{@host}}"))
            .empty_while(NO_GPU, "no GPU")
    };
    let panels = vec![
        of(
            "GPU busy",
            "percentunit",
            "Share of the last sampling period in which a kernel ran.",
            "vllm:omni_gpu_utilization_ratio",
        )
        .share(),
        of(
            "GPU memory accesses",
            "percentunit",
            "Share of the last sampling period in which device memory was read or written.",
            "vllm:omni_gpu_memory_controller_ratio",
        )
        .share(),
        lines("GPU memory in use", "percentunit")
            .about("Share of the device memory in use, by all processes.")
            .query(
                "{{instance}} GPU {{device}}",
                "vllm:omni_gpu_memory_used_bytes{@host} / vllm:omni_gpu_memory_total_bytes{@host}",
            )
            .empty_while(NO_GPU, "no GPU")
            .share()
            .limits(0.9, 0.98),
        of("GPU power", "watt", "Power drawn.", "vllm:omni_gpu_power_watts").wide(12),
        of(
            "GPU temperature",
            "celsius",
            "Temperature of the device.",
            "vllm:omni_gpu_temperature_celsius",
        )
        .wide(12),
    ];
    row("GPUs", panels)
}

fn metrics() -> Row {
    let panels = vec![
        stack("Updates refused", "cps")
            .about("Updates or series that were not recorded, by cause. Anything but zero makes some figure too small.")
            .query(
                "{{reason}}",
                "sum by (reason) (rate(vllm:omni_metrics_dropped_total{@host}[@rate]))",
            ),
        lines("Readings", "cps")
            .about("Times per second that the metrics were read over HTTP.")
            .query("{{instance}}", "rate(vllm:omni_metrics_scrapes_total{@host}[@rate])"),
        lines("Pushes", "cps")
            .about("Pushes to the gateway. Zero without one.")
            .query(
                "{{instance}} {{result}}",
                "sum by (instance, result) (rate(vllm:omni_metrics_push_total{@host}[@rate]))",
            ),
        lines("Age of the last push", "s")
            .about("Time since a push last succeeded.")
            .query(
                "{{instance}}",
                "time() - (vllm:omni_metrics_last_push_success_timestamp_s{@host} > 0)",
            )
            .empty_while("the server does not push, or never could", "does not push")
            .limits(30.0, 120.0)
            .wide(12),
        lines("Spans", "cps")
            .about("Spans of traced requests by what became of them. Zero without an endpoint for traces.")
            .query(
                "{{instance}} {{result}}",
                "sum by (instance, result) (rate(vllm:omni_trace_spans_total{@host}[@rate]))",
            )
            .wide(12),
    ];
    row("Metrics", panels)
}
