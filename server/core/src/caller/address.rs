//! The address of a caller; behind trusted proxies, the one that they report.

use std::fmt;
use std::net::IpAddr;

/// Address that a call comes from. Among the extensions of every request; its display is the form in log lines and
/// traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallerAddress {
    ip: IpAddr,
    via: Option<IpAddr>,
}

impl CallerAddress {
    /// The other end of the connection.
    pub fn direct(ip: IpAddr) -> Self {
        Self {
            ip: ip.to_canonical(),
            via: None,
        }
    }

    /// A caller behind this one, which is a trusted proxy.
    #[must_use]
    pub fn behind(self, ip: IpAddr) -> Self {
        Self {
            ip: ip.to_canonical(),
            via: Some(self.via.unwrap_or(self.ip)),
        }
    }

    /// The address of the caller itself.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// The trusted proxy at the other end of the connection, if the call came through one.
    pub fn via(&self) -> Option<IpAddr> {
        self.via
    }
}

impl fmt::Display for CallerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip.fmt(f)
    }
}
