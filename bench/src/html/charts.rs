//! Charts, each a function of the points.

use super::chart::{Chart, Line, MARKS};
use super::markup::load_of;
use super::scale::{Axis, Scale};
use crate::figures::{FIRST_SOUND, Figure, TTFA, TTFT};
use crate::level::Point;
use crate::record::THRESHOLDS;
use crate::stats::nth;
use crate::table::Tables;

/// Steps of a distribution that are drawn at most.
const STEPS: usize = 400;

/// Charts in page order.
pub(super) fn charts(tables: &Tables<'_>) -> Vec<Chart> {
    let mut charts = Vec::new();
    let first = if tables.report.spoken { TTFA } else { TTFT };
    charts.extend(distribution(tables, &first));
    charts.push(against_load(tables, &first));
    if tables.report.spoken {
        charts.push(continuity(tables));
        charts.push(throughput(tables));
    }
    charts
}

/// Cumulative distribution of a time at every load.
pub(super) fn distribution(tables: &Tables<'_>, figure: &Figure) -> Option<Chart> {
    let mut lines = Vec::new();
    let mut least = f64::INFINITY;
    let mut most = 0.0_f64;
    for (i, point) in tables.points.iter().enumerate() {
        let mut values: Vec<f64> = point
            .values(figure.value)
            .iter()
            .map(|value| value * figure.scale)
            .collect();
        values.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (values.first(), values.last()) else {
            continue;
        };
        (least, most) = (least.min(low), most.max(high));
        let steps = values.len().min(STEPS);
        let share = |step: usize| (step + 1) as f64 / steps as f64;
        let reached = |step: usize| Some((nth(&values, share(step))?, 100.0 * share(step)));
        lines.push(Line {
            name: load_of(point.offered),
            class: ramp(i, tables.points.len()),
            points: std::iter::once((low, 0.0))
                .chain((0..steps).filter_map(reached))
                .collect(),
            steps: true,
        });
    }
    let least = least.max(0.01);
    (!lines.is_empty()).then(|| Chart {
        title: format!("{}: share of requests that were at most so slow", figure.name),
        x: Axis::new(Scale::log(least, most.max(least * 2.0)), figure.title()),
        y: Axis::new(Scale::linear(0.0, 100.0), "% of requests".to_owned()),
        lines,
        bounds: Vec::new(),
    })
}

/// A class of the ramp of colours for load number `i` of `count`.
fn ramp(i: usize, count: usize) -> String {
    let last = count.saturating_sub(1).max(1);
    format!("r{}", i * 5 / last)
}

fn against_load(tables: &Tables<'_>, figure: &Figure) -> Chart {
    let mut lines: Vec<Line> = [(0.5, "p50"), (0.95, "p95"), (0.99, "p99")]
        .into_iter()
        .zip(MARKS)
        .map(|((share, name), class)| {
            line(tables, &format!("{} {name}", figure.name), class, |point| {
                point
                    .percentile(figure.value, share)
                    .map(|value| value * figure.scale)
            })
        })
        .collect();
    if tables.report.spoken {
        lines.push(line(tables, "first sound p95", MARKS[3], |point| {
            point
                .percentile(FIRST_SOUND.value, 0.95)
                .map(|value| value * FIRST_SOUND.scale)
        }));
    }
    let bound = tables
        .slo
        .first_audio()
        .map(|most| most * 1e3)
        .filter(|_| tables.report.spoken);
    let top = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.1)
        .chain(bound)
        .fold(1.0, f64::max);
    Chart {
        title: format!("{} against load", figure.name),
        x: load_axis(tables),
        y: Axis::new(Scale::up_to(top), figure.title()),
        lines,
        bounds: bound
            .map(|most| (most, format!("promised {most:.0} ms")))
            .into_iter()
            .collect(),
    }
}

fn continuity(tables: &Tables<'_>) -> Chart {
    let of = |(threshold, class): (f64, &'static str)| {
        line(
            tables,
            &format!("within {:.0} ms", threshold * 1e3),
            class,
            move |point| Some(100.0 * point.continuous(threshold)),
        )
    };
    let mut lines: Vec<Line> = THRESHOLDS.into_iter().zip(MARKS).map(of).collect();
    lines.push(line(tables, "good requests", MARKS[3], |point| {
        Some(100.0 * point.success())
    }));
    let least = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.1)
        .fold(100.0, f64::min);
    let from = [90.0, 80.0, 50.0]
        .into_iter()
        .find(|&from| from <= least)
        .unwrap_or(0.0);
    Chart {
        title: "Without a gap against load".to_owned(),
        x: load_axis(tables),
        y: Axis::new(
            Scale::linear(from, 100.0),
            "% of requests without a gap".to_owned(),
        ),
        lines,
        bounds: vec![(99.0, "99 %".to_owned())],
    }
}

fn throughput(tables: &Tables<'_>) -> Chart {
    let mut lines = vec![line(tables, "audio s/s", MARKS[0], |point| {
        Some(point.throughput())
    })];
    if !tables.slo.is_empty() {
        let kept = |point: &Point<'_>| Some(point.goodput(tables.slo).1);
        lines.push(line(tables, "of it within all bounds", MARKS[1], kept));
    }
    let top = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.1)
        .fold(1.0, f64::max);
    Chart {
        title: "Audio produced against load".to_owned(),
        x: load_axis(tables),
        y: Axis::new(Scale::up_to(top), "seconds of audio per second".to_owned()),
        lines,
        bounds: Vec::new(),
    }
}

/// A value of every load that has it.
fn line(tables: &Tables<'_>, name: &str, class: &str, value: impl Fn(&Point<'_>) -> Option<f64>) -> Line {
    let at = |point: &Point<'_>| Some((point.offered.value(), value(point)?));
    Line {
        name: name.to_owned(),
        class: class.to_owned(),
        points: tables.points.iter().filter_map(at).collect(),
        steps: false,
    }
}

/// Load axis with a mark at every measured load.
fn load_axis(tables: &Tables<'_>) -> Axis {
    let loads: Vec<f64> = tables.points.iter().map(|point| point.offered.value()).collect();
    let least = loads.iter().copied().fold(f64::INFINITY, f64::min).max(1e-3);
    let most = loads.iter().copied().fold(0.0, f64::max).max(least);
    let scale = match most / least {
        ratio if ratio >= 8.0 => Scale::log(least, most),
        ratio if ratio > 1.0 => Scale::linear(0.0, most),
        _ => Scale::linear(0.0, most * 2.0),
    };
    let title = tables
        .points
        .first()
        .map_or("streams", |point| point.offered.title());
    let title = if title == "streams" {
        "streams at the same time"
    } else {
        "requests offered per second"
    };
    Axis {
        ticks: loads.iter().map(|&load| (load, format!("{load}"))).collect(),
        ..Axis::new(scale, title.to_owned())
    }
}
