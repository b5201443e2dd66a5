//! The figures of a benchmark as Markdown.

use std::fmt::Write as _;

use omni_client::ChunkGap;

use super::load::Work;
use super::record::{Level, Request, THRESHOLDS, percentile};

const LEGEND: &str = "\
Cells of the second table: p50 / p95 / p99 / max, over the good requests. Percentiles are exact (nearest rank).
";

const SPEECH_LEGEND: &str = "
TTFA: first text sent to first audio received. Audible: plus the silence at the head of the audio (up to the first 5 ms
window from which the RMS stays at 5 % of the peak for 20 ms). RTF: first text sent to last audio received, over audio
seconds. Busy RTF: the server's own steps over audio seconds, steps shared between streams counted in full for each.
Continuity: share of all requests that a player which starts with the first chunk and never pauses hears with at most
that much delay (a request of a single chunk counts as continuous, one without audio does not). Gap: time between
chunks, over the playing time of the earlier one. Chunk wait: that time itself.
";

const CHAT_LEGEND: &str = "
A request is one turn of a conversation that is already open; its time counts from the moment the turn was sent (\"first
text sent\" above). TTFT: until the first text of the answer was received. TPOT: from there to the last text, over the
tokens behind the first. tokens/s: text tokens of all streams over the time of the level.
";

/// A column that shows how one value is distributed.
struct Spread {
    title: &'static str,
    scale: f64,
    digits: usize,
    value: fn(&Request) -> Option<f64>,
}

const TEXT: [Spread; 2] = [
    Spread {
        title: "TTFT ms",
        scale: 1e3,
        digits: 1,
        value: |request| Some(request.first_text?.as_secs_f64()),
    },
    Spread {
        title: "TPOT ms",
        scale: 1e3,
        digits: 2,
        value: Request::time_per_token,
    },
];

const SPEECH: [Spread; 5] = [
    Spread {
        title: "TTFA ms",
        scale: 1e3,
        digits: 1,
        value: |request| Some(request.measured.as_ref()?.first_audio?.as_secs_f64()),
    },
    Spread {
        title: "audible ms",
        scale: 1e3,
        digits: 1,
        value: |request| Some(request.measured.as_ref()?.audible_first_audio?.as_secs_f64()),
    },
    Spread {
        title: "RTF",
        scale: 1.0,
        digits: 4,
        value: |request| request.measured.as_ref()?.real_time_factor,
    },
    Spread {
        title: "busy RTF",
        scale: 1.0,
        digits: 4,
        value: |request| request.done.as_ref()?.busy_real_time_factor(),
    },
    Spread {
        title: "worst underrun ms",
        scale: 1e3,
        digits: 1,
        value: |request| Some(request.measured.as_ref()?.continuity.worst().as_secs_f64()),
    },
];

/// Two tables and their legend.
pub(super) fn markdown(levels: &[Level], work: &Work) -> String {
    let shape = Shape::of(work);
    let mut text = format!("{}\n{}\n{LEGEND}", shape.overview(levels), shape.spreads(levels));
    if shape.spoken {
        text.push_str(SPEECH_LEGEND);
    }
    if shape.chat {
        text.push_str(CHAT_LEGEND);
    }
    text
}

/// Which columns there are.
struct Shape {
    chat: bool,
    spoken: bool,
}

impl Shape {
    fn of(work: &Work) -> Self {
        Self {
            chat: matches!(work, Work::Chat { .. }),
            spoken: work.spoken(),
        }
    }

    fn overview(&self, levels: &[Level]) -> String {
        let mut titles = vec!["streams", "requests", "good"];
        titles.extend(self.spoken.then_some("no audio"));
        titles.extend(self.chat.then_some("tokens/s"));
        if self.spoken {
            titles.extend(["audio s/s", "continuity 50 / 100 / 200 ms"]);
        }
        let mut text = header(&titles);
        for level in levels {
            let _ = writeln!(text, "| {} |", self.overview_of(level).join(" | "));
        }
        text
    }

    fn overview_of(&self, level: &Level) -> Vec<String> {
        let mut cells = vec![
            level.streams.to_string(),
            level.requests.len().to_string(),
            level.good().count().to_string(),
        ];
        if self.spoken {
            let silent = level.requests.iter().filter(|request| request.measured.is_none());
            cells.push(silent.count().to_string());
        }
        if self.chat {
            cells.push(format!("{:.1}", level.token_throughput()));
        }
        if self.spoken {
            cells.push(format!("{:.1}", level.throughput()));
            let share = |threshold| format!("{:.1} %", 100.0 * level.continuous(threshold));
            cells.push(THRESHOLDS.map(share).join(" / "));
        }
        cells
    }

    /// Every cell: median, 95th, 99th percentile and maximum.
    fn spreads(&self, levels: &[Level]) -> String {
        let text = TEXT.iter().filter(|_| self.chat);
        let columns: Vec<&Spread> = text.chain(SPEECH.iter().filter(|_| self.spoken)).collect();
        let mut titles = vec!["streams"];
        titles.extend(columns.iter().map(|spread| spread.title));
        if self.spoken {
            titles.extend(["gap", "chunk wait ms"]);
        }
        let mut text = header(&titles);
        for level in levels {
            let cell =
                |spread: &&Spread| distribution(&level.values(spread.value), spread.scale, spread.digits);
            let mut cells = vec![level.streams.to_string()];
            cells.extend(columns.iter().map(cell));
            if self.spoken {
                let relative = gaps(level, |gap| gap.waited.div_duration_f64(gap.covered));
                let waits = gaps(level, |gap| gap.waited.as_secs_f64());
                cells.extend([distribution(&relative, 1.0, 2), distribution(&waits, 1e3, 1)]);
            }
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text
    }
}

fn header(titles: &[&str]) -> String {
    format!("| {} |\n|{}\n", titles.join(" | "), "--:|".repeat(titles.len()))
}

/// `value` of every gap between two chunks of a request.
fn gaps(level: &Level, value: impl Fn(&ChunkGap) -> f64) -> Vec<f64> {
    let measured = level.good().filter_map(|request| request.measured.as_ref());
    measured.flat_map(|measured| &measured.gaps).map(value).collect()
}

fn distribution(values: &[f64], scale: f64, digits: usize) -> String {
    let shown = [0.5, 0.95, 0.99, 1.0].map(|share| {
        percentile(values, share)
            .map_or_else(|| "-".to_owned(), |value| format!("{:.digits$}", value * scale))
    });
    shown.join(" / ")
}
