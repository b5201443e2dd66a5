//! Rate at which places become free, and the expected wait that follows from it.
//!
//! Only time in which every place was taken counts: the intervals between two places that became free. They are
//! averaged with a weight that covers every place about twice, for places that were taken together become free
//! together.

use std::time::Duration;

use omni_engine::Stamp;

/// Answer while nothing is known.
pub(super) const UNKNOWN: Duration = Duration::from_secs(1);
/// The shortest and the longest time after which trying again is proposed.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));

/// Running average.
#[derive(Debug)]
pub(super) struct Pace {
    /// Intervals that a new one weighs as much as, at most.
    memory: u32,
    /// Intervals before which no rate is reported.
    least: u32,
    seen: u32,
    /// In seconds.
    mean: f64,
    /// Start of the current interval: every place was taken, or one last changed hands.
    since: Option<Stamp>,
}

impl Pace {
    /// Creates the pace of `places` places.
    pub(super) fn new(places: usize) -> Self {
        let places = u32::try_from(places).unwrap_or(u32::MAX);
        Self {
            memory: places.saturating_mul(2).clamp(16, 1024),
            least: places.clamp(4, 64),
            seen: 0,
            mean: 0.0,
            since: None,
        }
    }

    /// Records that the last free place was taken.
    pub(super) fn full(&mut self, now: Stamp) {
        self.since = Some(now);
    }

    /// Records that a place became free; `taken` if it is taken again at once.
    pub(super) fn freed(&mut self, now: Stamp, taken: bool) {
        if let Some(since) = self.since {
            self.seen = self.seen.saturating_add(1);
            let weight = f64::from(self.seen.min(self.memory));
            self.mean += (now.since(since).as_secs_f64() - self.mean) / weight;
        }
        self.since = taken.then_some(now);
    }

    /// Expected wait of a request with `ahead` others before it; `None` as long as too little is known.
    pub(super) fn wait(&self, ahead: usize, now: Stamp) -> Option<Duration> {
        self.wait_after(self.least, ahead, now)
    }

    /// The same from any number of intervals: for a queue that stands, where a wrong guess costs less than another
    /// admission.
    pub(super) fn rough_wait(&self, ahead: usize, now: Stamp) -> Option<Duration> {
        self.wait_after(1, ahead, now)
    }

    fn wait_after(&self, least: u32, ahead: usize, now: Stamp) -> Option<Duration> {
        let interval = self.interval(least, now)?;
        let wait = interval * (ahead as f64 + 1.0);
        Some(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }

    /// Time after which a request that was refused with `ahead` others before it would be admitted, where none may
    /// wait longer than `longest`.
    pub(super) fn retry(&self, ahead: usize, longest: Duration, now: Stamp) -> Duration {
        let retry = match (self.wait(ahead, now), self.wait(0, now)) {
            (Some(wait), Some(next)) => wait.saturating_sub(longest).max(next),
            _ => UNKNOWN,
        };
        retry.clamp(RETRY.0, RETRY.1)
    }

    /// An interval in progress that is longer than the mean counts as if it ended now.
    fn interval(&self, least: u32, now: Stamp) -> Option<f64> {
        if self.seen < least {
            return None;
        }
        let lasts = self.since.map_or(0.0, |since| now.since(since).as_secs_f64());
        Some(self.mean + (lasts - self.mean).max(0.0) / f64::from(self.memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Stamp {
        Stamp(Duration::from_millis(ms))
    }

    /// Pace of one place, held for 200 ms each time.
    fn steady() -> Pace {
        let mut pace = Pace::new(1);
        pace.full(at(0));
        for n in 1..=8 {
            pace.freed(at(200 * n), true);
        }
        pace
    }

    #[test]
    fn a_wait_is_the_time_of_all_that_are_ahead() {
        let pace = steady();
        let now = at(1_600);
        assert_eq!(pace.wait(0, now), Some(Duration::from_millis(200)));
        assert_eq!(pace.wait(9, now), Some(Duration::from_secs(2)));
        let longest = Duration::from_secs(1);
        assert_eq!(pace.retry(9, longest, now), Duration::from_secs(1));
        assert_eq!(pace.retry(4, longest, now), Duration::from_millis(200));
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        let mut pace = Pace::new(2);
        for n in 0..20 {
            // Never full: this says nothing about how fast places become free when they are short.
            pace.freed(at(n), false);
        }
        assert_eq!(pace.wait(3, at(20)), None);
        assert_eq!(pace.retry(3, Duration::ZERO, at(20)), UNKNOWN);
    }

    #[test]
    fn a_queue_that_stands_is_judged_by_the_first_place_that_became_free() {
        let mut pace = Pace::new(16);
        pace.full(at(0));
        assert_eq!(pace.rough_wait(9, at(100)), None);
        pace.freed(at(100), true);
        assert_eq!(pace.wait(9, at(100)), None);
        assert_eq!(pace.rough_wait(9, at(100)), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_place_that_never_becomes_free_makes_the_wait_longer() {
        let pace = steady();
        let then = pace.wait(0, at(1_600)).unwrap();
        let later = pace.wait(0, at(60_000)).unwrap();
        assert!(later > then * 10, "{then:?} {later:?}");
    }

    #[test]
    fn places_that_are_taken_together_count_as_many_and_not_as_one() {
        let mut pace = Pace::new(8);
        pace.full(at(0));
        for round in 1..=10 {
            for _ in 0..8 {
                pace.freed(at(1_000 * round), true);
            }
        }
        let wait = pace.wait(7, at(10_000)).unwrap();
        assert!((0.5..2.0).contains(&wait.as_secs_f64()), "{wait:?}");
    }
}
