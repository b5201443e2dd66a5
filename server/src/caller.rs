//! Callers: whose share of the server a call has, and whose quotas.
//!
//! Made where a call comes in, and handed down with it. A caller with a key is that key, with the account of what it has used;
//! one without is the machine that it calls from.

mod bucket;
mod quota_state;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use omni_engine::Stamp;

pub use quota_state::{OverQuota, QuotaState, StreamPlace};

use crate::config::Scope;
use crate::error::{ErrorKind, ServeError};

/// Why a caller is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("the call has no API key, expected \"authorization: Bearer KEY\" or \"x-api-key: KEY\"")]
    KeyMissing,
    #[error("the API key is not known here")]
    KeyInvalid,
    #[error("the API key does not open this: it lacks the scope {0}")]
    ScopeMissing(Scope),
}

impl From<AuthError> for ServeError {
    fn from(error: AuthError) -> Self {
        let (kind, reason) = match error {
            AuthError::KeyMissing => (ErrorKind::Unauthenticated, "API_KEY_MISSING"),
            AuthError::KeyInvalid => (ErrorKind::Unauthenticated, "API_KEY_INVALID"),
            AuthError::ScopeMissing(_) => (ErrorKind::PermissionDenied, "SCOPE_MISSING"),
        };
        Self::new(kind, reason, error.to_string())
    }
}

/// Callers that share the server with other tenants as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tenant {
    /// Nothing is known of the caller.
    Unknown,
    /// The callers from one address; for IPv6 from one network, of which every caller has 2^64 addresses.
    Address(IpAddr),
    /// The callers with one key, by a part of its hash.
    Key(u128),
}

impl Tenant {
    /// The callers from this address.
    #[must_use]
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

/// The caller of a call. Copies are the same caller.
#[derive(Clone)]
pub struct Caller {
    tenant: Tenant,
    account: Option<Arc<QuotaState>>,
    peer: Option<IpAddr>,
}

impl Caller {
    /// Without a key.
    #[must_use]
    pub fn anonymous(tenant: Tenant) -> Self {
        Self {
            tenant,
            account: None,
            peer: None,
        }
    }

    /// With the key that has this account.
    #[must_use]
    pub fn holder(account: Arc<QuotaState>) -> Self {
        Self {
            tenant: account.tenant(),
            account: Some(account),
            peer: None,
        }
    }

    /// The same, calling from this address.
    #[must_use]
    pub fn at(self, peer: Option<IpAddr>) -> Self {
        Self { peer, ..self }
    }

    /// The address that it calls from, if that is known.
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// With whom it shares.
    #[must_use]
    pub fn tenant(&self) -> Tenant {
        self.tenant
    }

    /// The name of its key, if it has one; never the key.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.account.as_ref().map(|account| account.name())
    }

    /// Begins a call at `now`, which lasts until the place is dropped.
    ///
    /// # Errors
    /// If its quotas have no room for another one.
    pub fn open(&self, now: Stamp) -> Result<Option<StreamPlace>, OverQuota> {
        let account = self.account.as_ref();
        account.map(|account| account.open(now)).transpose()
    }

    /// Begins to speak or to answer: `characters` have come, and more may follow.
    ///
    /// # Errors
    /// If its quotas have no room for that.
    pub fn begin(&self, characters: usize, now: Stamp) -> Result<(), OverQuota> {
        match &self.account {
            Some(account) => account.begin(characters, now),
            None => Ok(()),
        }
    }

    /// More characters have come.
    pub fn more(&self, characters: usize, now: Stamp) {
        if let Some(account) = &self.account {
            account.more(characters, now);
        }
    }

    /// Audio of this playing time was sent.
    pub fn heard(&self, audio: Duration, now: Stamp) {
        if let Some(account) = &self.account {
            account.heard(audio, now);
        }
    }
}

impl Default for Caller {
    fn default() -> Self {
        Self::anonymous(Tenant::Unknown)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("tenant", &self.tenant)
            .field("name", &self.name())
            .finish()
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
