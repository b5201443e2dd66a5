//! Paired comparison: the same request to a server of each side in turn.
//!
//! One request at a time, so that neither side is measured while the other works. The side that begins alternates,
//! and so does, over the rounds through the texts, the server of a side. Intervals are bootstrapped over pairs (Efron
//! 1979, percentile method).

use omni_client::{Client, Endpoint};

use super::caller::{Answered, Asking, Caller};
use super::error::BenchError;
use super::grid::{Grid, Style};
use super::measurement::Failures;
use super::random::Random;
use super::record::Record;
use super::stats::{Interval, nth};
use super::table::wrapped;

/// Samples of the bootstrap.
const RESAMPLES: usize = 10_000;

/// The servers of the two sides, at least one each.
#[derive(Debug, Clone)]
pub struct Sides {
    /// Servers of the first side.
    pub these: Vec<Endpoint>,
    /// Servers of the second side.
    pub those: Vec<Endpoint>,
}

/// Requests as both sides answered them.
#[derive(Debug)]
pub struct Pairs(Vec<Pair>);

impl Pairs {
    /// The comparison as a table, with definitions below.
    pub fn table(&self, style: Style) -> String {
        let mut grid = Grid::new(TITLES);
        for (title, value) in MEASURES {
            let good = |pair: &&Pair| pair.records().iter().all(|record| record.good());
            let times: Vec<_> = self
                .0
                .iter()
                .filter(good)
                .filter_map(|pair| Some((value(&pair.these)?, value(&pair.those)?)))
                .collect();
            grid.rows.extend(row(title, &times));
        }
        format!("{}\n{}\n", grid.write(style), wrapped(LEGEND))
    }

    /// The requests that failed, of either side; `None` if none did.
    pub fn failures(&self) -> Option<Failures> {
        Failures::of(self.0.iter().flat_map(Pair::records))
    }
}

/// One request as both sides answered it.
#[derive(Debug)]
struct Pair {
    these: Answered,
    those: Answered,
}

impl Pair {
    fn records(&self) -> [&Record; 2] {
        [&self.these.record, &self.those.record]
    }
}

/// Turn of request `number`, of which even and odd ones begin with other sides. Every one of the texts comes to be
/// first on either side: an odd count of them changes places by itself, an even one by a step more in every round.
fn turn(number: usize, texts: usize) -> usize {
    if texts.is_multiple_of(2) {
        number + number / texts
    } else {
        number
    }
}

/// Sends `pairs` requests to both sides, after `warmup` requests to every server. `progress` is called with the name
/// of the phase, its requests done and its total.
///
/// # Errors
/// If a server cannot be reached.
pub async fn pairs(
    asking: &Asking,
    sides: &Sides,
    warmup: u32,
    pairs: u32,
    progress: impl Fn(&str, u32, u32),
) -> Result<Pairs, BenchError> {
    let servers = (sides.these.len() + sides.those.len()) as u32;
    progress("servers are connected", 0, servers);
    let mut these = callers(asking, &sides.these).await?;
    let mut those = callers(asking, &sides.those).await?;
    for (server, caller) in these.iter_mut().chain(&mut those).enumerate() {
        for number in 0..warmup {
            let done = warmup.saturating_mul(server as u32).saturating_add(number);
            progress("requests to warm up", done, warmup.saturating_mul(servers));
            caller.request(number, None).await;
        }
        caller.hang_up().await;
    }
    let mut measured = Vec::new();
    for number in 0..pairs {
        progress("pairs", number, pairs);
        let turn = turn(number as usize, asking.texts.len());
        let this = turn % these.len();
        let that = turn % those.len();
        let this = &mut these[this];
        let that = &mut those[that];
        let pair = if turn.is_multiple_of(2) {
            Pair {
                these: this.request(number, None).await,
                those: that.request(number, None).await,
            }
        } else {
            Pair {
                those: that.request(number, None).await,
                these: this.request(number, None).await,
            }
        };
        measured.push(pair);
    }
    for caller in these.iter_mut().chain(&mut those) {
        caller.hang_up().await;
    }
    Ok(Pairs(measured))
}

async fn callers<'a>(asking: &'a Asking, endpoints: &[Endpoint]) -> Result<Vec<Caller<'a>>, BenchError> {
    let mut callers = Vec::new();
    for endpoint in endpoints {
        callers.push(Caller::new(asking, Client::connect(endpoint).await?));
    }
    Ok(callers)
}

const LEGEND: &str = "Pairs of the same request, one after the other. Differences are the second side's from the first's, in percent: \
    of the two medians, and the median of what each pair differs by; behind them the 95 % interval of the bootstrap over pairs.";

