//! Addresses to listen on: an IP address or a name with a port, or a port alone.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs as _};

/// Takes `127.0.0.1:50051`, `[::1]:50051`, `localhost:50051` and `50051`; a port alone is one of this machine, for
/// itself. Of the addresses of a name the first of IPv4 is taken, or the first if there is none.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let expected = "expected an address and a port like 127.0.0.1:50051, [::1]:50051 or localhost:50051, or a port alone";
    let (host, port) = text.rsplit_once(':').ok_or(expected)?;
    if host.is_empty() || host.contains([':', '[', ']', '/']) || port.parse::<u16>().is_err() {
        return Err(expected.to_owned());
    }
    let found = text.to_socket_addrs();
    let found: Vec<_> = found
        .map_err(|error| format!("no address of {host:?} was found: {error}"))?
        .collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| format!("{host:?} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_names_and_bare_ports_are_taken() {
        for (text, expected) in [
            ("127.0.0.1:50051", "127.0.0.1:50051"),
            ("[::1]:50051", "[::1]:50051"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("50051", "127.0.0.1:50051"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), expected, "{text}");
        }
        let named = address("localhost:50051").unwrap();
        assert!(named.ip().is_loopback() && named.port() == 50_051, "{named}");
    }

    #[test]
    fn what_is_no_address_is_refused_with_examples() {
        for text in [
            "",
            "localhost",
            "::1",
            "::1:50051x",
            "[::1]",
            ":50051",
            "a:b",
            "70000",
            "http://localhost:50051",
        ] {
            let told = address(text).unwrap_err();
            assert!(told.contains("localhost:50051"), "{text}: {told}");
        }
    }
}
