//! Processor cores that everything on a machine shares: threads take turns.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time for which a thread has a core before one that wakes may take it, in nanoseconds: the kernel's base slice on a
/// few cores.
const SLICE: f64 = 1.4e6;
/// Interval at which a core checks for waiting threads, in nanoseconds: a tick of a kernel that has 250 in a second.
const TICK: f64 = 4e6;
/// Nanoseconds that are nothing.
const NOTHING: f64 = 0.5;

/// Work that is done after a given time on a core.
#[derive(Debug)]
struct Job<T> {
    /// Nanoseconds of a core that it still needs.
    left: f64,
    then: T,
}

/// A thread with work.
#[derive(Debug)]
struct Busy<T> {
    work: VecDeque<Job<T>>,
    /// Nanoseconds of a core that it has had, as if it had never slept: those that work at once are to have equally much.
    had: f64,
    /// Time at which it got the core that it has.
    since: Option<f64>,
    /// In which order it came, where two have had equally much.
    order: u64,
}

/// Cores, and threads of the kind `L` with their work. A thread does one piece after the other, on one core at a time. Of those that have work and no core the one that has had
/// the least comes next. One that wakes takes the core of a thread that has had it for a slice, and so do those that wait at the next tick.
#[derive(Debug)]
pub(crate) struct Cores<L, T> {
    count: usize,
    threads: BTreeMap<L, Busy<T>>,
    order: u64,
    /// Time up to which work done is accounted, in nanoseconds.
    counted: f64,
    /// Changes whenever the time of the next event does.
    version: u64,
}

