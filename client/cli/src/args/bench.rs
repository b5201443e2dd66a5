//! Arguments of `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs};
use omni_bench::Slo;
use omni_client::Endpoint;

use super::{Access, Server, Voice, duration, end_of};

const HELP: &str = "\
Closed loop (--concurrency): every stream sends its next request when the last one is
answered. Open loop (--rate): requests are due at the times of a Poisson process, and times
count from then, so that requests that had to wait count as slow. Connections are open
already. The figures go to standard output: in columns at a terminal, as Markdown otherwise.

With --chat every stream holds a conversation, and a request is one turn of it; time counts
from the moment the turn was sent.

Examples:
  omni-client bench --concurrency 1,4,16 --requests 64 --html bench.html > bench.md
  omni-client bench --rate 2,5,10 --requests 500 --slo ttfa=300ms,gap=100ms
  omni-client bench --max-streams --slo first-sound=500ms --html knee.html
  omni-client bench --cancel 20% --readers realtime --text-rate 20 --json agent.json
  omni-client bench --chat --concurrency 32 --requests 256
  omni-client bench -n 200 --endpoint http://127.0.0.1:50051 --versus http://127.0.0.1:50052";

#[derive(Debug, ClapArgs)]
#[command(after_help = HELP, after_long_help = end_of("bench", HELP))]
pub(crate) struct Bench {
    /// Measure conversations instead of speech
    #[arg(long)]
    pub(crate) chat: bool,
    /// Turns of a conversation before its stream begins another
    #[arg(long, value_name = "N", default_value_t = 4, requires = "chat")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..), help_heading = "Chat")]
    pub(crate) turns: u32,
    /// Request answers without speech
    #[arg(long, requires = "chat", conflicts_with_all = ["voice", "language"], help_heading = "Chat")]
    pub(crate) text_only: bool,
    /// Longest answer in text tokens [default: the model's]
    #[arg(long, value_name = "N", requires = "chat", help_heading = "Chat")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,
    /// Numbers of concurrent streams, one row of the table each
    #[arg(
        long,
        short,
        value_name = "N,N,...",
        value_delimiter = ',',
        default_value = "1,2,4,8,16",
        help_heading = "Load"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) concurrency: Vec<u32>,
    /// Requests per second, independent of answers (open loop); one row of the table each
    #[arg(long, value_name = "R,R,...", value_delimiter = ',', value_parser = rate, help_heading = "Load")]
    #[arg(conflicts_with_all = ["concurrency", "chat"])]
    pub(crate) rate: Vec<f64>,
    /// Find the most streams, up to N, that are carried: success 99.9 %, without a gap over 100 ms 99 %, p95 within
    /// --slo
    ///
    /// Doubles the number of streams until it is too much, then halves the distance. Every number is given --steady
    /// time and --per-stream requests for each stream.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "256", require_equals = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_024), help_heading = "Load")]
    #[arg(requires = "slo", conflicts_with_all = ["concurrency", "rate", "requests"])]
    pub(crate) max_streams: Option<u32>,
    /// Requests of each stream at every number that --max-streams tries
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        requires = "max_streams",
        help_heading = "Load"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) per_stream: u32,
    /// Least time at every number that --max-streams tries
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration, requires = "max_streams")]
    #[arg(help_heading = "Load")]
    pub(crate) steady: Duration,
    /// Measured requests in each row
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        default_value_t = 64,
        help_heading = "Load"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests: u32,
    /// Unmeasured requests: of every stream before measuring starts, or at the head of an open loop [default: 1, or
    /// 10]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) warmup: Option<u32>,
    /// Seed of arrivals and cancels: the same seed gives the same load
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub(crate) load_seed: u64,
    /// Share of the requests to cancel while they are in progress
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "chat", help_heading = "Load")]
    pub(crate) cancel: Option<f64>,
    /// Time of cancellation, evenly distributed between these times after sending
    #[arg(long, value_name = "TIME..TIME", value_parser = range, default_value = "0.2s..2s", requires = "cancel")]
    #[arg(help_heading = "Load")]
    pub(crate) cancel_after: (f64, f64),
    /// Rate at which clients read audio from the connection
    #[arg(long, value_enum, default_value_t = Readers::Fast, conflicts_with = "chat", help_heading = "Load")]
    pub(crate) readers: Readers,
    /// Send the text word by word, N words per second, as a language model does
    #[arg(long, value_name = "N", value_parser = rate, conflicts_with = "chat", help_heading = "Load")]
    pub(crate) text_rate: Option<f64>,
    /// A text to speak or to say; may be given several times [default: two dozen of many lengths]
    #[arg(long, value_name = "TEXT", action = ArgAction::Append, conflicts_with = "text_file")]
    pub(crate) text: Vec<String>,
    /// A file with one text per line
    #[arg(long, value_name = "FILE")]
    pub(crate) text_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) voice: Voice,
    /// Compare with these servers: the same requests to both sides, one at a time and in turn; --requests says how many
    /// pairs
    #[arg(
        long,
        value_name = "URL,URL,...",
        value_delimiter = ',',
        help_heading = "Comparison"
    )]
    #[arg(conflicts_with_all = ["concurrency", "rate", "max_streams", "cancel", "slo", "json", "html"])]
    pub(crate) versus: Vec<Endpoint>,
    /// Further servers of the first side: of several, none has its place in memory for the whole measurement
    #[arg(long, value_name = "URL,URL,...", value_delimiter = ',', requires = "versus")]
    #[arg(help_heading = "Comparison")]
    pub(crate) beside: Vec<Endpoint>,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Count a request that takes longer as failed
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Latency bounds for goodput, such as ttfa=300ms,first-sound=500ms,ttft=..,tpot=..,rtf=0.9,gap=100ms
    #[arg(long, value_name = "BOUNDS", value_parser = slo, help_heading = "Report")]
    pub(crate) slo: Option<Slo>,
    /// Write every measurement to a file as JSON
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub(crate) json: Option<PathBuf>,
    /// Write a self-contained HTML page with charts
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub(crate) html: Option<PathBuf>,
    /// Style of the printed tables [default: text at a terminal, else markdown]
    #[arg(long, value_enum, value_name = "STYLE", help_heading = "Report")]
    pub(crate) format: Option<Style>,
}

