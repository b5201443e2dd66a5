//! Places for calls: so many in all, the last of which are kept for parties that have little.
//!
//! Whoever is alone may have all places but the last few, and those too as long as nobody else is there. As soon as there are
//! others, the last places go to whoever has less than an equal share, so that one who takes all he can get keeps nobody out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::caller::Party;

/// Of all places this part is kept for those with less than their share.
const KEPT: usize = 8;

/// The places. Copies are the same.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    most: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    parties: HashMap<Party, usize>,
}

/// A place; free again when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    party: Party,
    taken: Arc<Mutex<Taken>>,
}

impl Shares {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            taken: Arc::default(),
        }
    }

    /// A place for a call of `party`.
    ///
    /// # Errors
    /// How many places that party may have now.
    pub(super) fn take(&self, party: Party) -> Result<Share, usize> {
        let mut taken = lock(&self.taken);
        let own = taken.parties.get(&party).copied().unwrap_or(0);
        let others = taken.parties.len() - usize::from(own > 0);
        let fair = self.most / (others + 1);
        let free = self.most - taken.all;
        if free == 0 {
            return Err(self.most);
        }
        if others > 0 && free <= self.most / KEPT && own >= fair {
            return Err(own);
        }
        taken.all += 1;
        taken.parties.insert(party, own + 1);
        Ok(Share {
            party,
            taken: Arc::clone(&self.taken),
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.all -= 1;
        if let Some(own) = taken.parties.get_mut(&self.party) {
            *own -= 1;
            if *own == 0 {
                taken.parties.remove(&self.party);
            }
        }
    }
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(shares: &Shares, party: u128, calls: usize) -> Vec<Share> {
        let take = |_| shares.take(Party::Key(party)).ok();
        (0..calls).map_while(take).collect()
    }

    #[test]
    fn who_is_alone_may_have_all_places() {
        let shares = Shares::new(16);
        let all = take(&shares, 1, 99);
        assert_eq!(all.len(), 16);
        assert_eq!(shares.take(Party::Key(1)).unwrap_err(), 16);
        drop(all);
        assert_eq!(take(&shares, 2, 99).len(), 16);
    }

    #[test]
    fn the_last_places_are_for_whoever_has_less_than_a_share() {
        let shares = Shares::new(16);
        let first = take(&shares, 2, 1);
        let greedy = take(&shares, 1, 99);
        assert_eq!(greedy.len(), 13);
        assert_eq!(shares.take(Party::Key(1)).unwrap_err(), 13);
        let (second, third) = (take(&shares, 2, 1), take(&shares, 3, 1));
        assert_eq!((first.len(), second.len(), third.len()), (1, 1, 1));
        assert!(shares.take(Party::Key(4)).is_err());
    }

    proptest! {
        /// Whatever comes and goes: never more than there are, nothing is lost, and a newcomer is refused only if all are taken.
        #[test]
        fn places_are_counted_and_newcomers_get_what_is_free(
            moves in prop::collection::vec((0_u128..5, any::<bool>()), 1..200),
            most in 1_usize..20,
        ) {
            let shares = Shares::new(most);
            let mut held: Vec<(u128, Share)> = Vec::new();
            for (party, come) in moves {
                if come {
                    let new = held.iter().all(|(holder, _)| *holder != party);
                    match shares.take(Party::Key(party)) {
                        Ok(share) => held.push((party, share)),
                        Err(_) => prop_assert!(!new || held.len() == most),
                    }
                } else if let Some(at) = held.iter().position(|(holder, _)| *holder == party) {
                    held.swap_remove(at);
                }
                prop_assert!(held.len() <= most);
                prop_assert_eq!(lock(&shares.taken).all, held.len());
            }
            drop(held);
            prop_assert!(lock(&shares.taken).parties.is_empty());
        }
    }
}
