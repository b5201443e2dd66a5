//! Benchmark figures as tables, with their definitions below.

use super::figures::{Figure, Shape};
use super::grid::{Grid, Style};
use super::level::Level;
use super::record::THRESHOLDS;
use super::report::Report;
use super::slo::Slo;
use super::stats::percentile;

/// Everything that is shown of a benchmark, in any form.
pub(crate) struct Tables<'a> {
    pub(crate) report: &'a Report,
    pub(crate) slo: &'a Slo,
}

impl Tables<'_> {
    pub(crate) fn write(&self, style: Style) -> String {
        let shape = self.report.shape();
        let mut parts = vec![self.overview().write(style), self.spreads().write(style)];
        parts.extend(self.capacity());
        parts.extend(
            shape
                .legend()
                .into_iter()
                .map(|text| format!("{}\n", wrapped(text))),
        );
        parts.push(format!(
            "{}\n",
            wrapped(&format!("Load: {}.", self.report.manner()))
        ));
        parts.join("\n")
    }

    fn shape(&self) -> Shape {
        self.report.shape()
    }

    fn load_title(&self) -> String {
        self.report
            .levels
            .first()
            .map_or("streams", |point| point.offered.title())
            .to_owned()
    }

    /// Counts of requests, failures and goodput.
    pub(crate) fn overview(&self) -> Grid {
        let shape = self.shape();
        let mut grid = Grid::new([self.load_title()]);
        let titles = &mut grid.titles;
        titles.extend(["requests", "good"].map(str::to_owned));
        titles.extend(shape.spoken.then(|| "no audio".to_owned()));
        titles.extend(shape.cancelled.then(|| "cancelled".to_owned()));
        titles.extend(shape.chat.then(|| "tokens/s".to_owned()));
        if shape.spoken {
            titles.extend(["audio s/s", "without a gap over 50 / 100 / 200 ms"].map(str::to_owned));
        }
        if !self.slo.is_empty() {
            titles.extend(["kept", "goodput requests/s"].map(str::to_owned));
            titles.extend(shape.spoken.then(|| "goodput audio s/s".to_owned()));
        }
        grid.rows = self
            .report
            .levels
            .iter()
            .map(|point| self.overview_of(point))
            .collect();
        grid
    }

    fn overview_of(&self, point: &Level) -> Vec<String> {
        let shape = self.shape();
        let good = point.requests.iter().filter(|record| record.good()).count();
        let mut cells = vec![
            point.offered.to_string(),
            point.requests.len().to_string(),
            good.to_string(),
        ];
        cells.extend(shape.spoken.then(|| point.silent().to_string()));
        if shape.cancelled {
            let (chosen, cancelled) = point.cancels();
            cells.push(format!("{} of {chosen}", cancelled.len()));
        }
        cells.extend(shape.chat.then(|| format!("{:.1}", point.token_throughput())));
        if shape.spoken {
            cells.push(format!("{:.1}", point.throughput()));
            let share = |threshold| format!("{:.1} %", 100.0 * point.continuous(threshold));
            cells.push(THRESHOLDS.map(share).join(" / "));
        }
        if !self.slo.is_empty() {
            let (requests, audio) = point.goodput(self.slo);
            cells.push(format!("{:.1} %", 100.0 * point.kept(self.slo)));
            cells.push(format!("{requests:.2}"));
            cells.extend(shape.spoken.then(|| format!("{audio:.1}")));
        }
        cells
    }

    /// Distributions of the figures.
    pub(crate) fn spreads(&self) -> Grid {
        let shape = self.shape();
        let figures = shape.figures();
        let mut grid = Grid::new([self.load_title()]);
        grid.titles.extend(figures.iter().map(Figure::title));
        if shape.spoken {
            grid.titles
                .extend(["chunk interval / playing time", "chunk interval ms"].map(str::to_owned));
        }
        grid.titles
            .extend(shape.cancelled.then(|| "cancel ms".to_owned()));
        for point in &self.report.levels {
            let mut cells = vec![point.offered.to_string()];
            let of =
                |figure: &Figure| distribution(&point.values(figure.value), |value| figure.written(value));
            cells.extend(figures.iter().map(of));
            if shape.spoken {
                let gaps: Vec<(f64, f64)> = point.counting().flat_map(|record| record.gaps()).collect();
                let relative: Vec<f64> = gaps.iter().map(|(waited, covered)| waited / covered).collect();
                let waits: Vec<f64> = gaps.iter().map(|(waited, _)| *waited).collect();
                cells.push(distribution(&relative, |value| format!("{value:.2}")));
                cells.push(distribution(&waits, milliseconds));
            }
            cells.extend(
                shape
                    .cancelled
                    .then(|| distribution(&point.cancels().1, milliseconds)),
            );
            grid.rows.push(cells);
        }
        grid
    }

    /// Result of the search for the most streams.
    fn capacity(&self) -> Option<String> {
        let found = self.report.max_streams.as_ref()?;
        let sure = if found.at_least { "at least " } else { "" };
        let bounds = self.slo;
        let mut text = format!(
            "Most streams: {sure}{} (success at least 99.9 %, without a gap over 100 ms at least 99 %, p95 of {bounds}).\n",
            found.streams
        );
        for step in &found.steps {
            let verdict = match step.complaints.as_slice() {
                [] => "carried".to_owned(),
                complaints => format!("too many: {}", complaints.join("; ")),
            };
            text.push_str(&format!("- {}: {verdict}\n", step.streams));
        }
        Some(text)
    }
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.1}", seconds * 1e3)
}

