//! The charts of the page, as inline SVG: each a function of the points.

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::{escaped, load_of};
use crate::figures::{FIRST_SOUND, Figure, TTFA, TTFT};
use crate::level::Level;
use crate::record::{Chunk, Record, THRESHOLDS};
use crate::stats::nth;
use crate::table::Tables;

type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Colours that are told apart on light and on dark cards.
const COLOURS: [RGBColor; 4] = [
    RGBColor(0x2f, 0x80, 0xcc),
    RGBColor(0xd0, 0x79, 0x1f),
    RGBColor(0xcf, 0x40, 0x7c),
    RGBColor(0x6b, 0x97, 0x2c),
];
/// Of the lightest and of the heaviest load; loads between them have colours between them.
const RAMP: [RGBColor; 2] = [RGBColor(0x8e, 0xc5, 0xf0), RGBColor(0x1f, 0x5a, 0xa0)];
const BOUND: RGBColor = RGBColor(0xdc, 0x3c, 0x46);
/// Axes and lines of the grid; the style sheet gives them the colours of the page.
const GRID: RGBColor = RGBColor(0x80, 0x80, 0x80);
const WIDE: u32 = 1_130;
const SIZE: (u32, u32) = (560, 300);
/// Steps of a distribution that are drawn at most.
const STEPS: usize = 400;
/// Requests that are drawn at most, a row each.
const ROWS: usize = 40;

/// All charts, in the order of the page.
pub(super) fn charts(tables: &Tables<'_>) -> String {
    let first = if tables.report.spoken { TTFA } else { TTFT };
    let mut charts = vec![distribution(tables, &first), Some(against_load(tables, &first))];
    if tables.report.spoken {
        charts.extend([Some(continuity(tables)), Some(throughput(tables))]);
    }
    let small: String = charts.iter().flatten().map(Chart::html).collect();
    let arrivals = tables.report.levels.last().and_then(arrivals).unwrap_or_default();
    format!("<section class=\"charts\">\n{small}</section>\n{arrivals}")
}

/// A line or, without dots, the steps of a distribution.
#[derive(Debug)]
pub(super) struct Line {
    name: String,
    colour: RGBColor,
    pub(super) points: Vec<(f64, f64)>,
    steps: bool,
}

/// Lines over two axes.
#[derive(Debug)]
pub(super) struct Chart {
    title: String,
    x: Axis,
    y: Axis,
    pub(super) lines: Vec<Line>,
    /// A height that was promised, and its name.
    bound: Option<(f64, String)>,
}

#[derive(Debug)]
struct Axis {
    title: String,
    from: f64,
    to: f64,
    /// Logarithmic.
    log: bool,
    /// Places of the marks of a logarithmic axis; none if it chooses them.
    ticks: Vec<f64>,
}

impl Chart {
    fn html(&self) -> String {
        let key: String = self
            .lines
            .iter()
            .map(|line| key(line.colour, "", &line.name))
            .collect();
        let drawn = svg(SIZE, &self.title, |area| {
            let mut builder = ChartBuilder::on(area);
            builder.margin(10).x_label_area_size(40).y_label_area_size(52);
            let x = self.x.from..self.x.to;
            let y = self.y.from..self.y.to;
            let ticks = self.x.ticks.clone();
            match (self.x.log, ticks.is_empty()) {
                (true, true) => self.draw(builder.build_cartesian_2d(x.log_scale(), y)?),
                (true, false) => {
                    self.draw(builder.build_cartesian_2d(x.log_scale().with_key_points(ticks), y)?)
                }
                (false, _) => self.draw(builder.build_cartesian_2d(x, y)?),
            }
        });
        card(&self.title, &key, &drawn)
    }

