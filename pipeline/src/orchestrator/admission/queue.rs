//! Fair queue: the next free place goes to the tenant with the fewest running requests, and among equals to the one
//! that has waited longest for its turn.
//!
//! A value without a clock and without tasks. Tenants share the places; within a tenant requests are served in order
//! of arrival. A tenant that has had its turn is behind its equals, however early its next request came: a single
//! place is shared in turns. The queue is bounded over all tenants: when it is full, the last request of the tenant
//! with the most waiting requests makes room for a tenant with fewer, so that no tenant can keep others from waiting
//! at all.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::tenant::Tenant;

/// Id of a waiting request. Ids ascend in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// The places and the requests that wait for them. `W` notifies a waiting request.
#[derive(Debug)]
pub(super) struct Queue<W> {
    free: usize,
    max_waiting: usize,
    waiting: usize,
    next: Ticket,
    /// Tenants with running or waiting requests.
    tenants: HashMap<Tenant, Share<W>>,
    /// Waiting tenants: the number of their running requests, and the start of their wait for a turn.
    order: BTreeSet<(usize, Ticket, Tenant)>,
}

#[derive(Debug)]
struct Share<W> {
    running: usize,
    /// Tickets ascending.
    waiting: VecDeque<(Ticket, W)>,
    /// Turn at which it was last served.
    turn: Ticket,
}

impl<W> Share<W> {
    fn rank(&self, tenant: Tenant) -> Option<(usize, Ticket, Tenant)> {
        let (first, _) = self.waiting.front()?;
        Some((self.running, self.turn.max(*first), tenant))
    }
}

/// A request that was queued.
#[derive(Debug)]
pub(super) struct Queued<W> {
    pub(super) ticket: Ticket,
    /// The request that made room for it, if one had to.
    pub(super) displaced: Option<W>,
}

impl<W> Queue<W> {
    pub(super) fn new(places: usize, max_waiting: usize) -> Self {
        Self {
            free: places,
            max_waiting,
            waiting: 0,
            next: Ticket(0),
            tenants: HashMap::new(),
            order: BTreeSet::new(),
        }
    }

    pub(super) fn free(&self) -> usize {
        self.free
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes a free place, if there is one. No request waits then.
    pub(super) fn take(&mut self, tenant: Tenant) -> bool {
        let free = self.free > 0;
        if free {
            self.free -= 1;
            self.with(tenant, |share| share.running += 1);
        }
        free
    }

    /// Number of waiting requests that would now be served before one more of `tenant`.
    pub(super) fn ahead(&self, tenant: Tenant) -> usize {
        let own = self.tenants.get(&tenant);
        let (running, waiting) = own.map_or((0, 0), |share| (share.running, share.waiting.len()));
        // It is served when its tenant has this many running.
        let round = running + waiting;
        let others = self.order.iter().filter(|(_, _, other)| *other != tenant);
        let ahead = others.map(|(running, _, other)| {
            let waits = self.tenants.get(other).map_or(0, |share| share.waiting.len());
            (round + 1).saturating_sub(*running).min(waits)
        });
        waiting + ahead.sum::<usize>()
    }

    /// Queues a request.
    ///
    /// # Errors
    /// `waiter`, if there is no room for it.
    pub(super) fn wait(&mut self, tenant: Tenant, waiter: W) -> Result<Queued<W>, W> {
        let displaced = if self.waiting < self.max_waiting {
            None
        } else {
            match self.make_room(tenant) {
                Some(displaced) => Some(displaced),
                None => return Err(waiter),
            }
        };
        let ticket = self.stamp();
        self.waiting += 1;
        self.with(tenant, |share| share.waiting.push_back((ticket, waiter)));
        Ok(Queued { ticket, displaced })
    }

    /// Drops the last request of the tenant with the most waiting requests, if it still has as many as `tenant` would
    /// have.
    fn make_room(&mut self, tenant: Tenant) -> Option<W> {
        let waits = |tenant| {
            self.tenants
                .get(tenant)
                .map_or(0, |share: &Share<W>| share.waiting.len())
        };
        let (most, longest) = self
            .order
            .iter()
            .map(|(_, _, other)| (waits(other), *other))
            .max()?;
        if most <= waits(&tenant) + 1 {
            return None;
        }
        let sent_away = self.with(longest, |share| share.waiting.pop_back());
        self.waiting -= usize::from(sent_away.is_some());
        sent_away.map(|(_, waiter)| waiter)
    }

    /// Removes a waiting request. Returns it, if it had no place yet.
    pub(super) fn leave(&mut self, tenant: Tenant, ticket: Ticket) -> Option<W> {
        let left = self.with(tenant, |share| {
            let at = share.waiting.binary_search_by_key(&ticket, |(ticket, _)| *ticket);
            at.ok().and_then(|at| share.waiting.remove(at))
        });
        self.waiting -= usize::from(left.is_some());
        left.map(|(_, waiter)| waiter)
    }

    /// Frees a place of `tenant`. Returns the request that gets it.
    pub(super) fn release(&mut self, tenant: Tenant) -> Option<(Tenant, W)> {
        self.with(tenant, |share| share.running -= 1);
        let Some(&(_, _, next)) = self.order.first() else {
            self.free += 1;
            return None;
        };
        self.waiting -= 1;
        let turn = self.stamp();
        let (_, waiter) = self.with(next, |share| {
            share.running += 1;
            share.turn = turn;
            share
                .waiting
                .pop_front()
                .expect("only what waits is in the order")
        });
        Some((next, waiter))
    }

    fn stamp(&mut self) -> Ticket {
        let now = self.next;
        self.next = Ticket(now.0 + 1);
        now
    }

    /// Changes the share of a tenant, and with it the tenant's rank.
    fn with<T>(&mut self, tenant: Tenant, change: impl FnOnce(&mut Share<W>) -> T) -> T {
        let share = self.tenants.entry(tenant).or_insert_with(|| Share {
            running: 0,
            waiting: VecDeque::new(),
            turn: Ticket(0),
        });
        if let Some(rank) = share.rank(tenant) {
            self.order.remove(&rank);
        }
        let result = change(share);
        match share.rank(tenant) {
            Some(rank) => _ = self.order.insert(rank),
            None if share.running == 0 => _ = self.tenants.remove(&tenant),
            None => {}
        }
        result
    }
}

#[cfg(test)]
mod tests;
