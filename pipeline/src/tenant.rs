//! Tenants: the unit in which callers share the places.

use std::net::{IpAddr, Ipv6Addr};

/// Callers that share the server with other tenants as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tenant {
    /// An unidentified caller.
    Unknown,
    /// The callers from one address; for IPv6 from one network, of which every caller has 2^64 addresses.
    Address(IpAddr),
    /// The callers with one key, by a part of its hash.
    Key(u128),
}

impl Tenant {
    /// Tenant of the callers from this address.
    pub fn at(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Self::Address(Ipv6Addr::from_bits(network).into())
            }
            address @ IpAddr::V4(_) => Self::Address(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_party() {
        let at = |text: &str| Tenant::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::dead:beef"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
    }
}
