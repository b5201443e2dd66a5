//! Connections that have not said anything yet: a bounded number. When there are more, the oldest of the address that has most of them
//! goes: a client that means to send does so at once, and silent connections only displace each other.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::limiter::network;

#[derive(Debug, Clone)]
pub(super) struct HandshakeLimiter {
    most: usize,
    all: Arc<Mutex<All>>,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    count: usize,
    /// Those of every address, oldest first.
    peers: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
}

impl All {
    fn remove(&mut self, peer: IpAddr, number: u64) -> Option<CancellationToken> {
        let own = self.peers.get_mut(&peer)?;
        let over = own.remove(&number)?;
        if own.is_empty() {
            self.peers.remove(&peer);
        }
        self.count -= 1;
        Some(over)
    }

    /// The oldest of the address with the most; among equals that which began first.
    fn next_to_go(&self) -> Option<(IpAddr, u64)> {
        let oldest = self.peers.iter().filter_map(|(peer, own)| {
            let (number, _) = own.first_key_value()?;
            Some((own.len(), *number, *peer))
        });
        let (_, number, peer) = oldest.max_by_key(|(count, number, _)| (*count, u64::MAX - number))?;
        Some((peer, number))
    }
}

/// One of them; it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct HandshakePermit {
    peer: IpAddr,
    number: u64,
    over: CancellationToken,
    all: Arc<Mutex<All>>,
}

impl HandshakeLimiter {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            all: Arc::default(),
        }
    }

    /// Lets one more of this address in, and one go if that is one too many.
    pub(super) fn enter(&self, address: IpAddr) -> HandshakePermit {
        let peer = network(address);
        let mut all = self.all.lock();
        let number = all.next;
        let over = CancellationToken::new();
        all.next += 1;
        all.count += 1;
        all.peers.entry(peer).or_default().insert(number, over.clone());
        if all.count > self.most
            && let Some((peer, number)) = all.next_to_go()
            && let Some(gone) = all.remove(peer, number)
        {
            gone.cancel();
        }
        HandshakePermit {
            peer,
            number,
            over,
            all: Arc::clone(&self.all),
        }
    }
}

impl HandshakePermit {
    /// Resolves when it has to go.
    pub(super) async fn is_over(&self) {
        self.over.cancelled().await;
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        all.remove(self.peer, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn one_too_many_makes_the_oldest_go_and_nobody_else() {
        let openings = HandshakeLimiter::new(2);
        let first = openings.enter(address(1));
        let second = openings.enter(address(1));
        assert!(!first.over.is_cancelled());
        let third = openings.enter(address(1));
        assert!(first.over.is_cancelled());
        assert!(!second.over.is_cancelled() && !third.over.is_cancelled());
        drop(second);
        let fourth = openings.enter(address(1));
        assert!(!third.over.is_cancelled() && !fourth.over.is_cancelled());
        drop((first, third, fourth));
        let all = openings.all.lock();
        assert!(all.peers.is_empty() && all.count == 0);
    }

    #[test]
    fn whoever_opens_most_is_the_one_that_loses() {
        let openings = HandshakeLimiter::new(4);
        let honest = openings.enter(address(1));
        let flood: Vec<_> = (0..20).map(|_| openings.enter(address(2))).collect();
        let other = openings.enter(address(3));
        assert!(!honest.over.is_cancelled() && !other.over.is_cancelled());
        let left = flood.iter().filter(|one| !one.over.is_cancelled()).count();
        assert_eq!(left, 2);
    }
}