    fn draw<X>(&self, mut chart: ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, RangedCoordf64>>) -> Drawn
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let number = |value: &f64| format!("{}", (value * 1e3).round() / 1e3);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .max_light_lines(0)
            .bold_line_style(GRID.mix(0.25))
            .axis_style(GRID)
            .x_labels(8)
            .y_labels(6)
            .x_label_formatter(&number)
            .y_label_formatter(&number)
            .x_desc(&self.x.title)
            .y_desc(&self.y.title)
            .draw()?;
        for line in &self.lines {
            let style = line.colour.stroke_width(2);
            if line.steps {
                let corners = line
                    .points
                    .windows(2)
                    .flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
                chart.draw_series(LineSeries::new(corners.chain(line.points.last().copied()), style))?;
            } else {
                let points = line.points.iter().copied();
                chart.draw_series(LineSeries::new(points.clone(), style).point_size(0))?;
                chart.draw_series(points.map(|point| Circle::new(point, 4, line.colour.filled())))?;
            }
        }
        if let Some((height, name)) = &self.bound {
            let ends = [(self.x.from, *height), (self.x.to, *height)];
            chart.draw_series(DashedLineSeries::new(ends, 5, 4, BOUND.stroke_width(1)))?;
            let style = ("sans-serif", 12).into_font().color(&BOUND);
            // Above the line unless that is the top of the chart.
            let up = if *height > self.y.from + 0.9 * (self.y.to - self.y.from) {
                4
            } else {
                -15
            };
            let place = (self.x.from, *height);
            chart.draw_series([EmptyElement::at(place) + Text::new(name.clone(), (8, up), style)])?;
        }
        Ok(())
    }
}

/// A chart as SVG in which `draw` has drawn.
fn svg((width, height): (u32, u32), title: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
    let drawn = draw(&area).and_then(|()| area.present());
    drop(area);
    if let Err(error) = drawn {
        return format!("<p>cannot be drawn: {}</p>", escaped(&error.to_string()));
    }
    let labelled = format!("<svg role=\"img\" aria-label=\"{}\"", escaped(title));
    // Inline, it needs no name space and has the width of its card.
    text.replacen(
        &format!("<svg width=\"{width}\" height=\"{height}\""),
        &labelled,
        1,
    )
    .replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1)
}

fn card(title: &str, key: &str, svg: &str) -> String {
    let title = escaped(title);
    format!("<figure class=\"card\"><h2>{title}</h2><ul class=\"key\">{key}</ul>\n{svg}</figure>\n")
}

fn key(RGBColor(r, g, b): RGBColor, class: &str, name: &str) -> String {
    let name = escaped(name);
    format!("<li><i class=\"{class}\" style=\"background:#{r:02x}{g:02x}{b:02x}\"></i>{name}</li>")
}

/// Cumulative distribution of a time at every load.
pub(super) fn distribution(tables: &Tables<'_>, figure: &Figure) -> Option<Chart> {
    let mut lines = Vec::new();
    let mut least = f64::INFINITY;
    let mut most = 0.0_f64;
    let last = tables.report.levels.len().saturating_sub(1).max(1);
    for (i, point) in tables.report.levels.iter().enumerate() {
        let mut values: Vec<f64> = point.values(|record| Some((figure.value)(record)? * figure.scale));
        values.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (values.first(), values.last()) else {
            continue;
        };
        least = least.min(low);
        most = most.max(high);
        let steps = values.len().min(STEPS);
        let share = |step: usize| (step + 1) as f64 / steps as f64;
        let reached = |step: usize| Some((nth(&values, share(step))?, 100.0 * share(step)));
        lines.push(Line {
            name: load_of(point.offered),
            colour: between(i as f64 / last as f64),
            points: std::iter::once((low, 0.0))
                .chain((0..steps).filter_map(reached))
                .collect(),
            steps: true,
        });
    }
    let least = least.max(0.01);
    (!lines.is_empty()).then(|| Chart {
        title: format!("{}: share of requests that were at most so slow", figure.name),
        x: Axis {
            title: figure.title(),
            from: least,
            to: most.max(least * 2.0),
            log: true,
            ticks: Vec::new(),
        },
        y: Axis::linear("% of requests", 0.0, 100.0),
        lines,
        bound: None,
    })
}

