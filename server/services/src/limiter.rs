//! Fair limit of calls: a number of places in all, the last of which are reserved for tenants with few calls.
//!
//! A tenant that is alone may have all places. As soon as there are others, the last places go to tenants with less
//! than an equal share, so that a tenant that takes all it can get does not lock the others out.

use std::collections::HashMap;
use std::sync::Arc;

use omni_core::caller::Tenant;
use parking_lot::Mutex;

/// Divisor: this part of all places is reserved for tenants with less than their share.
const KEPT: usize = 8;

/// The places. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct FairLimiter {
    most: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    tenants: HashMap<Tenant, usize>,
}

/// A place; free again when this is dropped.
#[derive(Debug)]
pub(super) struct FairPermit {
    tenant: Tenant,
    taken: Arc<Mutex<Taken>>,
}

impl FairLimiter {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            taken: Arc::default(),
        }
    }

    /// Takes a place for a call of `tenant`.
    ///
    /// # Errors
    /// The number of places that the tenant may have now.
    pub(super) fn take(&self, tenant: Tenant) -> Result<FairPermit, usize> {
        let mut taken = self.taken.lock();
        let own = taken.tenants.get(&tenant).copied().unwrap_or(0);
        let others = taken.tenants.len() - usize::from(own > 0);
        let fair = self.most / (others + 1);
        let free = self.most - taken.all;
        if free == 0 {
            return Err(self.most);
        }
        if others > 0 && free <= self.most / KEPT && own >= fair {
            return Err(own);
        }
        taken.all += 1;
        taken.tenants.insert(tenant, own + 1);
        Ok(FairPermit {
            tenant,
            taken: Arc::clone(&self.taken),
        })
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.all -= 1;
        if let Some(own) = taken.tenants.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                taken.tenants.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(limiter: &FairLimiter, tenant: u128, calls: usize) -> Vec<FairPermit> {
        let take = |_| limiter.take(Tenant::Key(tenant)).ok();
        (0..calls).map_while(take).collect()
    }

    #[test]
    fn who_is_alone_may_have_all_places() {
        let limiter = FairLimiter::new(16);
        let all = take(&limiter, 1, 99);
        assert_eq!(all.len(), 16);
        assert_eq!(limiter.take(Tenant::Key(1)).unwrap_err(), 16);
        drop(all);
        assert_eq!(take(&limiter, 2, 99).len(), 16);
    }

    #[test]
    fn the_last_places_are_for_whoever_has_less_than_a_share() {
        let limiter = FairLimiter::new(16);
        let first = take(&limiter, 2, 1);
        let greedy = take(&limiter, 1, 99);
        assert_eq!(greedy.len(), 13);
        assert_eq!(limiter.take(Tenant::Key(1)).unwrap_err(), 13);
        let second = take(&limiter, 2, 1);
        let third = take(&limiter, 3, 1);
        assert_eq!((first.len(), second.len(), third.len()), (1, 1, 1));
        assert!(limiter.take(Tenant::Key(4)).is_err());
    }

    proptest! {
        /// Whatever comes and goes: never more than there are, nothing is lost, and a newcomer is refused only if all are taken.
        #[test]
        fn places_are_counted_and_newcomers_get_what_is_free(
            moves in prop::collection::vec((0_u128..5, any::<bool>()), 1..200),
            most in 1_usize..20,
        ) {
            let limiter = FairLimiter::new(most);
            let mut held: Vec<(u128, FairPermit)> = Vec::new();
            for (tenant, come) in moves {
                if come {
                    let new = held.iter().all(|(holder, _)| *holder != tenant);
                    match limiter.take(Tenant::Key(tenant)) {
                        Ok(share) => held.push((tenant, share)),
                        Err(_) => prop_assert!(!new || held.len() == most),
                    }
                } else if let Some(at) = held.iter().position(|(holder, _)| *holder == tenant) {
                    held.swap_remove(at);
                }
                prop_assert!(held.len() <= most);
                prop_assert_eq!(limiter.taken.lock().all, held.len());
            }
            drop(held);
            prop_assert!(limiter.taken.lock().tenants.is_empty());
        }
    }
}
