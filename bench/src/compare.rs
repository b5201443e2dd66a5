//! Two benchmarks side by side: ratios, and whether they are more than chance.

use std::path::Path;

use serde_json::{Value, json};

use super::error::BenchError;
use super::figures::{FIRST_SOUND, Figure, RTF, TPOT, TTFA, TTFT};
use super::grid::{Grid, Style};
use super::level::{Point, points};
use super::record::Record;
use super::report::{Report, utc};
use super::stats::{Interval, bootstrap, mean, percentile, ratio_of_trials};
use super::table::wrapped;

/// Change of one figure.
#[derive(Debug, Clone, PartialEq)]
struct Change {
    name: String,
    before: String,
    after: String,
    /// After over before, or for shares after minus before; and the point of no change.
    by: Option<Interval>,
    neutral: f64,
    /// True if larger values are better.
    more_is_better: bool,
}

/// Changes at one level of load.
#[derive(Debug, Clone, PartialEq)]
struct Compared {
    load: String,
    changes: Vec<Change>,
}

/// Reads two reports that [`crate::Measurement::write_json`] wrote, and gives their differences as a table.
///
/// # Errors
/// If a file is no report, or the two have no load in common.
pub fn compare(before: &Path, after: &Path, style: Style) -> Result<String, BenchError> {
    let before = Report::read(before)?;
    let after = Report::read(after)?;
    let compared = levels(&before, &after);
    if compared.is_empty() {
        return Err(BenchError::NothingInCommon);
    }
    Ok(write(&before, &after, &compared, style))
}

/// As JSON.
///
/// # Errors
///
/// If a file is not a report.
pub fn compare_json(before: &Path, after: &Path) -> Result<Value, BenchError> {
    let before = Report::read(before)?;
    let after = Report::read(after)?;
    let change = |change: &Change| {
        json!({
            "figure": change.name,
            "before": change.before,
            "after": change.after,
            "by": change.by.map(|by| json!({ "value": by.value, "low": by.low, "high": by.high })),
            "verdict": verdict(change),
        })
    };
    let levels = levels(&before, &after).into_iter().map(
        |level| json!({ "load": level.load, "figures": level.changes.iter().map(change).collect::<Vec<_>>() }),
    );
    Ok(json!({ "levels": levels.collect::<Vec<_>>() }))
}

fn levels(before: &Report, after: &Report) -> Vec<Compared> {
    let after_points = points(&after.levels);
    let same = |point: &Point<'_>| {
        after_points
            .iter()
            .find(|other| other.offered == point.offered)
            .cloned()
    };
    points(&before.levels)
        .iter()
        .filter_map(|point| Some((point, same(point)?)))
        .map(|(point, other)| Compared {
            load: format!("{} {}", point.offered, point.offered.title()),
            changes: changes(point, &other),
        })
        .collect()
}

fn changes(before: &Point<'_>, after: &Point<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    for figure in [TTFT, TPOT, TTFA, FIRST_SOUND, RTF] {
        for (share, name) in [(0.5, "p50"), (0.95, "p95")] {
            changes.extend(percentiles(&figure, share, name, before, after));
        }
    }
    if before.requests().any(|record| record.audio_seconds.is_some()) {
        changes.push(shares("without a gap over 100 ms", before, after, |record| {
            record
                .cancel
                .is_none()
                .then(|| record.good() && record.continuous(0.1))
        }));
        changes.push(rates("audio s/s", before, after, |point| point.throughput()));
    }
    changes.push(shares("success", before, after, |record| Some(record.good())));
    changes
}

/// Comparison of a figure present in both.
fn percentiles(
    figure: &Figure,
    share: f64,
    name: &str,
    before: &Point<'_>,
    after: &Point<'_>,
) -> Option<Change> {
    let each = |point: &Point<'_>| -> Vec<Vec<f64>> {
        point.each().map(|trial| trial.values(figure.value)).collect()
    };
    let old = each(before);
    let new = each(after);
    let ratio = |old: &[f64], new: &[f64]| {
        let old = percentile(old, share).filter(|&old| old > 0.0)?;
        Some(percentile(new, share)? / old)
    };
    Some(Change {
        name: format!("{} {name}", figure.title()),
        before: figure.written(percentile(&old.concat(), share)?),
        after: figure.written(percentile(&new.concat(), share)?),
        by: bootstrap(&old, &new, ratio),
        neutral: 1.0,
        more_is_better: false,
    })
}