/// Median, 95th, 99th percentile and maximum.
fn distribution(values: &[f64], written: impl Fn(f64) -> String) -> String {
    [0.5, 0.95, 0.99, 1.0]
        .map(|share| percentile(values, share).map_or_else(|| "-".to_owned(), &written))
        .join(" / ")
}

/// `text` in lines of at most 100 characters.
pub(crate) fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= 100 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::level::tests::{cancelled, failed, level, spoken};
    use super::super::report::Cancelling;
    use super::*;
    use std::time::Duration;

    fn tables(report: &Report, given: &str) -> String {
        let slo = match given {
            "" => Slo::default(),
            given => Slo::parse(given, |_| Ok(Duration::from_millis(250))).unwrap(),
        };
        let tables = Tables { report, slo: &slo };
        tables.write(Style::Markdown)
    }

    fn report() -> Report {
        Report {
            mode: "speak".into(),
            spoken: true,
            levels: vec![level(2, 4.0, vec![spoken(0.1, 0.0), spoken(0.3, 0.12), failed()])],
            ..Report::default()
        }
    }

    #[test]
    fn cells_are_what_the_requests_say() {
        let text = tables(&report(), "");
        assert!(
            text.contains("| 2 | 3 | 2 | 1 | 1.0 | 33.3 % / 33.3 % / 66.7 % |"),
            "{text}"
        );
        assert!(
            text.contains("| 2 | 100.0 / 300.0 / 300.0 / 300.0 | 150.0 / 350.0 / 350.0 / 350.0 |"),
            "{text}"
        );
        // Waited 1.0 and 1.12 s for what plays 1.0 s.
        assert!(
            text.contains("| 1.00 / 1.12 / 1.12 / 1.12 | 1000.0 / 1120.0 / 1120.0 / 1120.0 |"),
            "{text}"
        );
        assert!(!text.contains("goodput"), "{text}");
    }

    #[test]
    fn bounds_and_cancels_have_columns_when_there_are_any() {
        let mut report = report();
        report.cancel = Some(Cancelling::default());
        report.levels[0]
            .requests
            .extend([spoken(0.2, 0.0), cancelled(Some(0.02)), cancelled(None)]);
        let text = tables(&report, "ttfa=250ms");
        // Of six requests five are good; of four to be heard to their end two kept the bound, in four seconds.
        assert!(
            text.contains("| 2 | 6 | 5 | 1 | 1 of 2 |") && text.contains("| 50.0 % | 0.50 | 1.0 |"),
            "{text}"
        );
        assert!(text.contains("| 20.0 / 20.0 / 20.0 / 20.0 |"), "{text}");
        assert!(
            text.contains("Cancel: cancel sent to") && text.contains("Load: closed loop"),
            "{text}"
        );
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        let text = wrapped(&"word ".repeat(100));
        assert!(text.lines().all(|line| line.len() <= 100) && text.split_whitespace().count() == 100);
    }
}