impl Bench {
    pub(super) fn way(&mut self) -> (Vec<&mut Endpoint>, &Access) {
        let others = self.versus.iter_mut().chain(&mut self.beside);
        let endpoints = std::iter::once(&mut self.server.endpoint).chain(others);
        (endpoints.collect(), &self.server.access)
    }
}

/// Style of the printed tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Style {
    /// Aligned columns, at most 100 characters wide
    Text,
    /// Markdown, for documents
    Markdown,
}

impl From<Style> for omni_bench::Style {
    fn from(style: Style) -> Self {
        match style {
            Style::Text => Self::Text,
            Style::Markdown => Self::Markdown,
        }
    }
}

/// Rate at which clients read audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Readers {
    /// As fast as it arrives
    Fast,
    /// No faster than it plays, with one second buffered
    Realtime,
}

fn slo(given: &str) -> Result<Slo, String> {
    Slo::parse(given, duration)
}

/// So many per second.
fn rate(given: &str) -> Result<f64, String> {
    match given.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 10_000.0 => Ok(rate),
        _ => Err("expected a number per second above 0 and at most 10000".to_owned()),
    }
}

/// A share as `20%` or `0.2`.
fn percent(given: &str) -> Result<f64, String> {
    let share = match given.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => given.trim().parse(),
    };
    match share {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a share such as 20% or 0.2".to_owned()),
    }
}

/// Two times in seconds, the earlier first.
fn range(given: &str) -> Result<(f64, f64), String> {
    let times = given.split_once("..").and_then(|(from, to)| {
        let from = if from.trim() == "0" {
            Duration::ZERO
        } else {
            duration(from).ok()?
        };
        Some((from, duration(to).ok()?))
    });
    match times {
        Some((from, to)) if from <= to => Ok((from.as_secs_f64(), to.as_secs_f64())),
        _ => Err("expected two times such as 0.2s..2s, the earlier first".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_rates_and_ranges_read_as_people_write_them() {
        assert_eq!(
            (percent("20%"), percent("0.2"), percent("100 %")),
            (Ok(0.2), Ok(0.2), Ok(1.0))
        );
        assert_eq!(
            (range("0.2s..2s"), range("0..500ms")),
            (Ok((0.2, 2.0)), Ok((0.0, 0.5)))
        );
        assert_eq!(rate("2.5"), Ok(2.5));
        assert!(
            ["", "120%", "-1", "2"]
                .iter()
                .all(|given| percent(given).is_err())
        );
        assert!(
            ["", "2s", "2s..1s", "a..b"]
                .iter()
                .all(|given| range(given).is_err())
        );
        assert!(
            ["", "0", "-1", "inf", "nan", "1e9"]
                .iter()
                .all(|given| rate(given).is_err())
        );
    }
}