/// Comparison of a share of the requests for which `holds` is known.
fn shares(
    name: &str,
    before: &Point<'_>,
    after: &Point<'_>,
    holds: impl Fn(&Record) -> Option<bool>,
) -> Change {
    let of = |record: &Record| holds(record).map(|held| f64::from(u8::from(held)));
    let values = |point: &Point<'_>| -> Vec<Vec<f64>> {
        point
            .each()
            .map(|trial| trial.requests().filter_map(of).collect())
            .collect()
    };
    let old = values(before);
    let new = values(after);
    let written = |values: &[Vec<f64>]| {
        mean(&values.concat()).map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
    };
    Change {
        name: name.to_owned(),
        before: written(&old),
        after: written(&new),
        by: bootstrap(&old, &new, |old, new| Some(mean(new)? - mean(old)?)),
        neutral: 0.0,
        more_is_better: true,
    }
}

/// Comparison of a rate, whose interval comes from repeated trials only.
fn rates(name: &str, before: &Point<'_>, after: &Point<'_>, rate: impl Fn(&Point<'_>) -> f64) -> Change {
    let each = |point: &Point<'_>| point.each().map(|trial| rate(&trial)).collect::<Vec<_>>();
    Change {
        name: name.to_owned(),
        before: format!("{:.1}", rate(before)),
        after: format!("{:.1}", rate(after)),
        by: ratio_of_trials(&each(before), &each(after)),
        neutral: 1.0,
        more_is_better: true,
    }
}

fn verdict(change: &Change) -> &'static str {
    match change.by {
        None => "not repeated",
        Some(by) if !by.excludes(change.neutral) => "no difference seen",
        Some(by) if (by.value > change.neutral) == change.more_is_better => "better",
        Some(_) => "worse",
    }
}

fn write(before: &Report, after: &Report, compared: &[Compared], style: Style) -> String {
    let mut grid = Grid::new(["load", "figure", "before", "after", "change", "95 % interval", ""]);
    for level in compared {
        for change in &level.changes {
            let (by, interval) = written(change);
            let cells = [
                &level.load,
                &change.name,
                &change.before,
                &change.after,
                &by,
                &interval,
            ];
            let mut row: Vec<String> = cells.map(String::clone).to_vec();
            row.push(verdict(change).to_owned());
            grid.rows.push(row);
        }
    }
    let about = |name: &str, report: &Report| {
        let when = utc(report.started_unix_seconds);
        let machine = report.machine.line();
        wrapped(&format!(
            "{name}: {when}, client {}, {machine}; {}.",
            report.client_version,
            report.manner()
        ))
    };
    let mut parts = vec![about("Before", before), about("After", after), grid.write(style)];
    parts.extend(
        warnings(before, after)
            .into_iter()
            .map(|text| wrapped(&format!("Mind: {text}."))),
    );
    parts.push(wrapped(LEGEND));
    parts
        .iter()
        .map(|part| format!("{}\n", part.trim_end()))
        .collect::<Vec<_>>()
        .join("\n")
}

const LEGEND: &str = "Change: after over before; of shares the difference in percentage points. Intervals of percentiles and \
shares: trials and the requests in them drawn anew 1,000 times (bootstrap); of amounts per second: Welch's, over the trials. \
Requests of one trial share what else the machine did then: only repeated trials tell that from a change.";

/// The change and its interval as they are written.
fn written(change: &Change) -> (String, String) {
    let Some(by) = change.by else {
        return ("-".to_owned(), "-".to_owned());
    };
    if change.neutral == 0.0 {
        let points = |value: f64| format!("{:+.1}", value * 100.0);
        return (
            points(by.value),
            format!("{} to {}", points(by.low), points(by.high)),
        );
    }
    (
        format!("x {:.3}", by.value),
        format!("{:.3} to {:.3}", by.low, by.high),
    )
}

