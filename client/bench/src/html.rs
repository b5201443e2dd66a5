//! A benchmark as a page: one file, charts as inline SVG, no script, nothing fetched; light and dark as the reader has
//! it.

mod charts;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use html_escape::encode_quoted_attribute as escaped;

use super::figures::{TTFA, TTFT};
use super::grid::Grid;
use super::level::{Level, Offered};
use super::report::utc;
use super::table::Tables;

const STYLE: &str = include_str!("html/style.css");

/// The whole page.
pub(crate) fn page(tables: &Tables<'_>) -> String {
    let report = tables.report;
    let what = if report.mode == "chat" {
        "Conversations"
    } else {
        "Speech"
    };
    let mut body = String::new();
    let _ = write!(
        body,
        "<header><h1>{what} under load</h1><p>{}</p></header>\n{}",
        escaped(&subtitle(tables)),
        tiles(tables)
    );
    body.push_str(&charts::charts(tables));
    body.push_str(&table("Requests", &tables.overview()));
    body.push_str(&table("Distributions", &tables.spreads()));
    body.push_str(&capacity(tables));
    body.push_str(&notes(tables));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{what} under load</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

fn subtitle(tables: &Tables<'_>) -> String {
    let report = tables.report;
    let mut parts = Vec::new();
    if let Some(served) = &report.served {
        let named = [&served.model, &served.voice]
            .into_iter()
            .filter(|name| !name.is_empty());
        parts.push(named.map(String::as_str).collect::<Vec<_>>().join(", voice "));
    }
    parts.push(report.manner());
    parts.push(report.machine.line());
    parts.push(utc(report.started_unix_seconds));
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// The answers to the first questions: of the lightest and of the heaviest load.
fn tiles(tables: &Tables<'_>) -> String {
    let spoken = tables.report.spoken;
    let first = if spoken { TTFA } else { TTFT };
    let mut tiles = Vec::new();
    if let Some(found) = &tables.report.max_streams {
        let more = if found.at_least { "≥ " } else { "" };
        tiles.push((format!("{more}{}", found.streams), "streams carried".to_owned()));
    }
    let levels = &tables.report.levels;
    let mut ends: Vec<&Level> = levels.first().into_iter().chain(levels.last()).collect();
    ends.dedup_by_key(|point| point.offered.value());
    for point in ends {
        let load = load_of(point.offered);
        let known = |share| {
            point
                .percentile(first.value, share)
                .map_or_else(|| "-".to_owned(), |v| first.written(v))
        };
        tiles.push((
            format!("{} / {} <small>ms</small>", known(0.5), known(0.95)),
            format!("{} p50 / p95 at {load}", first.name),
        ));
        if spoken {
            let continuous = 100.0 * point.continuous(0.1);
            tiles.push((
                format!("{continuous:.1} <small>%</small>"),
                format!("heard with at most 100 ms of delay at {load}"),
            ));
        }
    }
    let tile = |(value, label): &(String, String)| {
        format!(
            "<div class=\"tile\"><b>{value}</b><span>{}</span></div>\n",
            escaped(label)
        )
    };
    format!(
        "<section class=\"tiles\">\n{}</section>\n",
        tiles.iter().map(tile).collect::<String>()
    )
}

fn load_of(offered: Offered) -> String {
    match offered {
        Offered::Streams(1) => "1 stream".to_owned(),
        _ => format!("{offered} {}", offered.title()),
    }
}

fn table(title: &str, grid: &Grid) -> String {
    let row = |cells: &[String], tag: &str| {
        let cells: String = cells
            .iter()
            // Lines are cut behind a slash, never before one.
            .map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell).replace(" / ", "&nbsp;/ ")))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = grid.rows.iter().map(|cells| row(cells, "td")).collect();
    format!(
        "<section class=\"card\"><h2>{}</h2><div class=\"wide\"><table>\n<thead>{}</thead>\n<tbody>{rows}</tbody>\n\
         </table></div></section>\n",
        escaped(title),
        row(&grid.titles, "th")
    )
}

fn capacity(tables: &Tables<'_>) -> String {
    let Some(found) = &tables.report.max_streams else {
        return String::new();
    };
    let mut grid = Grid::new(["streams", "verdict"]);
    for step in &found.steps {
        let verdict = match step.complaints.as_slice() {
            [] => "carried".to_owned(),
            complaints => format!("too many: {}", complaints.join("; ")),
        };
        grid.rows.push(vec![step.streams.to_string(), verdict]);
    }
    table("The search for the most streams, in the order of trying", &grid)
}

fn notes(tables: &Tables<'_>) -> String {
    let report = tables.report;
    let mut notes: Vec<String> = report.shape().legend().into_iter().map(str::to_owned).collect();
    if !tables.slo.is_empty() {
        notes.push(format!("Bounds: {}.", tables.slo));
    }
    let mut failures: BTreeMap<&str, usize> = BTreeMap::new();
    let requests = report.levels.iter().flat_map(|level| &level.requests);
    for failure in requests.filter_map(|request| request.failure.as_deref()) {
        *failures.entry(failure).or_default() += 1;
    }
    let most = failures.iter().take(10);
    notes.extend(most.map(|(failure, times)| format!("Failed {times} times: {failure}")));
    notes.push(format!(
        "Client {} · omni-client {}",
        report.client_version,
        report.command.join(" ")
    ));
    let notes: String = notes
        .iter()
        .map(|note| format!("<p>{}</p>\n", escaped(note)))
        .collect();
    format!("<section class=\"card notes\"><h2>What this means</h2>\n{notes}</section>\n")
}

#[cfg(test)]
mod tests;
