//! Token bucket: refilled at a constant rate up to its capacity. Atomics, without a lock.
//!
//! A cost above the capacity may be taken when the bucket is full, and is paid off before anything else is: the rate
//! holds, nothing is refused for ever, and the time to try again is always known. The generic cell rate algorithm
//! (ITU-T I.371), which keeps the time at which the bucket is full again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use omni_engine::Stamp;

/// Refill of a bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Refill {
    /// Units in a second; more than 0.
    pub(super) per_second: f64,
    /// Units that it holds; more than 0.
    pub(super) capacity: f64,
}

/// The bucket; full to begin with.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    /// Time at which it is full, in nanoseconds of the clock.
    full_at: AtomicU64,
    /// Rate of that computation, as the bits of its number; 0 before the first.
    rate: AtomicU64,
}

impl Bucket {
    /// Takes `cost` units.
    ///
    /// # Errors
    /// The time until they can be taken.
    pub(super) fn take(&self, cost: f64, refill: Refill, now: Stamp) -> Result<(), Duration> {
        let now = since_start(now);
        self.reckon(refill, now);
        // Nothing can be taken from an empty bucket, not even zero units.
        let least = cost.clamp(0.0, refill.capacity);
        let may_lack =
            nanos((refill.capacity - least) / refill.per_second).saturating_sub(u64::from(cost <= 0.0));
        let price = nanos(cost / refill.per_second);
        let taken = self
            .full_at
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |full_at| {
                let full_at = full_at.max(now);
                (full_at - now <= may_lack).then(|| full_at.saturating_add(price))
            });
        taken
            .map(drop)
            .map_err(|full_at| Duration::from_nanos(full_at.saturating_sub(now).saturating_sub(may_lack)))
    }

    /// Takes `cost` units, even if they are not there.
    pub(super) fn charge(&self, cost: f64, refill: Refill, now: Stamp) {
        let price = nanos(cost / refill.per_second);
        let now = since_start(now);
        self.reckon(refill, now);
        let charged = self
            .full_at
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |full_at| {
                Some(full_at.max(now).saturating_add(price))
            });
        let _ = charged;
    }

    /// Adapts to another rate: the missing units stay the same, the time until they are there changes.
    fn reckon(&self, refill: Refill, now: u64) {
        let old = f64::from_bits(self.rate.swap(refill.per_second.to_bits(), Ordering::AcqRel));
        let longer = old / refill.per_second;
        #[expect(clippy::float_cmp, reason = "the very rate that was put there")]
        if old == 0.0 || longer == 1.0 {
            return;
        }
        let reckoned = self
            .full_at
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |full_at| {
                let lacking = full_at.saturating_sub(now);
                Some(now.saturating_add((lacking as f64 * longer).round() as u64))
            });
        let _ = reckoned;
    }
}

fn since_start(now: Stamp) -> u64 {
    u64::try_from(now.0.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds as nanoseconds, saturating.
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWO: Refill = Refill {
        per_second: 2.0,
        capacity: 4.0,
    };

    fn at(ms: u64) -> Stamp {
        Stamp(Duration::from_secs(1_000) + Duration::from_millis(ms))
    }

    #[test]
    fn a_burst_is_taken_at_once_and_then_the_rate_holds() {
        let bucket = Bucket::default();
        for _ in 0..4 {
            bucket.take(1.0, TWO, at(0)).unwrap();
        }
        assert_eq!(bucket.take(1.0, TWO, at(0)), Err(Duration::from_millis(500)));
        assert_eq!(bucket.take(1.0, TWO, at(400)), Err(Duration::from_millis(100)));
        bucket.take(1.0, TWO, at(500)).unwrap();
        assert!(bucket.take(1.0, TWO, at(500)).is_err());
        // After any time of rest, no more than the capacity is there.
        let taken = (0..9).filter(|_| bucket.take(1.0, TWO, at(3_600_000)).is_ok());
        assert_eq!(taken.count(), 4);
    }

    #[test]
    fn what_is_larger_than_the_bucket_is_let_in_when_it_is_full_and_paid_off() {
        let bucket = Bucket::default();
        bucket.take(10.0, TWO, at(0)).unwrap();
        // Six are owed, and one must be there.
        assert_eq!(bucket.take(1.0, TWO, at(0)), Err(Duration::from_millis(3_500)));
        assert_eq!(bucket.take(10.0, TWO, at(4_000)), Err(Duration::from_secs(1)));
        bucket.take(10.0, TWO, at(5_000)).unwrap();
    }

    #[test]
    fn what_is_charged_afterwards_is_owed() {
        let bucket = Bucket::default();
        bucket.charge(5.0, TWO, at(0));
        let lacks = bucket.take(0.0, TWO, at(0)).unwrap_err();
        assert_eq!(lacks.as_millis(), 500);
        bucket.take(0.0, TWO, at(501)).unwrap();
    }

    #[test]
    fn what_is_owed_is_paid_off_at_the_rate_that_holds() {
        let bucket = Bucket::default();
        bucket.take(24.0, TWO, at(0)).unwrap();
        assert_eq!(bucket.take(4.0, TWO, at(0)), Err(Duration::from_secs(12)));
        let faster = Refill {
            per_second: 20.0,
            ..TWO
        };
        assert_eq!(bucket.take(4.0, faster, at(0)), Err(Duration::from_millis(1_200)));
        assert_eq!(bucket.take(4.0, TWO, at(0)), Err(Duration::from_secs(12)));
    }

    proptest! {
        /// Over any time: never more than what was refilled, the capacity and one request beyond it. And a caller that waits as long as
        /// was said is let in.
        #[test]
        fn the_rate_holds_and_the_wait_that_is_told_is_true(
            requests in proptest::collection::vec((0_u64..800, 0.1_f64..6.0), 1..100),
        ) {
            let bucket = Bucket::default();
            let mut now = 0;
            let mut taken = 0.0;
            for (pause, cost) in requests {
                now += pause;
                match bucket.take(cost, TWO, at(now)) {
                    Ok(()) => taken += cost,
                    Err(wait) => {
                        prop_assert!(wait > Duration::ZERO);
                        let then = Stamp(at(now).0 + wait + Duration::from_nanos(2));
                        let other = Bucket { full_at: AtomicU64::new(bucket.full_at.load(Ordering::Acquire)), ..Bucket::default() };
                        prop_assert!(other.take(cost, TWO, then).is_ok());
                    }
                }
                let most = TWO.capacity + TWO.per_second * now as f64 / 1e3 + 6.0;
                prop_assert!(taken <= most, "{} of {}", taken, most);
            }
        }
    }
}
