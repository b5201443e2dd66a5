//! Arrival times of the audio of single requests: a row each.

use std::fmt::Write as _;

use super::markup::{escaped, load_of};
use super::scale::{Axis, Scale};
use crate::level::Point;
use crate::record::{Chunk, Record};

/// Rows that are drawn at most.
const ROWS: usize = 40;
const WIDTH: f64 = 1_130.0;
const LEFT: f64 = 12.0;
const ROW: f64 = 11.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 40.0;

/// The requests with audio of a point's last trial, evenly chosen if they are many; nothing if there are none.
pub(super) fn html(point: &Point<'_>) -> String {
    let trial = point.trials.last().map_or(&[][..], |level| &level.requests);
    let spoken: Vec<&Record> = trial.iter().filter(|record| !record.chunks.is_empty()).collect();
    if spoken.is_empty() {
        return String::new();
    }
    let rows = chosen(&spoken);
    let of = if rows.len() == spoken.len() {
        String::new()
    } else {
        format!(", {} of {} requests", rows.len(), spoken.len())
    };
    format!(
        "<figure class=\"card\"><h2>When audio came, at {}{of}</h2><ul class=\"key\">\
         <li><i class=\"waitkey\"></i>until the first audio</li>\
         <li><i class=\"barkey block\"></i>playing</li><li><i class=\"comekey\"></i>a chunk arrives</li>\
         <li><i class=\"bad block\"></i>a listener without a buffer hears nothing</li></ul>\n{}</figure>\n",
        escaped(&load_of(point.offered)),
        svg(&rows)
    )
}

fn chosen<'r>(records: &[&'r Record]) -> Vec<&'r Record> {
    let rows = records.len().min(ROWS);
    (0..rows).map(|row| records[row * records.len() / rows]).collect()
}

fn svg(rows: &[&Record]) -> String {
    let end = rows
        .iter()
        .map(|record| playing_until(record))
        .fold(0.1, f64::max);
    let axis = Axis::new(
        Scale::linear(0.0, end),
        "seconds since the request was sent".to_owned(),
    );
    let at = |seconds: f64| LEFT + axis.scale.position(seconds) * (WIDTH - 2.0 * LEFT);
    let bottom = TOP + rows.len() as f64 * ROW;
    let height = bottom + BOTTOM;
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"arrival of audio\">\n");
    for (value, text) in &axis.ticks {
        let x = at(*value);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            bottom + 15.0
        );
    }
    for (i, record) in rows.iter().enumerate() {
        row(&mut svg, record, TOP + i as f64 * ROW, at);
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n</svg>",
        WIDTH / 2.0,
        height - 6.0,
        axis.title
    );
    svg
}

fn row(svg: &mut String, record: &Record, top: f64, at: impl Fn(f64) -> f64) {
    let first = record.chunks.first().map_or(0.0, |chunk| chunk.0);
    let middle = top + ROW / 2.0;
    let thick = ROW - 4.0;
    let mut bar = |class: &str, from: f64, to: f64| {
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{thick}\"/>",
            at(from),
            top + 2.0,
            (at(to) - at(from)).max(0.5)
        );
    };
    bar("play", first, playing_until(record));
    for (from, to) in record.stalls() {
        bar("stall", from, to);
    }
    let _ = write!(
        svg,
        "<line class=\"wait\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/><path class=\"come\" d=\"",
        at(0.0),
        at(first)
    );
    for Chunk(arrived, _) in &record.chunks {
        let _ = write!(svg, "M{:.1} {:.1}v{thick}", at(*arrived), top + 2.0);
    }
    svg.push_str("\"/>\n");
}

/// End of playback, in seconds, by a player that waits whenever it runs dry.
fn playing_until(record: &Record) -> f64 {
    let first = record.chunks.first().map_or(0.0, |chunk| chunk.0);
    let audio: f64 = record.chunks.iter().map(|chunk| chunk.1).sum();
    let silent: f64 = record.stalls().iter().map(|(from, to)| to - from).sum();
    first + audio + silent
}

#[cfg(test)]
mod tests {
    use super::super::super::level::tests::{failed, level, spoken};
    use super::*;

    #[test]
    fn rows_show_arrivals_playback_and_silence() {
        // Arrives at 0.5 and 2.5, plays 1 s each: silent from 1.5 to 2.5, over at 3.5.
        let record = Record {
            chunks: vec![Chunk(0.5, 1.0), Chunk(2.5, 1.0)],
            ..Record::default()
        };
        assert!((playing_until(&record) - 3.5).abs() < 1e-9);
        let mut row_svg = String::new();
        row(&mut row_svg, &record, 0.0, |seconds| seconds * 100.0);
        assert!(
            row_svg.contains("<rect class=\"play\" x=\"50.0\" y=\"2.0\" width=\"300.0\""),
            "{row_svg}"
        );
        assert!(
            row_svg.contains("<rect class=\"stall\" x=\"150.0\" y=\"2.0\" width=\"100.0\""),
            "{row_svg}"
        );
        assert!(row_svg.contains("d=\"M50.0 2.0v7M250.0 2.0v7\""), "{row_svg}");
    }

    #[test]
    fn many_requests_are_thinned_evenly_and_silent_ones_left_out() {
        let level = level(2, 1, 1.0, vec![failed()]);
        assert_eq!(html(&Point::new(vec![&level])), "");
        let records: Vec<Record> = (0..100).map(|i| spoken(f64::from(i), 0.0)).collect();
        let all: Vec<&Record> = records.iter().collect();
        let rows = chosen(&all);
        assert_eq!(
            (rows.len(), rows[1].chunks[0].0, rows[39].chunks[0].0),
            (40, 2.0, 97.0)
        );
    }
}
