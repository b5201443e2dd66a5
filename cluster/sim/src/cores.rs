//! Processor cores that everything on a machine shares: each thread advances as fast as its share of them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Work that is done when it has had so much of a core.
#[derive(Debug)]
struct Job<T> {
    /// Nanoseconds of a core that it still needs.
    left: f64,
    then: T,
}

/// Cores, and threads of the kind `L` with their work. A thread does one piece after the other. All that have some get the same share, and no more
/// than one core.
#[derive(Debug)]
pub(crate) struct Cores<L, T> {
    count: f64,
    threads: BTreeMap<L, VecDeque<Job<T>>>,
    /// Until when what they have had is counted.
    counted: Duration,
    /// Changes whenever the time of the next end does.
    version: u64,
}

impl<L: Ord + Copy, T> Cores<L, T> {
    /// So many, with nothing to do.
    pub(crate) fn new(count: f64) -> Self {
        Self {
            count,
            threads: BTreeMap::new(),
            counted: Duration::ZERO,
            version: 0,
        }
    }

    /// Cores that one thread has.
    fn share(&self) -> f64 {
        (self.count / self.threads.len().max(1) as f64).min(1.0)
    }

    fn advance(&mut self, now: Duration) {
        let had = now.saturating_sub(self.counted).as_nanos() as f64 * self.share();
        for job in self.threads.values_mut().filter_map(VecDeque::front_mut) {
            job.left -= had;
        }
        self.counted = self.counted.max(now);
        self.version += 1;
    }

    /// Gives a thread work at `now` that needs a core for `demand`.
    pub(crate) fn take(&mut self, now: Duration, thread: L, demand: Duration, then: T) {
        self.advance(now);
        let left = demand.as_nanos() as f64;
        self.threads
            .entry(thread)
            .or_default()
            .push_back(Job { left, then });
    }

    /// When the next piece of work is done if none comes before, and what to give [`done`](Self::done) then.
    pub(crate) fn next(&self) -> Option<(Duration, u64)> {
        let heads = self.threads.values().filter_map(VecDeque::front);
        let least = heads.map(|job| job.left).min_by(f64::total_cmp)?;
        let wait = (least.max(0.0) / self.share()).ceil();
        Some((self.counted + Duration::from_nanos(wait as u64), self.version))
    }

    /// What is done at `now`; nothing if other work came since `version`.
    pub(crate) fn done(&mut self, now: Duration, version: u64) -> Vec<T> {
        if version != self.version {
            return Vec::new();
        }
        self.advance(now);
        let mut over = Vec::new();
        self.threads.retain(|_, work| {
            if let Some(job) = work.pop_front_if(|job| job.left < 0.5) {
                over.push(job.then);
            }
            !work.is_empty()
        });
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// When each of `work` ends, that comes to a thread at some time and needs some.
    fn ends(cores: f64, work: &[(u8, u64, u64)]) -> Vec<u64> {
        let mut shared = Cores::new(cores);
        let (mut waiting, mut ends) = (work.iter().enumerate().peekable(), vec![0; work.len()]);
        loop {
            let next = shared.next();
            match waiting.peek() {
                Some((_, (_, at, _))) if next.is_none_or(|(end, _)| ms(*at) <= end) => {
                    if let Some((n, (thread, at, needs))) = waiting.next() {
                        shared.take(ms(*at), *thread, ms(*needs), n);
                    }
                }
                _ => {
                    let Some((at, version)) = next else { return ends };
                    for n in shared.done(at, version) {
                        ends[n] = at.as_millis() as u64;
                    }
                }
            }
        }
    }

    #[test]
    fn work_alone_takes_what_it_needs_however_many_cores_there_are() {
        assert_eq!(ends(1.0, &[(0, 5, 10)]), [15]);
        assert_eq!(ends(8.0, &[(0, 5, 10)]), [15]);
    }

    #[test]
    fn threads_that_share_a_core_take_longer_and_one_does_its_work_in_turn() {
        assert_eq!(ends(1.0, &[(0, 0, 10), (1, 0, 10)]), [20, 20]);
        // Alone for 5 ms, and then half of the core each.
        assert_eq!(ends(1.0, &[(0, 0, 10), (1, 5, 10)]), [15, 20]);
        assert_eq!(ends(2.0, &[(0, 0, 10), (1, 0, 10), (2, 0, 10)]), [15, 15, 15]);
        assert_eq!(ends(2.0, &[(0, 0, 10), (0, 0, 10), (1, 0, 10)]), [10, 20, 10]);
    }

    #[test]
    fn an_end_that_other_work_has_put_off_is_none() {
        let mut shared = Cores::new(1.0);
        shared.take(ms(0), 0, ms(10), "first");
        let (at, version) = shared.next().expect("it works");
        shared.take(ms(9), 1, ms(10), "second");
        assert!(shared.done(at, version).is_empty());
        let (at, version) = shared.next().expect("it works");
        assert_eq!((at, shared.done(at, version)), (ms(11), vec!["first"]));
    }
}