/// A colour of the ramp.
fn between(share: f64) -> RGBColor {
    let [RGBColor(r, g, b), RGBColor(to_r, to_g, to_b)] = RAMP;
    let mix = |from: u8, to: u8| (f64::from(from) + share * (f64::from(to) - f64::from(from))).round() as u8;
    RGBColor(mix(r, to_r), mix(g, to_g), mix(b, to_b))
}

fn against_load(tables: &Tables<'_>, figure: &Figure) -> Chart {
    let spoken = tables.report.spoken;
    let mut lines: Vec<Line> = [(0.5, "p50"), (0.95, "p95"), (0.99, "p99")]
        .into_iter()
        .zip(COLOURS)
        .map(|((share, name), colour)| {
            line(tables, &format!("{} {name}", figure.name), colour, |point| {
                Some(point.percentile(figure.value, share)? * figure.scale)
            })
        })
        .collect();
    if spoken {
        lines.push(line(tables, "first sound p95", COLOURS[3], |point| {
            Some(point.percentile(FIRST_SOUND.value, 0.95)? * FIRST_SOUND.scale)
        }));
    }
    let promised = tables.slo.first_audio().filter(|_| spoken).map(|most| most * 1e3);
    let top = highest(&lines, promised);
    Chart {
        title: format!("{} against load", figure.name),
        x: load_axis(tables),
        y: Axis::linear(&figure.title(), 0.0, top),
        lines,
        bound: promised.map(|most| (most, format!("promised {most:.0} ms"))),
    }
}

fn continuity(tables: &Tables<'_>) -> Chart {
    let of = |(threshold, colour): (f64, RGBColor)| {
        let name = format!("within {:.0} ms", threshold * 1e3);
        line(tables, &name, colour, move |point| {
            Some(100.0 * point.continuous(threshold))
        })
    };
    let mut lines: Vec<Line> = THRESHOLDS.into_iter().zip(COLOURS).map(of).collect();
    lines.push(line(tables, "good requests", COLOURS[3], |point| {
        Some(100.0 * point.success())
    }));
    let heights = lines.iter().flat_map(|line| &line.points).map(|at| at.1);
    let least = heights.fold(100.0, f64::min);
    let from = [90.0, 80.0, 50.0].into_iter().find(|&from| from <= least);
    Chart {
        title: "Without a gap against load".to_owned(),
        x: load_axis(tables),
        y: Axis::linear("% of requests without a gap", from.unwrap_or(0.0), 100.0),
        lines,
        bound: Some((99.0, "99 %".to_owned())),
    }
}

fn throughput(tables: &Tables<'_>) -> Chart {
    let mut lines = vec![line(tables, "audio s/s", COLOURS[0], |point| {
        Some(point.throughput())
    })];
    if !tables.slo.is_empty() {
        lines.push(line(tables, "of it within all bounds", COLOURS[1], |point| {
            Some(point.goodput(tables.slo).1)
        }));
    }
    Chart {
        title: "Audio produced against load".to_owned(),
        x: load_axis(tables),
        y: Axis::linear("seconds of audio per second", 0.0, highest(&lines, None)),
        lines,
        bound: None,
    }
}

/// A value of every load that has it.
fn line(tables: &Tables<'_>, name: &str, colour: RGBColor, value: impl Fn(&Level) -> Option<f64>) -> Line {
    let at = |point: &Level| Some((point.offered.value(), value(point)?));
    Line {
        name: name.to_owned(),
        colour,
        points: tables.report.levels.iter().filter_map(at).collect(),
        steps: false,
    }
}

/// The top of an axis from zero on, with some room above all heights.
fn highest(lines: &[Line], bound: Option<f64>) -> f64 {
    let heights = lines.iter().flat_map(|line| &line.points).map(|at| at.1);
    1.08 * heights.chain(bound).fold(1.0, f64::max)
}

