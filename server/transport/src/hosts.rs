//! The host that a request is for. A page on the Internet whose name is made to lead to this machine (DNS rebinding) names itself there.
//!
//! Every request names one host. Where the server listens for this machine alone and asks for no keys, that must be this
//! machine; where names are allowed, one of those or the address that the connection came in at. Proxies change nothing: `X-Forwarded-Host` does not count.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri, Version};
use omni_config::AllowedHosts;
use omni_core::error::log::{Fault, Refusal};
use omni_core::error::{ErrorKind, ServeError, excerpt};

use super::forwarded::CalledAs;
use super::refusal::refusal;

/// Paths that say nothing but how the server is.
const PROBES: [&str; 4] = ["/health", "/healthz", "/readyz", "/livez"];

/// True for the path of a probe.
pub fn is_probe(path: &str) -> bool {
    PROBES.contains(&path)
}

/// Allowed hosts of one port. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    names: AllowedHosts,
    restricted: bool,
}

/// The reason why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("the request names no host, expected one Host header (HTTP/2: one :authority)")]
    Missing,
    #[error("the request names its host more than once, expected one Host header (HTTP/2: one :authority)")]
    Repeated,
    #[error("malformed host {0}, expected a name or an address, and a port")]
    Malformed(String),
    #[error(
        "the host {0} is not answered here, expected localhost, a loopback address, or a name that --allowed-hosts lists"
    )]
    NotAllowed(String),
}

impl HostError {
    /// Its status in HTTP.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NotAllowed(_) => StatusCode::FORBIDDEN,
            Self::Missing | Self::Repeated | Self::Malformed(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl From<HostError> for ServeError {
    fn from(error: HostError) -> Self {
        let (kind, reason) = match error {
            HostError::NotAllowed(_) => (ErrorKind::PermissionDenied, "HOST_NOT_ALLOWED"),
            _ => (ErrorKind::InvalidArgument, "HOST_INVALID"),
        };
        Self::new(kind, reason, error.to_string())
    }
}

impl Hosts {
    /// For a port at `listen`, with or without API keys.
    pub fn new(names: AllowedHosts, listen: IpAddr, has_keys: bool) -> Self {
        let restricted = !names.is_empty() || (listen.is_loopback() && !has_keys);
        Self { names, restricted }
    }

    /// True if a request with these parts of its head is answered, which came in at the address `local`.
    ///
    /// # Errors
    /// The reason, if it is not answered.
    pub fn allow(
        &self,
        version: Version,
        uri: &Uri,
        headers: &HeaderMap,
        local: Option<IpAddr>,
    ) -> Result<(), HostError> {
        let mut named = headers.get_all(HOST).iter();
        let header = named.next();
        if named.next().is_some() {
            return Err(HostError::Repeated);
        }
        let header = match header.map(|host| host.to_str()) {
            Some(Ok(host)) => Some(host.trim()),
            Some(Err(_)) => return Err(HostError::Malformed(String::new())),
            None => None,
        };
        let authority = uri.authority().map(Authority::as_str);
        // HTTP/1.1 asks for a Host header beside a whole address, which counts.
        let host = match (authority, header) {
            (Some(authority), Some(header))
                if version >= Version::HTTP_2 && !header.eq_ignore_ascii_case(authority) =>
            {
                return Err(HostError::Repeated);
            }
            (None, None) | (Some(_), None) if version == Version::HTTP_11 => return Err(HostError::Missing),
            (Some(host), _) | (None, Some(host)) => host,
            // HTTP/1.0 needs none, and haproxy's checks of health have none unless told otherwise.
            (None, None) if version < Version::HTTP_11 && (!self.restricted || is_probe(uri.path())) => {
                return Ok(());
            }
            (None, None) => return Err(HostError::Missing),
        };
        let shown = || excerpt(host);
        let name = name(host).ok_or_else(|| HostError::Malformed(shown()))?;
        if !self.restricted || self.is_own(name, local) {
            return Ok(());
        }
        Err(HostError::NotAllowed(shown()))
    }

    /// True if an operator listed this host, with a port or without.
    pub fn lists(&self, host: &str) -> bool {
        name(host).is_some_and(|name| self.names.contains(name))
    }

    fn is_own(&self, name: &str, local: Option<IpAddr>) -> bool {
        if is_this_machine(name) || self.names.contains(name) {
            return true;
        }
        // No page can have an address for its name that leads elsewhere.
        let address = name.parse::<IpAddr>().ok();
        !self.names.is_empty() && address.is_some() && address == local.map(|local| local.to_canonical())
    }
}

/// Lets requests for hosts that are answered pass.
pub async fn checked(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let local = request
        .extensions()
        .get::<CalledAs>()
        .and_then(|called| called.local);
    let checked = hosts.allow(request.version(), request.uri(), request.headers(), local);
    match checked {
        Ok(()) => next.run(request).await,
        Err(error) => {
            let status = error.status();
            let error = ServeError::from(error);
            Refusal {
                fault: Fault::Caller,
                status: &status.as_u16(),
                reason: error.reason(),
                message: error.message(),
            }
            .log();
            refusal(&error, request.headers())
        }
    }
}

/// The host without its port and without brackets, if it is well formed.
fn name(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (address, rest.strip_prefix(':').or(rest.is_empty().then_some("")))
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, Some("")),
        },
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~%:".contains(&byte);
    let good = !name.is_empty() && name.bytes().all(plain);
    (good && port?.bytes().all(|digit| digit.is_ascii_digit())).then_some(name)
}

