//! Forwarding headers of trusted proxies: the caller's address, and the address it called.
//!
//! In: the peer address of a connection, and a request's headers. Out: the caller's own address, and its scheme and
//! host. In a list of addresses the last ones were added by the nearest proxies: the last address that is not a
//! trusted proxy is the caller, whatever precedes it. `X-Forwarded-For` is used if present, else `Forwarded` (RFC
//! 7239).

use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, HOST};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName};
use omni_config::TrustedProxies;
use omni_core::caller::CallerAddress;

static FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The caller of a request that came from `nearest`.
pub(super) fn caller(proxies: &TrustedProxies, nearest: CallerAddress, headers: &HeaderMap) -> CallerAddress {
    if !proxies.contains(nearest.ip()) {
        return nearest;
    }
    let mut hops = hops(headers);
    let mut caller = nearest;
    // An invalid hop hides everything before it: the last trusted proxy stands for the caller.
    while let Some(Some(address)) = hops.pop() {
        caller = nearest.behind(address);
        if !proxies.contains(address) {
            break;
        }
    }
    caller
}

/// The hops of a request, the nearest last. One that is no address is `None`.
fn hops(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    if headers.contains_key(&FOR) {
        return values(headers, &FOR).map(address).collect();
    }
    let hops = values(headers, &FORWARDED);
    hops.map(|hop| pair(hop, "for").and_then(address)).collect()
}

/// Members of a list header, over all its lines.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl DoubleEndedIterator<Item = &'a str> {
    let lines = headers.get_all(name).iter();
    // A line that is not text counts as one empty member.
    lines.flat_map(|line| line.to_str().unwrap_or_default().split(',').map(str::trim))
}

/// The value of `name` in one member of `Forwarded`, without quotes.
fn pair<'a>(member: &'a str, name: &str) -> Option<&'a str> {
    member.split(';').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        key.trim()
            .eq_ignore_ascii_case(name)
            .then(|| value.trim().trim_matches('"'))
    })
}

/// An address, with a port or without, in brackets or not.
fn address(text: &str) -> Option<IpAddr> {
    let bare = |text: &str| text.parse().ok();
    let bracketed = || bare(text.strip_prefix('[')?.strip_suffix(']')?);
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    bare(text).or_else(bracketed).or_else(with_port)
}

/// Facts of the connection of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Connected {
    /// The peer, or the caller that a PROXY header names.
    pub(super) nearest: CallerAddress,
    /// Our own address.
    pub(super) local: Option<IpAddr>,
    pub(super) encrypted: bool,
}

/// Address by which a caller reached the server, as far as known; in the extensions of every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledAs {
    /// True if the caller's connection is encrypted.
    pub encrypted: bool,
    /// The host, with its port if it has one that is not the scheme's.
    pub host: Option<String>,
    /// The address of this machine that the connection came in at.
    pub(super) local: Option<IpAddr>,
}

impl CalledAs {
    /// From a trusted proxy's headers, or else from the request itself.
    pub(super) fn of(proxies: &TrustedProxies, connected: &Connected, head: &Parts) -> Self {
        let own = Self {
            encrypted: connected.encrypted,
            host: host(head).map(str::to_owned),
            local: connected.local,
        };
        if !proxies.contains(connected.nearest.ip()) {
            return own;
        }
        let headers = &head.headers;
        let nearest = |name, key| {
            let direct = values(headers, name).next_back();
            direct.or_else(|| pair(values(headers, &FORWARDED).next_back()?, key))
        };
        let told = nearest(&FORWARDED_HOST, "host").filter(|host| host.parse::<Authority>().is_ok());
        Self {
            encrypted: match nearest(&PROTO, "proto") {
                Some(scheme) if scheme.eq_ignore_ascii_case("https") => true,
                Some(scheme) if scheme.eq_ignore_ascii_case("wss") => true,
                Some(scheme) if scheme.eq_ignore_ascii_case("http") => false,
                _ => own.encrypted,
            },
            host: told.map(str::to_owned).or(own.host),
            local: own.local,
        }
    }

    /// The scheme of HTTP.
    pub fn scheme(&self) -> &'static str {
        if self.encrypted { "https" } else { "http" }
    }
}

/// The host that a request names, with its port.
pub(super) fn host(head: &Parts) -> Option<&str> {
    let authority = head.uri.authority().map(Authority::as_str);
    authority.or_else(|| head.headers.get(HOST)?.to_str().ok())
}

#[cfg(test)]
mod tests {
    use http::Request;
    use ipnet::IpNet;

    use super::*;

    fn proxies() -> TrustedProxies {
        let networks: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        TrustedProxies::new(networks)
    }

