//! Usage of one key against its quotas.
//!
//! Characters are checked when an utterance or an answer begins, and further ones are charged: no caller is cut off
//! in the middle of a sentence. Audio is charged as it is sent, and audio beyond the quota is paid off before more is
//! begun. Nothing here waits or locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use omni_config::{Quota, Quotas};
use omni_engine::Stamp;

use super::Tenant;
use super::bucket::{Bucket, Refill};
use crate::error::{ErrorKind, QuotaViolation, ServeError};

/// Retry delay of a caller with as many streams as it may have: the end of one of them is not predictable.
const STREAM_RETRY: Duration = Duration::from_secs(1);

/// A quota that has no room.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the quota of the API key is used up: {quota} is limited to {limit}")]
pub struct OverQuota {
    /// The quota exceeded.
    pub quota: Quota,
    /// Its limit, in its unit.
    pub limit: String,
    /// Time until there is room again, if nothing else is used until then.
    pub retry: Duration,
}

impl From<OverQuota> for ServeError {
    fn from(error: OverQuota) -> Self {
        let reason = match error.quota {
            Quota::Streams => "CONCURRENCY_LIMIT",
            _ => "RATE_LIMITED",
        };
        let OverQuota { quota, limit, retry } = &error;
        Self::new(ErrorKind::OverQuota, reason, error.to_string())
            .with("quota", quota.to_string())
            .with("limit", limit.clone())
            .retry_in(*retry)
            .over(QuotaViolation {
                quota: *quota,
                limit: limit.clone(),
            })
    }
}

/// Quotas and usage of a key. They belong to the key, under any name of its holder.
#[derive(derive_more::Debug)]
#[debug("QuotaState {{ name: {:?}, used: {:?}, .. }}", self.name, self.used)]
pub struct QuotaState {
    name: Arc<str>,
    tenant: Tenant,
    used: Arc<Used>,
}

/// Usage, and its limits.
#[derive(Debug, Default)]
struct Used {
    limits: Limits,
    streams: AtomicUsize,
    requests: Bucket,
    characters: Bucket,
    audio: Bucket,
}

/// Current quotas; they may change at any time.
#[derive(Debug, Default)]
struct Limits {
    streams: Limit,
    requests: Limit,
    burst: Limit,
    characters: Limit,
    audio: Limit,
}

/// A number, or none.
#[derive(Debug)]
struct Limit(AtomicU64);

impl Default for Limit {
    fn default() -> Self {
        Self(AtomicU64::new(f64::INFINITY.to_bits()))
    }
}

impl Limit {
    fn set(&self, limit: Option<f64>) {
        let bits = limit.unwrap_or(f64::INFINITY).to_bits();
        self.0.store(bits, Ordering::Relaxed);
    }

    fn get(&self) -> Option<f64> {
        Some(f64::from_bits(self.0.load(Ordering::Relaxed))).filter(|limit| limit.is_finite())
    }

    /// The limit as the capacity of a bucket that is filled in a minute.
    fn per_minute(&self) -> Option<Refill> {
        self.get().map(|capacity| Refill {
            per_second: capacity / 60.0,
            capacity,
        })
    }
}

impl QuotaState {
    /// Creates the state of a key of this name that has used nothing.
    pub fn new(name: &str, tenant: Tenant, quotas: &Quotas) -> Self {
        let account = Self {
            name: name.into(),
            tenant,
            used: Arc::default(),
        };
        account.set(quotas);
        account
    }

    /// The same state under the holder's new name.
    pub fn renamed(&self, name: &str) -> Self {
        Self {
            name: name.into(),
            tenant: self.tenant,
            used: Arc::clone(&self.used),
        }
    }

    /// Returns true if a stream is open.
    pub fn is_open(&self) -> bool {
        self.used.streams.load(Ordering::Acquire) > 0
    }

    /// Changes its quotas. Usage is kept, and streams continue.
    pub fn set(&self, quotas: &Quotas) {
        let limits = &self.used.limits;
        limits.streams.set(quotas.streams.map(f64::from));
        limits.requests.set(quotas.requests_per_second);
        limits.burst.set(quotas.burst().map(f64::from));
        limits.characters.set(quotas.characters_per_minute.map(f64::from));
        limits.audio.set(quotas.audio_seconds_per_minute.map(f64::from));
    }