impl Axis {
    fn linear(title: &str, from: f64, to: f64) -> Self {
        Self {
            title: title.to_owned(),
            from,
            to,
            log: false,
            ticks: Vec::new(),
        }
    }
}

/// Load axis with a mark at every measured load.
fn load_axis(tables: &Tables<'_>) -> Axis {
    let ticks: Vec<f64> = tables
        .report
        .levels
        .iter()
        .map(|level| level.offered.value())
        .collect();
    let least = ticks.iter().copied().fold(f64::INFINITY, f64::min).max(1e-3);
    let most = ticks.iter().copied().fold(0.0, f64::max).max(least);
    let streams = tables
        .report
        .levels
        .first()
        .is_none_or(|level| level.offered.title() == "streams");
    let title = if streams {
        "streams at the same time"
    } else {
        "requests offered per second"
    };
    let log = most / least >= 8.0;
    let (from, to) = match (log, most > least) {
        (true, _) => (least * 0.9, most * 1.1),
        (false, true) => (0.0, most * 1.05),
        (false, false) => (0.0, most * 2.0),
    };
    Axis {
        log,
        ticks,
        ..Axis::linear(title, from, to)
    }
}

/// Arrival times of the audio of single requests, a row each; an even sample if there are many.
fn arrivals(point: &Level) -> Option<String> {
    let spoken: Vec<&Record> = point
        .requests
        .iter()
        .filter(|record| !record.chunks.is_empty())
        .collect();
    let rows = spoken.len().min(ROWS);
    if rows == 0 {
        return None;
    }
    let chosen: Vec<&Record> = (0..rows).map(|row| spoken[row * spoken.len() / rows]).collect();
    let mut title = format!("When audio came, at {}", load_of(point.offered));
    if rows < spoken.len() {
        title.push_str(&format!(", {rows} of {} requests", spoken.len()));
    }
    let playing = RGBColor(0xa9, 0xc8, 0xee);
    let keys = [
        (GRID, "", "until the first audio"),
        (playing, "block", "playing"),
        (RAMP[1], "", "a chunk arrives"),
        (BOUND, "block", "a listener without a buffer hears nothing"),
    ];
    let end = chosen
        .iter()
        .map(|record| playing_until(record))
        .fold(0.1, f64::max);
    let drawn = svg((WIDE, 60 + 11 * rows as u32), &title, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .x_label_area_size(40)
            .build_cartesian_2d(0.0..end, rows as f64..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .max_light_lines(0)
            .bold_line_style(GRID.mix(0.25))
            .axis_style(GRID)
            .x_desc("seconds since the request was sent")
            .draw()?;
        for (row, record) in chosen.iter().enumerate() {
            let top = row as f64 + 0.2;
            let bar = |from: f64, to: f64, colour: RGBColor| {
                Rectangle::new([(from, top), (to, top + 0.6)], colour.filled())
            };
            let first = record.chunks.first().map_or(0.0, |chunk| chunk.0);
            let waiting = PathElement::new([(0.0, top + 0.3), (first, top + 0.3)], GRID);
            chart.draw_series([waiting])?;
            chart.draw_series([bar(first, playing_until(record), playing)])?;
            chart.draw_series(record.stalls().into_iter().map(|(from, to)| bar(from, to, BOUND)))?;
            chart.draw_series(record.chunks.iter().map(|&Chunk(arrived, _)| {
                PathElement::new([(arrived, top), (arrived, top + 0.6)], RAMP[1])
            }))?;
        }
        Ok(())
    });
    let key: String = keys
        .iter()
        .map(|&(colour, class, name)| key(colour, class, name))
        .collect();
    Some(card(&title, &key, &drawn))
}

/// Time at which a player that waits whenever it runs dry has played everything.
fn playing_until(record: &Record) -> f64 {
    let first = record.chunks.first().map_or(0.0, |chunk| chunk.0);
    let audio: f64 = record.chunks.iter().map(|chunk| chunk.1).sum();
    let silent: f64 = record.stalls().iter().map(|(from, to)| to - from).sum();
    first + audio + silent
}
