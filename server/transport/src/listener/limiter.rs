//! Places for connections, in total and per address. When none is free, the connection idle for longest is closed, if
//! idle for long enough.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use omni_core::error::{ErrorKind, ServeError};
use omni_telemetry::Connected;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The part of an IPv6 address that identifies a caller: the first 64 bits are the network's, the others are the machine's to choose.
const NETWORK: u128 = !(u64::MAX as u128);
/// A connection that was idle for less keeps its place.
const IDLE: Duration = Duration::from_secs(30);
/// Time after which a caller without a place may try again.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct ConnectionLimiter {
    most: usize,
    most_per_peer: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    all: HashMap<u64, Arc<Connection>>,
    peers: HashMap<IpAddr, usize>,
    /// True if it was logged that there is none left, since there was one.
    said: bool,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    idle: Mutex<Option<Instant>>,
    over: CancellationToken,
}

impl Taken {
    fn remove(&mut self, number: u64) -> Option<Arc<Connection>> {
        let connection = self.all.remove(&number)?;
        self.said = false;
        if let Some(own) = self.peers.get_mut(&connection.peer) {
            *own -= 1;
            if *own == 0 {
                self.peers.remove(&connection.peer);
            }
        }
        Some(connection)
    }

    /// Makes a place free, of this address if one is given. Whether there was one to be had.
    fn make_room(&mut self, peer: Option<IpAddr>) -> bool {
        let own = |connection: &Connection| peer.is_none_or(|peer| connection.peer == peer);
        let idle = self.all.iter().filter_map(|(number, connection)| {
            let since = connection.idle.lock().filter(|_| own(connection))?;
            (since.elapsed() >= IDLE).then_some((since, *number))
        });
        let Some((_, number)) = idle.min() else {
            return false;
        };
        let said = self.said;
        if let Some(connection) = self.remove(number) {
            connection.over.cancel();
        }
        self.said = said;
        true
    }
}

/// The reason that there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    pub(super) limit: usize,
    per_peer: bool,
    /// True if that was logged already.
    pub(super) said: bool,
}

impl Full {
    /// The outcome for the connection.
    pub fn connected(&self) -> Connected {
        if self.per_peer {
            Connected::PeerFull
        } else {
            Connected::Full
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.per_peer {
            "per-peer connection limit reached (--max-connections-per-peer; a proxy belongs into --trusted-proxies)"
        } else {
            "there are as many as --max-connections allows"
        })
    }
}

impl From<Full> for ServeError {
    fn from(full: Full) -> Self {
        let (kind, whose) = if full.per_peer {
            (ErrorKind::TooManySessions, "from this address")
        } else {
            (ErrorKind::Unavailable, "to this server")
        };
        let limit = full.limit;
        let message = format!("{limit} connections {whose} are open, no more are accepted now");
        Self::new(kind, "CONNECTION_LIMIT", message)
            .with_limit(limit)
            .retry_in(RETRY)
    }
}

/// A place; it is free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    number: u64,
    connection: Arc<Connection>,
    taken: Arc<Mutex<Taken>>,
}

impl Place {
    /// Reports the connection as idle since a time, or busy. Initially busy.
    pub(super) fn idle(&self, since: Option<Instant>) {
        *self.connection.idle.lock() = since;
    }

    /// Resolves when the connection has to go.
    pub(super) async fn is_over(&self) {
        self.connection.over.cancelled().await;
    }
}

impl ConnectionLimiter {
    pub fn new(most: usize, most_per_peer: usize) -> Self {
        Self {
            most,
            most_per_peer,
            taken: Arc::default(),
        }
    }

    /// A place for a connection of this address; of a trusted proxy (`shared`) as many as there are.
    pub fn take(&self, address: IpAddr, shared: bool) -> Result<Place, Full> {
        let peer = network(address);
        let mut taken = self.taken.lock();
        let own = taken.peers.get(&peer).copied().unwrap_or(0);
        let full = if !shared && own >= self.most_per_peer {
            (!taken.make_room(Some(peer))).then_some((self.most_per_peer, true))
        } else if taken.all.len() >= self.most {
            (!taken.make_room(None)).then_some((self.most, false))
        } else {
            None
        };
        if let Some((limit, per_peer)) = full {
            let said = std::mem::replace(&mut taken.said, true);
            return Err(Full {
                limit,
                per_peer,
                said,
            });
        }
        let number = taken.next;
        taken.next += 1;
        *taken.peers.entry(peer).or_default() += 1;
        let connection = Arc::new(Connection {
            peer,
            idle: Mutex::default(),
            over: CancellationToken::new(),
        });
        taken.all.insert(number, Arc::clone(&connection));
        Ok(Place {
            number,
            connection,
            taken: Arc::clone(&self.taken),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.lock().remove(self.number);
    }
}

/// Network of an address, the unit of the limits.
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
        let one = address("192.0.2.1");
        let other = address("192.0.2.2");
        let first = places.take(one, false).unwrap();
        let _second = places.take(one, false).unwrap();
        let refused = places.take(one, false).unwrap_err();
        assert_eq!((refused.limit, refused.per_peer, refused.said), (2, true, false));
        assert!(places.take(one, false).unwrap_err().said);
        let third = places.take(other, false).unwrap();
        let refused = places.take(other, false).unwrap_err();
        assert_eq!((refused.limit, refused.per_peer), (3, false));
        drop(third);
        drop(first);
        let _first = places.take(one, false).unwrap();
        assert!(
            !places.take(one, false).unwrap_err().said,
            "it was over in between"
        );
    }

    #[test]
    fn a_proxy_has_as_many_as_there_are() {
        let places = ConnectionLimiter::new(4, 1);
        let proxy = address("10.0.0.1");
        let held: Vec<_> = (0..4).map(|_| places.take(proxy, true).unwrap()).collect();
        assert!(!places.take(proxy, true).unwrap_err().per_peer);
        drop(held);
    }

    #[test]
    fn the_one_that_was_idle_for_longest_makes_room() {
        let places = ConnectionLimiter::new(4, 2);
        let one = address("192.0.2.1");
        let other = address("192.0.2.2");
        let now = Instant::now();
        let ago = |seconds| now.checked_sub(Duration::from_secs(seconds));
        let first = places.take(one, false).unwrap();
        let second = places.take(one, false).unwrap();
        let third = places.take(other, false).unwrap();
        first.idle(ago(40));
        second.idle(ago(1));
        third.idle(ago(90));
        let _fourth = places.take(one, false).unwrap();
        assert!(first.connection.over.is_cancelled(), "of the same address");
        assert!(!third.connection.over.is_cancelled());
        assert!(places.take(one, false).is_err(), "idle for a moment is not idle");
        let _fifth = places.take(other, false).unwrap();
        let proxy = address("10.0.0.1");
        let _sixth = places.take(proxy, true).unwrap();
        assert!(
            third.connection.over.is_cancelled(),
            "of any address where all are taken"
        );
        drop((first, third));
        assert_eq!(places.taken.lock().all.len(), 4);
        third_is_counted_once(&places);
    }

    fn third_is_counted_once(places: &ConnectionLimiter) {
        let taken = places.taken.lock();
        assert_eq!(taken.peers.values().sum::<usize>(), taken.all.len());
    }

    #[test]
    fn nothing_is_kept_of_who_has_left() {
        let places = ConnectionLimiter::new(2, 2);
        drop(places.take(address("192.0.2.1"), false).unwrap());
        let taken = places.taken.lock();
        assert!(taken.all.is_empty() && taken.peers.is_empty());
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
