//! Who gets the next free place: the party with the fewest running, and among equals the one that waits longest for its turn.
//!
//! A value without a clock and without tasks. Parties share the places; within a party it is first come, first served. A party
//! that has had its turn is behind its equals, however early its next one came: one place is shared, too, in turns. The
//! queue is bounded over all parties: when it is full, one who came last for the party that waits most makes room for a party
//! that waits less, so that nobody can keep others from waiting at all.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::caller::Party;

/// Names one that waits. They ascend in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// The places and who waits for them. `W` is how one that waits is told.
#[derive(Debug)]
pub(super) struct Queue<W> {
    free: usize,
    max_waiting: usize,
    waiting: usize,
    next: Ticket,
    /// Those that run or wait.
    parties: HashMap<Party, Share<W>>,
    /// Those that wait: how many they have running, and since when they wait for their turn.
    order: BTreeSet<(usize, Ticket, Party)>,
}

#[derive(Debug)]
struct Share<W> {
    running: usize,
    /// Tickets ascending.
    waiting: VecDeque<(Ticket, W)>,
    /// When it last had its turn.
    turn: Ticket,
}

impl<W> Share<W> {
    fn rank(&self, party: Party) -> Option<(usize, Ticket, Party)> {
        let (first, _) = self.waiting.front()?;
        Some((self.running, self.turn.max(*first), party))
    }
}

/// One more waits.
#[derive(Debug)]
pub(super) struct Queued<W> {
    pub(super) ticket: Ticket,
    /// Who made room for it, if it had to.
    pub(super) displaced: Option<W>,
}

impl<W> Queue<W> {
    pub(super) fn new(places: usize, max_waiting: usize) -> Self {
        Self {
            free: places,
            max_waiting,
            waiting: 0,
            next: Ticket(0),
            parties: HashMap::new(),
            order: BTreeSet::new(),
        }
    }

    pub(super) fn free(&self) -> usize {
        self.free
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes a free place, if there is one. Nobody waits then.
    pub(super) fn take(&mut self, party: Party) -> bool {
        let free = self.free > 0;
        if free {
            self.free -= 1;
            self.with(party, |share| share.running += 1);
        }
        free
    }

    /// How many that wait now would get a place before one more of `party`, as things are now.
    pub(super) fn ahead(&self, party: Party) -> usize {
        let own = self.parties.get(&party);
        let (running, waiting) = own.map_or((0, 0), |share| (share.running, share.waiting.len()));
        // It would be served when its party has so many running.
        let round = running + waiting;
        let others = self.order.iter().filter(|(_, _, other)| *other != party);
        let ahead = others.map(|(running, _, other)| {
            let waits = self.parties.get(other).map_or(0, |share| share.waiting.len());
            (round + 1).saturating_sub(*running).min(waits)
        });
        waiting + ahead.sum::<usize>()
    }

    /// Waits.
    ///
    /// # Errors
    /// `waiter`, if there is no room for it.
    pub(super) fn wait(&mut self, party: Party, waiter: W) -> Result<Queued<W>, W> {
        let displaced = match self.waiting < self.max_waiting {
            true => None,
            false => match self.make_room(party) {
                Some(displaced) => Some(displaced),
                None => return Err(waiter),
            },
        };
        let ticket = self.stamp();
        self.waiting += 1;
        self.with(party, |share| share.waiting.push_back((ticket, waiter)));
        Ok(Queued { ticket, displaced })
    }

    /// Sends away the last of the party that waits most, if that still waits as much as `party` does then.
    fn make_room(&mut self, party: Party) -> Option<W> {
        let waits = |party| {
            self.parties
                .get(party)
                .map_or(0, |share: &Share<W>| share.waiting.len())
        };
        let (most, longest) = self
            .order
            .iter()
            .map(|(_, _, other)| (waits(other), *other))
            .max()?;
        if most <= waits(&party) + 1 {
            return None;
        }
        let sent_away = self.with(longest, |share| share.waiting.pop_back());
        self.waiting -= usize::from(sent_away.is_some());
        sent_away.map(|(_, waiter)| waiter)
    }

    /// One waits no more. Gives it back, if it had no place yet.
    pub(super) fn leave(&mut self, party: Party, ticket: Ticket) -> Option<W> {
        let left = self.with(party, |share| {
            let at = share.waiting.binary_search_by_key(&ticket, |(ticket, _)| *ticket);
            at.ok().and_then(|at| share.waiting.remove(at))
        });
        self.waiting -= usize::from(left.is_some());
        left.map(|(_, waiter)| waiter)
    }

    /// A place of `party` is free again. Gives whoever has it now.
    pub(super) fn release(&mut self, party: Party) -> Option<(Party, W)> {
        self.with(party, |share| share.running -= 1);
        let Some(&(_, _, next)) = self.order.first() else {
            self.free += 1;
            return None;
        };
        self.waiting -= 1;
        let turn = self.stamp();
        let (_, waiter) = self.with(next, |share| {
            share.running += 1;
            share.turn = turn;
            share.waiting.pop_front().expect("only who waits is in the order")
        });
        Some((next, waiter))
    }

    fn stamp(&mut self) -> Ticket {
        let now = self.next;
        self.next = Ticket(now.0 + 1);
        now
    }

    /// Changes the share of a party, and its rank with it.
    fn with<T>(&mut self, party: Party, change: impl FnOnce(&mut Share<W>) -> T) -> T {
        let share = self.parties.entry(party).or_insert_with(|| Share {
            running: 0,
            waiting: VecDeque::new(),
            turn: Ticket(0),
        });
        if let Some(rank) = share.rank(party) {
            self.order.remove(&rank);
        }
        let result = change(share);
        match share.rank(party) {
            Some(rank) => _ = self.order.insert(rank),
            None if share.running == 0 => _ = self.parties.remove(&party),
            None => {}
        }
        result
    }
}

#[cfg(test)]
mod tests;
