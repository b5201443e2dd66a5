//! Search for the most streams that a server carries: the criteria, and the next number to try.

use super::level::Level;
use super::slo::Slo;

/// Least share of requests with a good end.
const SUCCESS: f64 = 0.999;
/// Least share of requests that play without a gap.
const CONTINUOUS: f64 = 0.99;
/// The buffer of the player that judges that, in seconds.
const BUFFER: f64 = 0.1;
/// Share of requests that must keep each bound.
const KEEP: f64 = 0.95;

/// Violated criteria; empty if the load was carried.
pub(crate) fn complaints(point: &Level, slo: &Slo) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut at_least = |what: &str, share: f64, least: f64| {
        if share < least {
            complaints.push(format!("{what} {:.2} % < {} %", share * 100.0, least * 100.0));
        }
    };
    at_least("success", point.success(), SUCCESS);
    at_least("without a gap over 100 ms", point.continuous(BUFFER), CONTINUOUS);
    for bound in slo.bounds() {
        match point.percentile(|record| bound.of(record), KEEP) {
            Some(value) if value <= bound.most() => {}
            Some(value) => complaints.push(format!(
                "{} p95 {} > {}",
                bound.name(),
                bound.written(value),
                bound.written(bound.most())
            )),
            None => complaints.push(format!("{}: nothing to measure", bound.name())),
        }
    }
    complaints
}

/// Doubles until a load is too much, then halves the distance. Assumes that what carries a load carries less too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search {
    most: u32,
    /// Largest number known to be carried.
    carried: u32,
    /// Smallest known to be too much.
    too_much: Option<u32>,
}

impl Search {
    /// Among 1 to `most`.
    pub(crate) fn new(most: u32) -> Self {
        Self {
            most,
            carried: 0,
            too_much: None,
        }
    }

    /// Next number to try; `None` when the result is known.
    pub(crate) fn next(&self) -> Option<u32> {
        match self.too_much {
            Some(too_much) if too_much - self.carried <= 1 => None,
            Some(too_much) => Some(self.carried + (too_much - self.carried) / 2),
            None if self.carried == self.most => None,
            None => Some(self.carried.saturating_mul(2).clamp(1, self.most)),
        }
    }

    /// Records the result of a try.
    pub(crate) fn tell(&mut self, streams: u32, carried: bool) {
        if carried {
            self.carried = self.carried.max(streams);
        } else {
            self.too_much = Some(self.too_much.map_or(streams, |known| known.min(streams)));
        }
    }

    /// The highest load carried, and `true` if no higher one was left to try.
    pub(crate) fn found(&self) -> (u32, bool) {
        (self.carried, self.too_much.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::super::level::tests::{failed, level, spoken};
    use super::*;
    use std::time::Duration;

    fn search(most: u32, capacity: u32) -> (u32, Vec<u32>) {
        let mut search = Search::new(most);
        let mut tried = Vec::new();
        while let Some(streams) = search.next() {
            tried.push(streams);
            search.tell(streams, streams <= capacity);
        }
        (search.found().0, tried)
    }

    #[test]
    fn every_capacity_is_found_in_few_tries() {
        for most in [1, 2, 7, 64, 100] {
            for capacity in 0..=most {
                let (found, tried) = search(most, capacity);
                assert_eq!(found, capacity, "{tried:?}");
                assert!(tried.len() <= 14, "{tried:?}");
            }
        }
        assert_eq!(search(64, 11).1, [1, 2, 4, 8, 16, 12, 10, 11]);
    }

    #[test]
    fn what_is_too_much_is_said() {
        let slo = Slo::parse("first-sound=300ms", |_| Ok(Duration::from_millis(300))).unwrap();
        let good = level(1, 1.0, vec![spoken(0.1, 0.0); 100]);
        assert!(complaints(&good, &slo).is_empty());
        let mut requests = vec![spoken(0.1, 0.0); 90];
        requests.extend(vec![spoken(0.4, 0.2); 9]);
        requests.push(failed());
        let bad = level(1, 1.0, requests);
        assert_eq!(
            complaints(&bad, &slo),
            [
                "success 99.00 % < 99.9 %",
                "without a gap over 100 ms 90.00 % < 99 %",
                "first-sound p95 450.0 ms > 300.0 ms"
            ]
        );
        let none = level(1, 1.0, vec![failed()]);
        assert!(complaints(&none, &slo)[2].contains("nothing to measure"));
    }
}
