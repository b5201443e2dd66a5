//! Writes `src/generated/families.rs`: one typed constant per family.

use std::fmt::Write;

use crate::catalogue::{Catalogue, Family, FamilyKind};

const HEAD: &str = "\
// Generated from telemetry/catalogue.yaml by `cargo run -p omni-telemetry --example regenerate`. Do not edit.

use crate::family::{CounterFamily, FloatCounterFamily, GaugeFamily, HistogramFamily, SummaryFamily};
";

/// The source of the typed constants.
pub fn families_source(catalogue: &Catalogue) -> String {
    let mut out = String::from(HEAD);
    for (id, family) in catalogue.families().iter().enumerate() {
        let labels: Vec<_> = family
            .labels
            .iter()
            .filter(|label| !catalogue.supplied().contains(label))
            .map(|label| format!("\"{label}\""))
            .collect();
        let kind = match family.kind {
            FamilyKind::Counter => "CounterFamily",
            FamilyKind::FloatCounter => "FloatCounterFamily",
            FamilyKind::Gauge => "GaugeFamily",
            FamilyKind::Histogram => "HistogramFamily",
            FamilyKind::Summary => "SummaryFamily",
        };
        let _ = write!(
            out,
            "\n/// `{}`: {}\n#[rustfmt::skip]\npub const {}: {kind}<{}> = {kind}::new({id}, &[{}]);\n",
            family.name,
            family.help,
            constant(family),
            labels.len(),
            labels.join(", "),
        );
    }
    out
}

/// `vllm:omni_audio_rtf` is `OMNI_AUDIO_RTF`, `QueueTime` is `TS_QUEUE_TIME`.
fn constant(family: &Family) -> String {
    let name = family.name.rsplit(':').next().unwrap_or_default();
    if name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return name.to_ascii_uppercase();
    }
    let mut out = String::from("TS");
    let mut before = '_';
    for c in name.chars() {
        let starts_a_word =
            c.is_ascii_uppercase() && !before.is_ascii_uppercase() && !before.is_ascii_digit();
        if starts_a_word || (c.is_ascii_digit() && !before.is_ascii_digit()) {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
        before = c;
    }
    out
}
