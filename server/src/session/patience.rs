//! How long a session waits for its caller, its reader and its own end.

use omni_engine::Stamp;

use super::limits::SessionLimits;
use crate::error::ServeError;

/// What a session waits for, and since when.
#[derive(Debug)]
pub(super) struct Patience {
    limits: SessionLimits,
    deadline: Option<Stamp>,
    born: Stamp,
    /// When the caller, the reader or the work last did something.
    active: Stamp,
    /// Since when the reader has something to take; it starts anew with everything it takes.
    offered: Option<Stamp>,
}

/// Something that is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Deadline,
    Age,
    Idle,
    Stall,
}

impl Patience {
    pub(super) fn new(limits: SessionLimits, deadline: Option<Stamp>, now: Stamp) -> Self {
        Self {
            limits,
            deadline,
            born: now,
            active: now,
            offered: None,
        }
    }

    /// Something happened.
    pub(super) fn active(&mut self, now: Stamp) {
        self.active = now;
    }

    /// The reader has taken something.
    pub(super) fn taken(&mut self, now: Stamp) {
        self.active = now;
        self.offered = None;
    }

    /// Whether there is something for the reader.
    pub(super) fn offer(&mut self, something: bool, now: Stamp) {
        match something {
            true => _ = self.offered.get_or_insert(now),
            false => self.offered = None,
        }
    }

    /// What is due next; its age does not matter to a session that is `closing`.
    pub(super) fn next(&self, closing: bool) -> (Stamp, Due) {
        let last = match self.offered {
            None => (self.active + self.limits.idle_timeout, Due::Idle),
            Some(since) => (since + self.limits.stall_timeout, Due::Stall),
        };
        let age = (!closing).then(|| (self.born + self.limits.max_age, Due::Age));
        let deadline = self.deadline.map(|at| (at, Due::Deadline));
        age.into_iter().chain(deadline).fold(last, std::cmp::min)
    }

    /// What a session ends with for it.
    pub(super) fn over(&self, due: Due) -> ServeError {
        match due {
            Due::Deadline => ServeError::DeadlineExceeded,
            Due::Age => ServeError::SessionMaxAge(self.limits.max_age),
            Due::Idle => ServeError::SessionIdle(self.limits.idle_timeout),
            Due::Stall => ServeError::SlowReader(self.limits.stall_timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const fn at(seconds: u64) -> Stamp {
        Stamp(Duration::from_secs(seconds))
    }

    fn patience(deadline: Option<Stamp>) -> Patience {
        let limits = SessionLimits {
            idle_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(5),
            max_age: Duration::from_secs(100),
            ..SessionLimits::default()
        };
        Patience::new(limits, deadline, at(0))
    }

    #[test]
    fn a_reader_that_takes_something_is_waited_for_anew() {
        let mut patience = patience(None);
        assert_eq!(patience.next(false), (at(10), Due::Idle));
        patience.offer(true, at(3));
        patience.offer(true, at(4));
        assert_eq!(patience.next(false), (at(8), Due::Stall));
        patience.taken(at(6));
        patience.offer(true, at(6));
        assert_eq!(patience.next(false), (at(11), Due::Stall));
        patience.offer(false, at(7));
        assert_eq!(patience.next(false), (at(16), Due::Idle));
    }

    #[test]
    fn age_and_deadline_end_what_is_never_idle() {
        let mut patience = patience(Some(at(200)));
        patience.active(at(95));
        assert_eq!(patience.next(false), (at(100), Due::Age));
        assert_eq!(patience.next(true), (at(105), Due::Idle));
        patience.active(at(195));
        assert_eq!(patience.next(true), (at(200), Due::Deadline));
    }
}
