//! The metrics that a server with these settings would serve, for people and for programs.

use std::fmt::Write as _;

use omni_config::MetricsSettings;
use omni_telemetry::{CustomMetrics, CustomOptions, Telemetry, TelemetryOptions};

/// One line per family: name, type, unit, labels.
///
/// # Errors
/// Metrics of the file that cannot be declared.
pub fn list_metrics(settings: &MetricsSettings) -> anyhow::Result<String> {
    let telemetry = declared(settings)?;
    let families = telemetry.schema().served();
    let width = families.iter().map(|family| family.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for family in families {
        let labels = family.exposed_labels().join(",");
        let name = &family.name;
        let kind = family.kind.exposed();
        let unit = &family.unit;
        let line = format!("{name:width$}  {kind:9}  {unit:12}  {labels}");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(out)
}

/// Everything that is known of them, and the families that are absent on purpose, as JSON.
///
/// # Errors
/// Metrics of the file that cannot be declared.
pub fn metrics_catalogue(settings: &MetricsSettings) -> anyhow::Result<String> {
    Ok(format!("{:#}\n", declared(settings)?.schema().to_json()))
}

fn declared(settings: &MetricsSettings) -> anyhow::Result<Telemetry> {
    let options = TelemetryOptions {
        catalogue: settings.catalogue.clone(),
        ..TelemetryOptions::default()
    };
    let telemetry = super::telemetry(Telemetry::new(&options))?;
    if let Some(file) = &settings.file {
        let custom = CustomMetrics::new(&telemetry, CustomOptions::default());
        file.declare(&custom, settings.catalogue.mode)?;
    }
    Ok(telemetry)
}