    /// The name of its key.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn tenant(&self) -> Tenant {
        self.tenant
    }

    pub(super) fn open(&self, now: Stamp) -> Result<StreamPlace, OverQuota> {
        let most = self.used.limits.streams.get();
        let room = |open: usize| most.is_none_or(|most| (open as f64) < most).then(|| open + 1);
        let entered = self
            .used
            .streams
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, room);
        if entered.is_err() {
            return Err(over(Quota::Streams, most.unwrap_or_default(), STREAM_RETRY));
        }
        let place = StreamPlace(Arc::clone(&self.used));
        if let Some((per_second, capacity)) =
            self.used.limits.requests.get().zip(self.used.limits.burst.get())
        {
            let refill = Refill { per_second, capacity };
            let taken = self.used.requests.take(1.0, refill, now);
            taken.map_err(|retry| over(Quota::Requests, per_second, retry))?;
        }
        Ok(place)
    }

    pub(super) fn begin(&self, characters: usize, now: Stamp) -> Result<(), OverQuota> {
        if let Some(refill) = self.used.limits.audio.per_minute() {
            let taken = self.used.audio.take(0.0, refill, now);
            taken.map_err(|retry| over(Quota::Audio, refill.capacity, retry))?;
        }
        if let Some(refill) = self.used.limits.characters.per_minute() {
            let taken = self.used.characters.take(characters as f64, refill, now);
            taken.map_err(|retry| over(Quota::Characters, refill.capacity, retry))?;
        }
        Ok(())
    }

    pub(super) fn more(&self, characters: usize, now: Stamp) {
        if let Some(refill) = self.used.limits.characters.per_minute() {
            self.used.characters.charge(characters as f64, refill, now);
        }
    }

    pub(super) fn heard(&self, audio: Duration, now: Stamp) {
        if let Some(refill) = self.used.limits.audio.per_minute() {
            self.used.audio.charge(audio.as_secs_f64(), refill, now);
        }
    }
}

fn over(quota: Quota, limit: f64, retry: Duration) -> OverQuota {
    OverQuota {
        quota,
        limit: limit.to_string(),
        retry,
    }
}

/// A stream of a key, until dropped.
#[derive(Debug)]
pub struct StreamPlace(Arc<Used>);

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Stamp {
        Stamp(Duration::from_secs(500) + Duration::from_millis(ms))
    }

    fn account(quotas: &Quotas) -> Arc<QuotaState> {
        Arc::new(QuotaState::new("somebody", Tenant::Unknown, quotas))
    }

    #[test]
    fn streams_are_counted_while_they_are_open() {
        let account = account(&Quotas {
            streams: Some(2),
            ..Quotas::default()
        });
        let first = account.open(at(0)).unwrap();
        let _second = account.open(at(0)).unwrap();
        let refused = account.open(at(0)).unwrap_err();
        assert_eq!((refused.quota, refused.limit.as_str()), (Quota::Streams, "2"));
        drop(first);
        account.open(at(0)).unwrap();
    }

    #[test]
    fn requests_have_a_rate_and_a_burst_and_the_refused_hold_no_stream() {
        let account = account(&Quotas {
            streams: Some(9),
            requests_per_second: Some(0.5),
            burst: Some(3),
            ..Quotas::default()
        });
        for _ in 0..3 {
            drop(account.open(at(0)).unwrap());
        }
        let refused = account.open(at(500)).unwrap_err();
        assert_eq!((refused.quota, refused.limit.as_str()), (Quota::Requests, "0.5"));
        assert_eq!(refused.retry, Duration::from_millis(1_500));
        account.open(at(2_000)).unwrap();
        assert_eq!(account.used.streams.load(Ordering::Acquire), 0);
    }

    #[test]
    fn characters_are_checked_where_something_begins_and_charged_where_it_goes_on() {
        let account = account(&Quotas {
            characters_per_minute: Some(60),
            ..Quotas::default()
        });
        account.begin(20, at(0)).unwrap();
        account.more(60, at(0));
        let refused = account.begin(10, at(0)).unwrap_err();
        assert_eq!((refused.quota, refused.limit.as_str()), (Quota::Characters, "60"));
        assert_eq!(refused.retry, Duration::from_secs(30));
        account.begin(10, at(30_000)).unwrap();
    }

    #[test]
    fn audio_beyond_the_quota_is_paid_off_before_more_is_begun() {
        let account = account(&Quotas {
            audio_seconds_per_minute: Some(60),
            ..Quotas::default()
        });
        account.begin(5, at(0)).unwrap();
        account.heard(Duration::from_secs(59), at(0));
        account.begin(5, at(0)).unwrap();
        account.heard(Duration::from_secs(11), at(0));
        let refused = account.begin(5, at(0)).unwrap_err();
        assert_eq!(refused.quota, Quota::Audio);
        assert_eq!(refused.retry.as_secs(), 10);
        account.begin(5, at(10_001)).unwrap();
    }

    #[test]
    fn new_quotas_count_at_once_and_what_was_used_stays_used() {
        let of = |streams| Quotas {
            streams,
            ..Quotas::default()
        };
        let account = account(&of(Some(1)));
        let _open = account.open(at(0)).unwrap();
        assert!(account.open(at(0)).is_err());
        account.set(&of(Some(2)));
        let _second = account.open(at(0)).unwrap();
        account.set(&of(Some(1)));
        assert!(account.open(at(0)).is_err());
        account.set(&of(None));
        account.open(at(0)).unwrap();
    }
}