const TITLES: [&str; 6] = [
    "",
    "pairs",
    "first side, median ms",
    "second side, median ms",
    "difference of medians",
    "median difference",
];

type Measure = fn(&Answered) -> Option<f64>;

const MEASURES: [(&str, Measure); 3] = [
    ("whole request", |answered| {
        Some((answered.end - answered.sent).as_secs_f64())
    }),
    ("first text", |answered| {
        answered.record.time_to_first_text_seconds
    }),
    ("first audio", |answered| {
        answered.record.time_to_first_audio_seconds
    }),
];

fn row(title: &str, times: &[(f64, f64)]) -> Option<Vec<String>> {
    let (these, those): (Vec<_>, Vec<_>) = times.iter().copied().unzip();
    let milliseconds = |values| Some(format!("{:.3}", 1e3 * median(values)?));
    Some(vec![
        title.to_owned(),
        times.len().to_string(),
        milliseconds(these)?,
        milliseconds(those)?,
        percent(estimate(times, of_medians)?),
        percent(estimate(times, of_pairs)?),
    ])
}

fn percent(share: Interval) -> String {
    let Interval { value, low, high } = share;
    format!(
        "{:+.2} ({:+.2} to {:+.2})",
        100.0 * value,
        100.0 * low,
        100.0 * high
    )
}

/// A figure of pairs, with its bootstrap interval.
fn estimate(times: &[(f64, f64)], figure: fn(&[(f64, f64)]) -> Option<f64>) -> Option<Interval> {
    let value = figure(times)?;
    let mut random = Random::new(0);
    let mut drawn: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let again = times.iter().map(|_| times[random.below(times.len())]);
            figure(&again.collect::<Vec<_>>())
        })
        .collect();
    drawn.sort_by(f64::total_cmp);
    Some(Interval {
        value,
        low: nth(&drawn, 0.025)?,
        high: nth(&drawn, 0.975)?,
    })
}

/// Relative difference of the two medians.
fn of_medians(times: &[(f64, f64)]) -> Option<f64> {
    let (these, those): (Vec<_>, Vec<_>) = times.iter().copied().unzip();
    Some(median(those)? / median(these)? - 1.0)
}

/// Median of the relative differences of the pairs.
fn of_pairs(times: &[(f64, f64)]) -> Option<f64> {
    median(times.iter().map(|(this, that)| that / this - 1.0).collect())
}

/// The middle, or the mean of the two in the middle; `None` of nothing.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2).copied()?;
    match values.len() % 2 {
        0 => Some((values[values.len() / 2 - 1] + upper) / 2.0),
        _ => Some(upper),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_asked_by_either_side_first() {
        for texts in 1..6 {
            for text in 0..texts {
                let turns = (0..4).map(|round| turn(round * texts + text, texts) % 2);
                let odd: usize = turns.sum();
                assert_eq!(odd, 2, "text {text} of {texts}");
            }
        }
    }

    /// Requests of very different lengths; on one side all take longer by a factor, within 1 %.
    fn times(longer: f64) -> Vec<(f64, f64)> {
        let mut random = Random::new(7);
        let lengths = (0..200).map(|pair| f64::from(10 + pair % 24));
        lengths
            .map(|length| {
                let mut noisy = |length: f64| length * random.between(0.99, 1.01);
                (noisy(length), noisy(length * longer))
            })
            .collect()
    }

    #[test]
    fn medians_are_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn a_difference_is_found_and_the_interval_holds_it() {
        let times = times(1.01);
        let found = estimate(&times, of_pairs).unwrap();
        assert!(found.excludes(0.0) && !found.excludes(0.01), "{found:?}");
        assert!((found.low..=found.high).contains(&found.value) && found.high < 0.02);
        let wide = estimate(&times, of_medians).unwrap();
        assert!(!wide.excludes(0.01), "{wide:?}");
    }

    #[test]
    fn without_a_difference_the_interval_holds_none() {
        for figure in [of_medians, of_pairs] {
            let found = estimate(&times(1.0), figure).unwrap();
            assert!(!found.excludes(0.0), "{found:?}");
        }
    }

    #[test]
    fn a_row_says_both_medians_and_their_difference() {
        let row = row("first audio", &[(0.010, 0.011), (0.020, 0.022), (0.030, 0.033)]).unwrap();
        assert_eq!(row[..4], ["first audio", "3", "20.000", "22.000"]);
        assert!(
            row[4].starts_with("+10.00 (") && row[5].starts_with("+10.00 ("),
            "{row:?}"
        );
        assert_eq!(super::row("first text", &[]), None);
    }
}
