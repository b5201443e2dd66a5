//! Delay before a replica that died is rebuilt.

use std::time::Duration;

use omni_engine::Stamp;

use crate::settings::Restart;

/// Doubles the wait with every failure in a row. Reads no clock.
#[derive(Debug)]
pub(super) struct Backoff {
    policy: Restart,
    /// The last wait, if there was a failure that is not forgotten yet.
    last: Option<Duration>,
    up_since: Option<Stamp>,
}

impl Backoff {
    pub(super) fn new(policy: Restart) -> Self {
        Self {
            policy,
            last: None,
            up_since: None,
        }
    }

    /// Records that it works, or works again.
    pub(super) fn up(&mut self, now: Stamp) {
        self.up_since = Some(now);
    }

    /// Records a failure; returns the wait before the next attempt.
    pub(super) fn down(&mut self, now: Stamp) -> Duration {
        let up_since = self.up_since.take();
        if up_since.is_some_and(|since| now.since(since) >= self.policy.healthy_after) {
            self.last = None;
        }
        let doubled = self
            .last
            .map_or(self.policy.first_delay, |last| last.saturating_mul(2));
        let wait = doubled.min(self.policy.max_delay);
        self.last = Some(wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn backoff() -> Backoff {
        Backoff::new(Restart {
            first_delay: ms(100),
            max_delay: ms(500),
            healthy_after: ms(10_000),
        })
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut backoff = backoff();
        let waits: Vec<_> = (0..4).map(|n| backoff.down(Stamp(ms(n)))).collect();
        assert_eq!(waits, [ms(100), ms(200), ms(400), ms(500)]);
    }

    #[test]
    fn a_long_time_of_health_is_a_new_beginning_and_a_short_one_is_not() {
        let mut backoff = backoff();
        backoff.down(Stamp(ms(0)));
        backoff.up(Stamp(ms(100)));
        assert_eq!(backoff.down(Stamp(ms(9_000))), ms(200));
        backoff.up(Stamp(ms(10_000)));
        assert_eq!(backoff.down(Stamp(ms(20_000))), ms(100));
    }
}