/// True if this name, without a port, is `localhost`, a name below it, or a loopback address.
pub(super) fn is_this_machine(name: &str) -> bool {
    let local = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    local == "localhost"
        || local.ends_with(".localhost")
        || name
            .parse()
            .is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

/// True if `host`, with or without a port, names this machine.
pub fn names_this_machine(host: &str) -> bool {
    name(host).is_some_and(is_this_machine)
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    const LOOPBACK: &str = "127.0.0.1";

    fn checked(
        hosts: &Hosts,
        version: Version,
        uri: &str,
        named: &[&str],
        local: &str,
    ) -> Result<(), HostError> {
        let mut request = Request::builder().version(version).uri(uri);
        for host in named {
            request = request.header(HOST, HeaderValue::from_str(host).unwrap());
        }
        let head = request.body(()).unwrap().into_parts().0;
        hosts.allow(
            head.version,
            &head.uri,
            &head.headers,
            Some(local.parse().unwrap()),
        )
    }

    fn hosts(names: &[&str], listen: &str, has_keys: bool) -> Hosts {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Hosts::new(AllowedHosts::new(names), listen.parse().unwrap(), has_keys)
    }

    #[test]
    fn a_server_for_this_machine_without_keys_answers_to_its_own_names_alone() {
        let own = hosts(&[], LOOPBACK, false);
        for host in [
            "localhost",
            "localhost:50051",
            "LOCALHOST:1",
            "localhost.",
            "studio.localhost:50051",
            "127.0.0.1:50051",
            "127.8.9.1",
            "[::1]:50051",
            "[::1]",
            "[::ffff:127.0.0.1]:80",
        ] {
            assert_eq!(
                checked(&own, Version::HTTP_11, "/", &[host], LOOPBACK),
                Ok(()),
                "{host}"
            );
            let uri = format!("http://{host}/");
            assert_eq!(
                checked(&own, Version::HTTP_2, &uri, &[], LOOPBACK),
                Ok(()),
                "{host}"
            );
        }
        for host in [
            "evil.example",
            "evil.example:50051",
            "localhost.evil.example",
            "127.0.0.1.evil.example:1",
            "notlocalhost",
            "192.168.1.2:50051",
            "0.0.0.0:50051",
            "[fd00::1]",
            "127.1",
            "2130706433",
        ] {
            let refused = checked(&own, Version::HTTP_11, "/", &[host], LOOPBACK);
            assert!(
                matches!(refused, Err(HostError::NotAllowed(_))),
                "{host}: {refused:?}"
            );
            let uri = format!("http://{host}/");
            let refused = checked(&own, Version::HTTP_2, &uri, &[], LOOPBACK);
            assert!(
                matches!(refused, Err(HostError::NotAllowed(_))),
                "{host}: {refused:?}"
            );
        }
    }

    #[test]
    fn a_probe_without_a_host_by_the_version_that_needs_none_is_answered() {
        let own = hosts(&[], LOOPBACK, false);
        for path in ["/health", "/healthz", "/readyz", "/livez"] {
            let asked = |version, named: &[&str]| checked(&own, version, path, named, LOOPBACK);
            assert_eq!(asked(Version::HTTP_10, &[]), Ok(()), "{path}");
            assert_eq!(asked(Version::HTTP_11, &[]), Err(HostError::Missing), "{path}");
            assert!(asked(Version::HTTP_10, &["evil.example"]).is_err(), "{path}");
        }
        for path in ["/", "/v1/audio/voices", "/metrics", "/health/../v1/audio/voices"] {
            let refused = checked(&own, Version::HTTP_10, path, &[], LOOPBACK);
            assert_eq!(refused, Err(HostError::Missing), "{path}");
        }
    }

    #[test]
    fn every_request_names_one_host_whoever_is_served() {
        for open in [hosts(&[], "0.0.0.0", false), hosts(&[], LOOPBACK, true)] {
            for (version, uri, named, expected) in [
                (Version::HTTP_11, "/", &["anything.example"][..], Ok(())),
                (Version::HTTP_11, "/", &[], Err(HostError::Missing)),
                (
                    Version::HTTP_11,
                    "/",
                    &["localhost", "localhost"],
                    Err(HostError::Repeated),
                ),
                (Version::HTTP_11, "http://a.example/", &["a.example"], Ok(())),
                (
                    Version::HTTP_11,
                    "http://a.example/",
                    &[],
                    Err(HostError::Missing),
                ),
                (Version::HTTP_10, "/", &[], Ok(())),
                (Version::HTTP_2, "http://a.example/", &[], Ok(())),
                (Version::HTTP_2, "http://a.example/", &["a.example"], Ok(())),
                (
                    Version::HTTP_2,
                    "http://a.example/",
                    &["b.example"],
                    Err(HostError::Repeated),
                ),
                (Version::HTTP_2, "/", &["a.example"], Ok(())),
                (Version::HTTP_2, "/", &[], Err(HostError::Missing)),
            ] {
                assert_eq!(
                    checked(&open, version, uri, named, "10.0.0.5"),
                    expected,
                    "{uri} {named:?}"
                );
            }
            for malformed in ["", "a b", "a:b", "[::1", "[x]", "a/b", "a@b"] {
                let refused = checked(&open, Version::HTTP_11, "/", &[malformed], "10.0.0.5");
                assert!(matches!(refused, Err(HostError::Malformed(_))), "{malformed}");
            }
        }
    }

    #[test]
    fn names_that_are_allowed_hold_wherever_the_server_listens() {
        for named in [
            hosts(&["speech.example"], LOOPBACK, false),
            hosts(&["speech.example"], "0.0.0.0", true),
        ] {
            let asked = |host| checked(&named, Version::HTTP_11, "/", &[host], "10.0.0.5");
            assert_eq!(asked("speech.example:443"), Ok(()));
            assert_eq!(asked("localhost:50051"), Ok(()));
            assert_eq!(
                asked("10.0.0.5:50051"),
                Ok(()),
                "a probe calls the address itself"
            );
            assert!(asked("10.0.0.6:50051").is_err());
            assert!(asked("evil.example").is_err());
        }
    }
}