    fn head(headers: &[(&str, &str)]) -> Parts {
        let request = headers
            .iter()
            .fold(Request::builder().uri("/"), |request, (name, value)| {
                request.header(*name, *value)
            });
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_caller_is_the_last_that_is_no_trusted_proxy() {
        for (nearest, headers, expected) in [
            ("10.0.0.1", &[("x-forwarded-for", "192.0.2.7")][..], "192.0.2.7"),
            ("10.0.0.1", &[("x-forwarded-for", "192.0.2.7:4711")], "192.0.2.7"),
            (
                "10.0.0.1",
                &[("x-forwarded-for", "[2001:db8::1]:4711")],
                "2001:db8::1",
            ),
            ("10.0.0.1", &[("x-forwarded-for", "2001:db8::1")], "2001:db8::1"),
            (
                "10.0.0.1",
                &[("x-forwarded-for", "::ffff:192.0.2.7")],
                "192.0.2.7",
            ),
            // Entries written by the caller itself precede those of the proxies.
            (
                "10.0.0.1",
                &[("x-forwarded-for", "198.51.100.1, 192.0.2.7")],
                "192.0.2.7",
            ),
            (
                "10.0.0.1",
                &[("x-forwarded-for", "192.0.2.7, 10.0.0.9")],
                "192.0.2.7",
            ),
            (
                "10.0.0.1",
                &[
                    ("x-forwarded-for", "198.51.100.1"),
                    ("x-forwarded-for", "192.0.2.7,10.0.0.9"),
                ],
                "192.0.2.7",
            ),
            (
                "10.0.0.1",
                &[("x-forwarded-for", "10.0.0.8, 10.0.0.9")],
                "10.0.0.8",
            ),
            (
                "10.0.0.1",
                &[("x-forwarded-for", "192.0.2.7, unknown")],
                "10.0.0.1",
            ),
            (
                "10.0.0.1",
                &[("x-forwarded-for", "192.0.2.7, bogus, 10.0.0.9")],
                "10.0.0.9",
            ),
            ("10.0.0.1", &[("x-forwarded-for", "")], "10.0.0.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            (
                "10.0.0.1",
                &[("forwarded", "for=192.0.2.7;proto=https")],
                "192.0.2.7",
            ),
            (
                "10.0.0.1",
                &[("forwarded", "For=\"[2001:db8::1]:80\"")],
                "2001:db8::1",
            ),
            (
                "10.0.0.1",
                &[("forwarded", "for=1.2.3.4, for=192.0.2.7;by=10.0.0.1")],
                "192.0.2.7",
            ),
            ("10.0.0.1", &[("forwarded", "for=_hidden")], "10.0.0.1"),
            (
                "10.0.0.1",
                &[("forwarded", "for=1.2.3.4"), ("x-forwarded-for", "192.0.2.7")],
                "192.0.2.7",
            ),
            // Others are not believed.
            ("192.0.2.1", &[("x-forwarded-for", "127.0.0.1")], "192.0.2.1"),
            ("192.0.2.1", &[("forwarded", "for=127.0.0.1")], "192.0.2.1"),
        ] {
            let nearest = CallerAddress::direct(nearest.parse().unwrap());
            let found = caller(&proxies(), nearest, &head(headers).headers);
            assert_eq!(found.ip().to_string(), expected, "{headers:?}");
            let told = (found.ip() != nearest.ip()).then_some(nearest.ip());
            assert_eq!(found.via(), told, "{headers:?}");
        }
    }

    #[test]
    fn scheme_and_host_are_those_that_the_caller_used() {
        let host = ("host", "10.0.0.5:50051");
        for (nearest, headers, expected) in [
            ("10.0.0.1", &[host][..], ("http", "10.0.0.5:50051")),
            (
                "10.0.0.1",
                &[
                    host,
                    ("x-forwarded-proto", "https"),
                    ("x-forwarded-host", "speech.example"),
                ],
                ("https", "speech.example"),
            ),
            (
                "10.0.0.1",
                &[
                    host,
                    (
                        "forwarded",
                        "for=1.2.3.4;host=\"speech.example:8443\";proto=https",
                    ),
                ],
                ("https", "speech.example:8443"),
            ),
            (
                "10.0.0.1",
                &[
                    host,
                    ("x-forwarded-host", "<script>"),
                    ("x-forwarded-proto", "gopher"),
                ],
                ("http", "10.0.0.5:50051"),
            ),
            (
                "192.0.2.1",
                &[
                    host,
                    ("x-forwarded-proto", "https"),
                    ("x-forwarded-host", "evil.example"),
                ],
                ("http", "10.0.0.5:50051"),
            ),
        ] {
            let connected = Connected {
                nearest: CallerAddress::direct(nearest.parse().unwrap()),
                local: None,
                encrypted: false,
            };
            let called = CalledAs::of(&proxies(), &connected, &head(headers));
            assert_eq!(
                (called.scheme(), called.host.as_deref().unwrap()),
                expected,
                "{headers:?}"
            );
        }
    }
}