/// Differences that make the two runs hard to compare.
fn warnings(before: &Report, after: &Report) -> Vec<&'static str> {
    let mut warnings = Vec::new();
    let mut differ = |different: bool, text| {
        if different {
            warnings.push(text);
        }
    };
    differ(before.machine != after.machine, "the machines differ");
    differ(before.served != after.served, "the models or voices differ");
    differ(before.texts != after.texts, "the texts differ");
    differ(before.load_seed != after.load_seed, "the load seeds differ");
    differ(
        (before.tokens_per_second, before.real_time_readers, before.cancel)
            != (after.tokens_per_second, after.real_time_readers, after.cancel),
        "the manners of asking differ",
    );
    warnings
}

#[cfg(test)]
mod tests {
    use super::super::level::tests::{failed, level, spoken};
    use super::*;

    fn report(ttfas: impl Fn(u32) -> f64, walls: [f64; 2]) -> Report {
        let requests = || (0..50).map(|i| spoken(ttfas(i), 0.0)).collect::<Vec<_>>();
        Report {
            spoken: true,
            levels: vec![
                level(4, 1, walls[0], requests()),
                level(4, 2, walls[1], requests()),
                level(8, 1, 1.0, requests()),
            ],
            ..Report::default()
        }
    }

    fn find<'c>(compared: &'c [Compared], load: &str, name: &str) -> &'c Change {
        let level = compared.iter().find(|level| level.load == load).unwrap();
        level.changes.iter().find(|change| change.name == name).unwrap()
    }

    #[test]
    fn what_changed_is_told_from_what_did_not() {
        let before = report(|i| 0.1 + f64::from(i % 5) * 0.001, [10.0, 10.1]);
        let mut after = report(|i| 0.2 + f64::from(i % 5) * 0.002, [5.0, 5.05]);
        after.levels.remove(2);
        let compared = levels(&before, &after);
        assert_eq!(compared.len(), 1, "only what both have");
        let ttfa = find(&compared, "4 streams", "TTFA ms p50");
        assert_eq!(
            (ttfa.before.as_str(), ttfa.after.as_str(), verdict(ttfa)),
            ("102.0", "204.0", "worse")
        );
        assert!((ttfa.by.unwrap().value - 2.0).abs() < 1e-9);
        // 100 times two seconds of audio in 10 and 10.1 s; twice that after.
        let throughput = find(&compared, "4 streams", "audio s/s");
        assert_eq!(
            (throughput.before.as_str(), verdict(throughput)),
            ("10.0", "better")
        );
        assert!((throughput.by.unwrap().value - 2.0).abs() < 1e-9);
        assert_eq!(
            verdict(find(&compared, "4 streams", "RTF p50")),
            "no difference seen"
        );
    }

    #[test]
    fn shares_change_by_a_difference() {
        let before = Report {
            levels: vec![level(1, 1, 1.0, vec![spoken(0.1, 0.0); 100])],
            ..Report::default()
        };
        let mut requests = vec![spoken(0.1, 0.0); 60];
        requests.extend(vec![spoken(0.1, 0.3); 20]);
        requests.extend(vec![failed(); 20]);
        let after = Report {
            levels: vec![level(1, 1, 1.0, requests)],
            ..Report::default()
        };
        let compared = levels(&before, &after);
        let continuity = find(&compared, "1 streams", "without a gap over 100 ms");
        assert_eq!(
            (continuity.after.as_str(), verdict(continuity)),
            ("60.0 %", "worse")
        );
        assert_eq!(written(continuity).0, "-40.0");
        assert_eq!(written(find(&compared, "1 streams", "success")).0, "-20.0");
        assert_eq!(verdict(find(&compared, "1 streams", "audio s/s")), "not repeated");
        let text = write(&before, &after, &compared, Style::Markdown);
        assert!(
            text.contains("| 1 streams | without a gap over 100 ms | 100.0 % | 60.0 % | -40.0 |"),
            "{text}"
        );
    }

    #[test]
    fn different_conditions_are_pointed_out() {
        let before = Report::default();
        let after = Report {
            load_seed: 2,
            ..Report::default()
        };
        assert!(warnings(&before, &before).is_empty());
        assert_eq!(warnings(&before, &after), ["the load seeds differ"]);
    }
}
