//! Machine, program and time of a measurement.

use std::fs;
use std::io;
use std::time::SystemTime;

use super::models::Place;
use super::report::Report;

/// Writes it down.
///
/// # Errors
/// If the report cannot be written.
pub fn describe(title: &str, place: Place, device: &str, report: &mut Report) -> io::Result<()> {
    report.paragraph(format!("# {title}"))?;
    report.table(&["", "measured on"])?;
    let number = match place {
        Place::Device(number) => format!(", number {number}"),
        #[cfg(feature = "emulator")]
        Place::Emulated => String::new(),
    };
    let mut today = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    today.truncate("2026-01-31".len());
    let rows = [
        ("device", format!("{device}{number}")),
        ("driver", driver().unwrap_or_else(|| "none".to_owned())),
        ("processor", processor()),
        (
            "program",
            format!("{} of commit {}", env!("CARGO_PKG_VERSION"), commit()),
        ),
        ("date", today),
    ];
    for (what, value) in rows {
        report.row(&[what, value.as_str()])?;
    }
    report.line("")
}

/// Commit of this build, if the build recorded it.
fn commit() -> &'static str {
    option_env!("OMNI_COMMIT").unwrap_or("unknown")
}

/// The version of the kernel's part of the driver: `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue
/// ...`.
fn driver() -> Option<String> {
    let text = fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    driver_version(&text)
}

fn driver_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let version =
        |word: &&str| word.split('.').count() >= 2 && word.starts_with(|c: char| c.is_ascii_digit());
    line.split_whitespace().find(version).map(str::to_owned)
}

fn processor() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    format!(
        "{}, {cores} cores",
        model.map_or("unknown", |(_, name)| name.trim())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_version_is_found_among_its_words() {
        let text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\nGCC version:  gcc 12\n";
        assert_eq!(driver_version(text).as_deref(), Some("580.95.05"));
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build\n";
        assert_eq!(driver_version(open).as_deref(), Some("570.124.06"));
        assert_eq!(driver_version("something else"), None);
    }
}
