//! The figures of a benchmark as Markdown.

use std::fmt::Write as _;

use omni_client::{Measured, Outcome};

use super::record::{Level, THRESHOLDS, percentile};

const LEGEND: &str = "\
Cells of the second table: p50 / p95 / p99 / max, over the good requests.

TTFA: first text sent to first audio received. Audible: plus the silence at the head of the audio (up to the first 5 ms
window from which the RMS stays at 5 % of the peak for 20 ms). RTF: first text sent to last audio received, over audio
seconds. Busy RTF: the server's own steps over audio seconds, steps shared between streams counted in full for each.
Continuity: share of all requests that a player which starts with the first chunk and never pauses hears with at most
that much delay (a request of a single chunk counts as continuous, one without audio does not). Gap: time between
chunks, over the playing time of the earlier one. Percentiles are exact (nearest rank).
";

/// A column that shows how one value is distributed.
struct Spread {
    title: &'static str,
    scale: f64,
    digits: usize,
    value: fn(&Measured, &Outcome) -> Option<f64>,
}

const SPREADS: [Spread; 5] = [
    Spread {
        title: "TTFA ms",
        scale: 1e3,
        digits: 1,
        value: |measured, _| measured.first_audio.map(|time| time.as_secs_f64()),
    },
    Spread {
        title: "audible ms",
        scale: 1e3,
        digits: 1,
        value: |measured, _| measured.audible_first_audio.map(|time| time.as_secs_f64()),
    },
    Spread {
        title: "RTF",
        scale: 1.0,
        digits: 4,
        value: |measured, _| measured.real_time_factor,
    },
    Spread {
        title: "busy RTF",
        scale: 1.0,
        digits: 4,
        value: |_, done| done.busy_real_time_factor(),
    },
    Spread {
        title: "worst underrun ms",
        scale: 1e3,
        digits: 1,
        value: |measured, _| Some(measured.continuity.worst().as_secs_f64()),
    },
];

/// Two tables and their legend.
pub(super) fn markdown(levels: &[Level]) -> String {
    format!("{}\n{}\n{LEGEND}", overview(levels), spreads(levels))
}

fn overview(levels: &[Level]) -> String {
    let mut text = String::from(
        "| streams | requests | good | no audio | audio s/s | continuity 50 / 100 / 200 ms |\n|--:|--:|--:|--:|--:|--:|\n",
    );
    for level in levels {
        let all = level.requests.len();
        let silent = level
            .requests
            .iter()
            .filter(|request| request.measured.is_none())
            .count();
        let continuity = THRESHOLDS.map(|threshold| format!("{:.1} %", 100.0 * level.continuous(threshold)));
        let _ = writeln!(
            text,
            "| {} | {all} | {} | {silent} | {:.1} | {} |",
            level.streams,
            level.good().count(),
            level.throughput(),
            continuity.join(" / "),
        );
    }
    text
}

/// Every cell: median, 95th, 99th percentile and maximum.
fn spreads(levels: &[Level]) -> String {
    let titles: Vec<&str> = SPREADS.iter().map(|spread| spread.title).collect();
    let mut text = format!(
        "| streams | {} | gap |\n|--:|{}--:|\n",
        titles.join(" | "),
        "--:|".repeat(SPREADS.len())
    );
    for level in levels {
        let cell = |spread: &Spread| distribution(&level.values(spread.value), spread.scale, spread.digits);
        let cells: Vec<String> = SPREADS.iter().map(cell).collect();
        let gap = distribution(&gaps(level), 1.0, 2);
        let _ = writeln!(text, "| {} | {} | {gap} |", level.streams, cells.join(" | "));
    }
    text
}

fn gaps(level: &Level) -> Vec<f64> {
    let measured = level.good().filter_map(|request| request.measured.as_ref());
    measured
        .flat_map(|measured| &measured.gaps)
        .map(|gap| gap.waited.div_duration_f64(gap.covered))
        .collect()
}

fn distribution(values: &[f64], scale: f64, digits: usize) -> String {
    let shown = [0.5, 0.95, 0.99, 1.0].map(|share| {
        percentile(values, share)
            .map_or_else(|| "-".to_owned(), |value| format!("{:.digits$}", value * scale))
    });
    shown.join(" / ")
}
