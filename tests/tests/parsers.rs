//! Every parser of outside bytes returns for any input. `make fuzz` runs longer, guided by coverage.
//!
//! `OMNI_INPUTS` sets the inputs per parser (4,000 by default, fewer where one is slow), and `OMNI_INPUTS_SEED` the
//! seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use omni_tests::parsers::{Mutations, PARSERS, Parser};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |number| number.parse().expect("a number"))
}

/// Longest time of an input on any machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// The input that a parser is at, and its number.
type At = Arc<Mutex<(usize, Vec<u8>)>>;

/// The first input at which a parser breaks a rule.
fn broken_by(parser: &Parser, at: &At) -> Option<String> {
    let inputs = number("OMNI_INPUTS", 4_000) as usize;
    let mut mutations = Mutations::new((parser.seeds)(), number("OMNI_INPUTS_SEED", 1));
    for seed in (parser.seeds)() {
        (parser.parse)(&seed);
    }
    for number in 0..inputs / parser.cost {
        let input = mutations.input();
        *at.lock().expect("no holder panics") = (number + 1, input.clone());
        if catch_unwind(AssertUnwindSafe(|| (parser.parse)(&input))).is_err() {
            return Some(told(parser, number, &input));
        }
    }
    None
}

fn told(parser: &Parser, number: usize, input: &[u8]) -> String {
    format!(
        "{}, input {number}: {:?}",
        parser.name,
        input.escape_ascii().to_string()
    )
}

/// A parser at work on a thread of its own, which cannot be ended if it hangs.
struct Search {
    parser: Parser,
    at: At,
    thread: JoinHandle<Option<String>>,
    /// Since when it has been at the input of this number.
    since: (usize, Instant),
}

impl Search {
    fn begin(parser: Parser) -> Self {
        let at = At::default();
        let shown = Arc::clone(&at);
        Self {
            parser,
            at,
            thread: thread::spawn(move || broken_by(&parser, &shown)),
            since: (0, Instant::now()),
        }
    }

    /// Returns true once it has done all inputs; fails if it hangs at one of them.
    fn is_over(&mut self) -> bool {
        if self.thread.is_finished() {
            return true;
        }
        let (number, input) = self.at.lock().expect("no holder panics").clone();
        if number != self.since.0 {
            self.since = (number, Instant::now());
        }
        let hangs = self.since.1.elapsed() > PATIENCE;
        assert!(
            !hangs,
            "no return from {}",
            told(&self.parser, number.saturating_sub(1), &input)
        );
        false
    }
}

#[test]
fn every_parser_takes_whatever_is_nearly_right() {
    let mut searches: Vec<_> = PARSERS.into_iter().map(Search::begin).collect();
    while !searches.iter_mut().all(Search::is_over) {
        thread::sleep(Duration::from_millis(20));
    }
    let found = searches
        .into_iter()
        .filter_map(|search| search.thread.join().expect("seeds are right"));
    let broken: Vec<_> = found.collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
