//! Timeouts of a session: for its caller, its reader and its own end.

use std::time::Duration;

use omni_engine::Stamp;

use super::error::SessionTimeout;
use super::limits::SessionLimits;

/// Timers of a session.
#[derive(Debug)]
pub(super) struct SessionTimeouts {
    limits: SessionLimits,
    deadline: Option<Stamp>,
    born: Stamp,
    /// Time of the last activity of the caller, the reader or the work.
    active: Stamp,
    /// Time since which the reader has something to take. A taken event advances it by the time that it takes to hear
    /// or to read, so that a reader is late only if it is slower than that.
    offered: Option<Stamp>,
}

/// Time that a reader is granted for text, or for anything but audio.
pub(super) const READING: Duration = Duration::from_secs(1);

/// Longest time that a call takes to arrive here.
const UNDER_WAY: Duration = Duration::from_millis(250);

/// A timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Deadline,
    Age,
    Idle,
    Stall,
}

impl SessionTimeouts {
    pub(super) fn new(limits: SessionLimits, deadline: Option<Stamp>, now: Stamp) -> Self {
        Self {
            limits,
            deadline,
            born: now,
            active: now,
            offered: None,
        }
    }

    /// Records activity.
    pub(super) fn active(&mut self, now: Stamp) {
        self.active = now;
    }

    /// Records that the reader has taken an event that takes `time` to hear or to read.
    pub(super) fn taken(&mut self, time: Duration, now: Stamp) {
        self.active = now;
        self.offered = self.offered.map(|since| (since + time).min(now));
    }

    /// Records if there is something for the reader.
    pub(super) fn offer(&mut self, something: bool, now: Stamp) {
        if something {
            _ = self.offered.get_or_insert(now);
        } else {
            self.offered = None;
        }
    }

    /// Next timeout; the age of a session that is `closing` does not count.
    pub(super) fn next(&self, closing: bool) -> (Stamp, Due) {
        let last = match self.offered {
            None => (self.active + self.limits.idle_timeout, Due::Idle),
            Some(since) => (since + self.limits.stall_timeout, Due::Stall),
        };
        let age = (!closing).then(|| (self.born + self.limits.max_age, Due::Age));
        let deadline = self.deadline.map(|at| (at, Due::Deadline));
        age.into_iter().chain(deadline).fold(last, std::cmp::min)
    }

    /// Returns true if its deadline has passed, or passes by the clock of the caller, which began to run before the
    /// call came here.
    pub(super) fn is_at_deadline(&self, now: Stamp) -> bool {
        self.deadline.is_some_and(|at| at <= now + UNDER_WAY)
    }

    /// Error with which a session ends at this timeout.
    pub(super) fn over(&self, due: Due) -> SessionTimeout {
        match due {
            Due::Deadline => SessionTimeout::Deadline,
            Due::Age => SessionTimeout::MaxAge(self.limits.max_age),
            Due::Idle => SessionTimeout::Idle(self.limits.idle_timeout),
            Due::Stall => SessionTimeout::SlowReader(self.limits.stall_timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Stamp {
        Stamp(Duration::from_secs(seconds))
    }

    fn timeouts(deadline: Option<Stamp>) -> SessionTimeouts {
        let limits = SessionLimits {
            idle_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(5),
            max_age: Duration::from_secs(100),
            ..SessionLimits::default()
        };
        SessionTimeouts::new(limits, deadline, at(0))
    }

    #[test]
    fn a_reader_is_waited_for_longer_by_what_it_takes() {
        let mut timeouts = timeouts(None);
        assert_eq!(timeouts.next(false), (at(10), Due::Idle));
        timeouts.offer(true, at(3));
        timeouts.offer(true, at(4));
        assert_eq!(timeouts.next(false), (at(8), Due::Stall));
        timeouts.taken(Duration::from_secs(2), at(6));
        timeouts.offer(true, at(6));
        assert_eq!(timeouts.next(false), (at(10), Due::Stall));
        // A reader is never ahead of time, for any amount taken.
        timeouts.taken(Duration::from_secs(60), at(7));
        assert_eq!(timeouts.next(false), (at(12), Due::Stall));
        timeouts.offer(false, at(8));
        assert_eq!(timeouts.next(false), (at(17), Due::Idle));
    }

    #[test]
    fn a_reader_as_fast_as_the_sound_is_kept_and_a_slower_one_is_let_go() {
        let due = |every: u64, takes: u64| {
            let mut timeouts = timeouts(None);
            (0..40)
                .map(|n| at(n * every))
                .take_while(|now| {
                    timeouts.offer(true, *now);
                    let keeps = timeouts.next(true).0 > *now;
                    timeouts.taken(Duration::from_secs(takes), *now);
                    keeps
                })
                .count()
        };
        assert_eq!(due(2, 2), 40);
        // A second late with every piece, and five seconds of stall_timeout.
        assert_eq!(due(2, 1), 4);
        assert_eq!(due(4, 1), 2);
    }

    #[test]
    fn a_pause_of_the_caller_does_not_count_as_one_of_the_reader() {
        let mut timeouts = timeouts(None);
        for second in [0, 8, 16] {
            timeouts.offer(true, at(second));
            assert_eq!(timeouts.next(false), (at(second + 5), Due::Stall));
            timeouts.taken(Duration::from_secs(1), at(second));
            timeouts.offer(false, at(second));
            assert_eq!(timeouts.next(false), (at(second + 10), Due::Idle));
        }
    }

    #[test]
    fn age_and_deadline_end_what_is_never_idle() {
        let mut timeouts = timeouts(Some(at(200)));
        timeouts.active(at(95));
        assert_eq!(timeouts.next(false), (at(100), Due::Age));
        assert_eq!(timeouts.next(true), (at(105), Due::Idle));
        timeouts.active(at(195));
        assert_eq!(timeouts.next(true), (at(200), Due::Deadline));
    }

    #[test]
    fn a_caller_that_leaves_when_its_deadline_passes_has_not_gone_away() {
        let never = timeouts(None);
        let timeouts = timeouts(Some(at(20)));
        assert!(!timeouts.is_at_deadline(at(19)));
        assert!(timeouts.is_at_deadline(Stamp(Duration::from_millis(19_900))));
        assert!(timeouts.is_at_deadline(at(21)));
        assert!(!never.is_at_deadline(at(21)));
    }
}
