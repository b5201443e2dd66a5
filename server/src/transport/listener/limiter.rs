//! Places for connections: so many in all, and so many for one address.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use omni_telemetry::Connected;

/// What one caller has of an IPv6 address: the first 64 bits are the network's, the others are the machine's to choose.
const NETWORK: u128 = !(u64::MAX as u128);

#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimiter {
    most: usize,
    most_per_peer: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    peers: HashMap<IpAddr, usize>,
    /// Whether it was said that there is none left, since there was one.
    said: bool,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    pub(super) limit: usize,
    per_peer: bool,
    /// Whether that was said already.
    pub(super) said: bool,
}

impl Full {
    /// What that means for the connection.
    pub(crate) fn connected(&self) -> Connected {
        match self.per_peer {
            true => Connected::PeerFull,
            false => Connected::Full,
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.per_peer {
            true => "per-peer connection limit reached (--max-connections-per-peer)",
            false => "there are as many as --max-connections allows",
        })
    }
}

/// A place; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    peer: IpAddr,
    taken: Arc<Mutex<Taken>>,
}

impl ConnectionLimiter {
    pub(crate) fn new(most: usize, most_per_peer: usize) -> Self {
        Self {
            most,
            most_per_peer,
            taken: Arc::default(),
        }
    }

    /// A place for a connection of this address.
    pub(crate) fn take(&self, address: IpAddr) -> Result<Place, Full> {
        let peer = network(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.peers.get(&peer).copied().unwrap_or(0);
        let full = match () {
            () if taken.all >= self.most => Some((self.most, false)),
            () if own >= self.most_per_peer => Some((self.most_per_peer, true)),
            () => None,
        };
        if let Some((limit, per_peer)) = full {
            let said = std::mem::replace(&mut taken.said, true);
            return Err(Full {
                limit,
                per_peer,
                said,
            });
        }
        taken.all += 1;
        taken.peers.insert(peer, own + 1);
        Ok(Place {
            peer,
            taken: Arc::clone(&self.taken),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        taken.said = false;
        if let Some(own) = taken.peers.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                taken.peers.remove(&self.peer);
            }
        }
    }
}

/// Whose address it is.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_limit_is_let_in_and_one_more_is_not() {
        let places = ConnectionLimiter::new(3, 2);
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        let first = places.take(one).unwrap();
        let _second = places.take(one).unwrap();
        let refused = places.take(one).unwrap_err();
        assert_eq!((refused.limit, refused.per_peer, refused.said), (2, true, false));
        assert!(places.take(one).unwrap_err().said);
        let third = places.take(other).unwrap();
        let refused = places.take(other).unwrap_err();
        assert_eq!((refused.limit, refused.per_peer), (3, false));
        drop(third);
        drop(first);
        let _first = places.take(one).unwrap();
        assert!(!places.take(one).unwrap_err().said, "it was over in between");
    }

    #[test]
    fn nothing_is_kept_of_who_has_left() {
        let places = ConnectionLimiter::new(2, 2);
        drop(places.take(address("192.0.2.1")).unwrap());
        let taken = places.taken.lock().unwrap();
        assert!(taken.all == 0 && taken.peers.is_empty());
    }

    #[test]
    fn a_network_counts_as_one_caller() {
        let same = |a, b| network(address(a)) == network(address(b));
        assert!(same("2001:db8::1", "2001:db8::ffff:2"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
    }
}
