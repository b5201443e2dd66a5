//! Processor cores that everything on a machine shares: threads take turns.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long a thread has a core while others wait for one: a tick of a kernel that has 250 in a second.
const TURN: f64 = 4e6;
/// Nanoseconds that are nothing.
const NOTHING: f64 = 0.5;

/// Work that is done when it has had so much of a core.
#[derive(Debug)]
struct Job<T> {
    /// Nanoseconds of a core that it still needs.
    left: f64,
    then: T,
}

/// A thread that has a core.
#[derive(Debug)]
struct Running<L> {
    thread: L,
    /// Nanoseconds until another one may have the core.
    turn: f64,
}

/// Cores, and threads of the kind `L` with their work. A thread does one piece after the other, on one core at a time. Those that have work and no core
/// wait in the order in which they came; a thread that others wait for gives its core away when its turn is over.
#[derive(Debug)]
pub(crate) struct Cores<L, T> {
    count: usize,
    threads: BTreeMap<L, VecDeque<Job<T>>>,
    running: Vec<Running<L>>,
    ready: VecDeque<L>,
    /// Until when what they have had is counted.
    counted: Duration,
    /// Changes whenever the time of the next event does.
    version: u64,
}

impl<L: Ord + Copy, T> Cores<L, T> {
    /// So many, with nothing to do.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            count,
            threads: BTreeMap::new(),
            running: Vec::new(),
            ready: VecDeque::new(),
            counted: Duration::ZERO,
            version: 0,
        }
    }

    fn advance(&mut self, now: Duration) {
        let had = now.saturating_sub(self.counted).as_nanos() as f64;
        for running in &mut self.running {
            running.turn -= had;
            if self.ready.is_empty() && running.turn < NOTHING {
                // Ticks pass while nothing waits.
                running.turn = running.turn.rem_euclid(TURN);
            }
            if let Some(job) = self
                .threads
                .get_mut(&running.thread)
                .and_then(VecDeque::front_mut)
            {
                job.left -= had;
            }
        }
        self.counted = self.counted.max(now);
        self.version += 1;
    }

    /// Gives free cores to those that wait.
    fn fill(&mut self) {
        while self.running.len() < self.count
            && let Some(thread) = self.ready.pop_front()
        {
            self.running.push(Running { thread, turn: TURN });
        }
    }

    /// Gives a thread work at `now` that needs a core for `demand`.
    pub(crate) fn take(&mut self, now: Duration, thread: L, demand: Duration, then: T) {
        self.advance(now);
        let left = demand.as_nanos() as f64;
        let work = self.threads.entry(thread).or_default();
        work.push_back(Job { left, then });
        if work.len() == 1 {
            self.ready.push_back(thread);
            self.fill();
        }
    }

    /// When the next piece of work is done or a turn ends if no work comes before, and what to give [`done`](Self::done) then.
    pub(crate) fn next(&self) -> Option<(Duration, u64)> {
        let ends = self.running.iter().filter_map(|running| {
            let left = self.threads.get(&running.thread)?.front()?.left;
            Some(match self.ready.is_empty() {
                true => left,
                false => left.min(running.turn),
            })
        });
        let wait = ends.min_by(f64::total_cmp)?.max(0.0).ceil();
        Some((self.counted + Duration::from_nanos(wait as u64), self.version))
    }

    /// What is done at `now`; none if other work came since `version`.
    pub(crate) fn done(&mut self, now: Duration, version: u64) -> Option<Vec<T>> {
        if version != self.version {
            return None;
        }
        self.advance(now);
        let mut over = Vec::new();
        let waited_for = !self.ready.is_empty();
        for mut running in std::mem::take(&mut self.running) {
            let thread = running.thread;
            let Some(work) = self.threads.get_mut(&thread) else {
                continue;
            };
            if let Some(job) = work.pop_front_if(|job| job.left < NOTHING) {
                over.push(job.then);
            }
            if work.is_empty() {
                self.threads.remove(&thread);
            } else if running.turn >= NOTHING {
                self.running.push(running);
            } else if waited_for {
                self.ready.push_back(thread);
            } else {
                running.turn = TURN;
                self.running.push(running);
            }
        }
        self.fill();
        Some(over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// When each of `work` ends, that comes to a thread at some time and needs some.
    fn ends(cores: usize, work: &[(u8, u64, u64)]) -> Vec<u64> {
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
    fn threads_take_turns_of_four_milliseconds_on_a_core_and_one_does_its_work_in_order() {
        assert_eq!(ends(1, &[(0, 0, 10), (1, 0, 10)]), [18, 20]);
        // The second waits for the end of the first one's second turn.
        assert_eq!(ends(1, &[(0, 0, 10), (1, 5, 10)]), [14, 20]);
        assert_eq!(ends(2, &[(0, 0, 10), (1, 0, 10), (2, 0, 10)]), [14, 14, 16]);
        assert_eq!(ends(2, &[(0, 0, 10), (0, 0, 10), (1, 0, 10)]), [10, 20, 10]);
    }

    #[test]
    fn a_little_work_waits_for_a_turn_of_what_has_much_and_no_longer() {
        assert_eq!(ends(1, &[(0, 0, 40), (1, 6, 1), (1, 20, 1)]), [42, 9, 22]);
    }

    #[test]
    fn an_end_that_other_work_has_put_off_is_none() {
        let mut shared = Cores::new(1);
        shared.take(ms(0), 0, ms(10), "first");
        let (at, version) = shared.next().expect("it works");
        shared.take(ms(9), 1, ms(10), "second");
        assert!(shared.done(at, version).is_none());
        let (at, version) = shared.next().expect("it works");
        assert_eq!((at, shared.done(at, version)), (ms(10), Some(vec!["first"])));
    }
}
