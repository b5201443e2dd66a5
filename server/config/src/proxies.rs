//! Trusted proxies and allowed host names.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

/// Addresses of trusted proxies. Clones share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl Default for TrustedProxies {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl TrustedProxies {
    /// Those of these networks.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks.into())
    }

    /// True if the machine at this address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// Takes `10.0.0.0/8`, `fd00::/8` and a single address.
///
/// # Errors
/// A message with the problem and what is accepted.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    let parsed = text
        .parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    parsed.map_err(|_| "expected an address or a network like 127.0.0.1, 10.0.0.0/8 or fd00::/8".to_owned())
}

/// Host names of the server. Clones share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHosts {
    /// Lower case, without a port and a dot at the end. "*" is every name, and "*.example.org" every name below that
    /// one.
    names: Arc<[String]>,
}

impl Default for AllowedHosts {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl AllowedHosts {
    /// These names.
    pub fn new(names: Vec<String>) -> Self {
        Self { names: names.into() }
    }

    /// True if no name was given.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// True if this name, without a port, is one of them.
    pub fn contains(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        self.names.iter().any(|name| match name.strip_prefix('*') {
            Some("") => true,
            Some(domain) => host.len() > domain.len() && host.ends_with(domain),
            None => *name == host,
        })
    }
}

/// Takes `speech.example.org`, `192.0.2.1`, `[fd00::1]`, `*.example.org` and `*`. A port is not part of it: every port
/// is allowed.
///
/// # Errors
/// A message with the problem and what is accepted.
pub(super) fn host(text: &str) -> Result<String, String> {
    let expected = "expected a name without a port like speech.example.org, *.example.org for all below it, an address, or *";
    let text = text.trim();
    let text = text
        .strip_suffix('.')
        .filter(|text| *text != "*")
        .unwrap_or(text)
        .to_ascii_lowercase();
    let name = text.strip_prefix("*.").unwrap_or(&text);
    let address = name
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    if let Ok(address) = address {
        return Ok(address.to_string());
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let good = text == "*" || (!name.is_empty() && name.bytes().all(plain) && !name.starts_with('.'));
    good.then_some(text).ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_named_by_address_or_network() {
        let proxies = ["127.0.0.1", "10.1.0.0/16", "fd00::/8", "::1"].map(|text| network(text).unwrap());
        let proxies = TrustedProxies::new(proxies.to_vec());
        for (address, trusted) in [
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("10.1.255.1", true),
            ("10.2.0.1", false),
            ("::ffff:10.1.2.3", true),
            ("fd12::1", true),
            ("::1", true),
            ("2001:db8::1", false),
        ] {
            assert_eq!(proxies.contains(address.parse().unwrap()), trusted, "{address}");
        }
        assert!(!TrustedProxies::default().contains("127.0.0.1".parse().unwrap()));
        for bad in ["", "localhost", "10.0.0.0/33", "10.0.0", "*"] {
            assert!(network(bad).unwrap_err().contains("10.0.0.0/8"), "{bad}");
        }
    }

    #[test]
    fn hosts_are_named_exactly_or_by_what_they_are_below() {
        let hosts = ["Speech.Example.org", "*.internal.example", "[fd00::1]"].map(|text| host(text).unwrap());
        let hosts = AllowedHosts::new(hosts.to_vec());
        for (name, allowed) in [
            ("speech.example.org", true),
            ("SPEECH.example.org.", true),
            ("a.speech.example.org", false),
            ("speech.example.org.evil.example", false),
            ("a.internal.example", true),
            ("a.b.internal.example", true),
            ("internal.example", false),
            ("xinternal.example", false),
            ("fd00::1", true),
        ] {
            assert_eq!(hosts.contains(name), allowed, "{name}");
        }
        assert!(AllowedHosts::new(vec!["*".to_owned()]).contains("anything"));
        for bad in ["", "a:80", "http://a", "a/b", "*a", "a*", ".a", "*."] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }
}