impl<L: Ord + Copy, T> Cores<L, T> {
    /// `count` idle cores.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            count,
            threads: BTreeMap::new(),
            order: 0,
            counted: 0.0,
            version: 0,
        }
    }

    fn advance(&mut self, now: Duration) {
        let now = now.as_nanos() as f64;
        let passed = (now - self.counted).max(0.0);
        for busy in self.threads.values_mut().filter(|busy| busy.since.is_some()) {
            busy.had += passed;
            if let Some(job) = busy.work.front_mut() {
                job.left -= passed;
            }
        }
        self.counted = self.counted.max(now);
        self.version += 1;
    }

    fn running(&self) -> usize {
        self.threads.values().filter(|busy| busy.since.is_some()).count()
    }

    /// The one of those that wait which has had the least.
    fn next_waiting(&self) -> Option<(L, f64)> {
        let waiting = self.threads.iter().filter(|(_, busy)| busy.since.is_none());
        let least = waiting.min_by(|(_, a), (_, b)| a.had.total_cmp(&b.had).then(a.order.cmp(&b.order)));
        least.map(|(thread, busy)| (*thread, busy.had))
    }

    /// The one of those that have had their core for a slice which has had the most.
    fn first_to_give(&self) -> Option<(L, f64)> {
        let served = |busy: &Busy<T>| {
            busy.since
                .is_some_and(|since| self.counted - since >= SLICE - NOTHING)
        };
        let running = self.threads.iter().filter(|(_, busy)| served(busy));
        let most = running.max_by(|(_, a), (_, b)| a.had.total_cmp(&b.had).then(b.order.cmp(&a.order)));
        most.map(|(thread, busy)| (*thread, busy.had))
    }

    fn start(&mut self, thread: L) {
        let now = self.counted;
        if let Some(busy) = self.threads.get_mut(&thread) {
            busy.since = Some(now);
        }
    }

    fn stop(&mut self, thread: L) {
        self.order += 1;
        if let Some(busy) = self.threads.get_mut(&thread) {
            busy.since = None;
            busy.order = self.order;
        }
    }

    /// Gives free cores to those that wait.
    fn fill(&mut self) {
        while self.running() < self.count
            && let Some((thread, _)) = self.next_waiting()
        {
            self.start(thread);
        }
    }

    /// Moves a core from a thread that has used up its slice to a waiting one that has used no more.
    fn pass_on(&mut self) {
        while let (Some((first, had)), Some((served, most))) = (self.next_waiting(), self.first_to_give())
            && had <= most
        {
            self.stop(served);
            self.start(first);
        }
    }

    /// Gives a thread work at `now` that needs a core for `demand`.
    pub(crate) fn take(&mut self, now: Duration, thread: L, demand: Duration, then: T) {
        self.advance(now);
        let job = Job {
            left: demand.as_nanos() as f64,
            then,
        };
        if let Some(busy) = self.threads.get_mut(&thread) {
            busy.work.push_back(job);
            return;
        }
        self.order += 1;
        // Sleep earns nothing, and costs nothing.
        let all = self.threads.len().max(1) as f64;
        let had = self.threads.values().map(|busy| busy.had).sum::<f64>() / all;
        let busy = Busy {
            work: VecDeque::from([job]),
            had,
            since: None,
            order: self.order,
        };
        self.threads.insert(thread, busy);
        self.fill();
        self.pass_on();
    }

    /// Next time at which a piece of work ends or a core is given to another thread if no work comes before, and the
    /// argument of [`done`](Self::done) then.
    pub(crate) fn next(&self) -> Option<(Duration, u64)> {
        let left = |busy: &Busy<T>| busy.since.and(busy.work.front()).map(|job| job.left);
        let ends = self.threads.values().filter_map(left);
        let mut wait = ends.min_by(f64::total_cmp)?.max(0.0).ceil();
        if self.running() < self.threads.len() {
            wait = wait.min(TICK - self.counted.rem_euclid(TICK));
        }
        let at = Duration::from_nanos((self.counted + wait) as u64);
        Some((at, self.version))
    }

    /// Work that is done at `now`; none if other work came since `version`.
    pub(crate) fn done(&mut self, now: Duration, version: u64) -> Option<Vec<T>> {
        if version != self.version {
            return None;
        }
        self.advance(now);
        let mut over = Vec::new();
        self.threads.retain(|_, busy| {
            if busy.since.is_some()
                && let Some(job) = busy.work.pop_front_if(|job| job.left < NOTHING)
            {
                over.push(job.then);
            }
            !busy.work.is_empty()
        });
        self.fill();
        if self.counted.rem_euclid(TICK) < NOTHING {
            self.pass_on();
        }
        Some(over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// End of each of `work`, which comes to a thread at some time and needs some.
    fn ends(cores: usize, work: &[(u8, u64, u64)]) -> Vec<u64> {
        let mut shared = Cores::new(cores);
        let mut waiting = work.iter().enumerate().peekable();
        let mut ends = vec![0; work.len()];
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
                    for n in shared.done(at, version).expect("nothing came since") {
                        ends[n] = at.as_millis() as u64;
                    }
                }
            }
        }
    }

    #[test]
    fn work_alone_takes_what_it_needs_however_many_cores_there_are() {
        assert_eq!(ends(1, &[(0, 5, 10)]), [15]);
        assert_eq!(ends(8, &[(0, 5, 10)]), [15]);
    }

    #[test]
    fn threads_that_have_much_to_do_change_at_ticks_and_one_does_its_work_in_order() {
        assert_eq!(ends(1, &[(0, 0, 10), (1, 0, 10)]), [18, 20]);
        assert_eq!(ends(2, &[(0, 0, 10), (0, 0, 10), (1, 0, 10)]), [10, 20, 10]);
        assert_eq!(ends(2, &[(0, 0, 10), (1, 0, 10), (2, 0, 10)]), [14, 16, 14]);
    }

    #[test]
    fn a_thread_that_wakes_has_a_core_at_once_that_another_has_had_for_a_slice() {
        assert_eq!(ends(1, &[(0, 0, 40), (1, 6, 1), (1, 20, 1)]), [42, 7, 21]);
        // A millisecond is no slice yet: the next tick is waited for.
        assert_eq!(ends(1, &[(0, 0, 40), (1, 1, 1)]), [41, 5]);
    }

    #[test]
    fn of_those_that_wait_the_one_that_has_had_the_least_comes_first() {
        // The second takes the core at 6 and gives it back at 8. The third comes at 9, and at 12 it has had less than the second.
        assert_eq!(ends(1, &[(0, 0, 20), (1, 6, 3), (2, 9, 1)]), [24, 14, 13]);
    }

    #[test]
    fn an_end_that_other_work_has_put_off_is_none() {
        let mut shared = Cores::new(1);
        shared.take(ms(0), 0, ms(10), "first");
        let (at, version) = shared.next().expect("it works");
        shared.take(ms(9), 1, ms(10), "second");
        assert!(shared.done(at, version).is_none());
        // The second has the core until the tick at 12, and the first needs one more millisecond.
        let (tick, version) = shared.next().expect("it works");
        assert_eq!((tick, shared.done(tick, version)), (ms(12), Some(Vec::new())));
        let (at, version) = shared.next().expect("it works");
        assert_eq!((at, shared.done(at, version)), (ms(13), Some(vec!["first"])));
    }
}
