//! Callers: their tenants and their quotas.
//!
//! Made where a call comes in, and passed down with it. A caller with a key is that key, with the usage of its
//! quotas; one without is the machine that it calls from.

mod address;
mod bucket;
mod quota_state;

use std::sync::Arc;
use std::time::Duration;

use omni_config::Scope;
use omni_engine::Stamp;
pub use omni_pipeline::tenant::Tenant;

pub use address::CallerAddress;
pub use quota_state::{OverQuota, QuotaState, StreamPlace};

use crate::error::{ErrorKind, ServeError};

/// Reason why a caller is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("the call has no API key, expected \"authorization: Bearer KEY\" or \"x-api-key: KEY\"")]
    KeyMissing,
    #[error("unknown API key")]
    KeyInvalid,
    #[error("the API key lacks the scope {0}")]
    ScopeMissing(Scope),
    #[error("origin of the page not allowed: --cors-origin does not name it")]
    ForeignOrigin,
}

impl From<AuthError> for ServeError {
    fn from(error: AuthError) -> Self {
        let (kind, reason) = match error {
            AuthError::KeyMissing => (ErrorKind::Unauthenticated, "API_KEY_MISSING"),
            AuthError::KeyInvalid => (ErrorKind::Unauthenticated, "API_KEY_INVALID"),
            AuthError::ScopeMissing(_) => (ErrorKind::PermissionDenied, "SCOPE_MISSING"),
            AuthError::ForeignOrigin => (ErrorKind::PermissionDenied, "ORIGIN_NOT_ALLOWED"),
        };
        Self::new(kind, reason, error.to_string())
    }
}

/// Caller of a call. Clones are the same caller.
#[derive(Clone, derive_more::Debug)]
#[debug("Caller {{ tenant: {:?}, name: {:?} }}", self.tenant, self.name())]
pub struct Caller {
    tenant: Tenant,
    account: Option<Arc<QuotaState>>,
    address: Option<CallerAddress>,
}

impl Caller {
    /// A caller without a key.
    pub fn anonymous(tenant: Tenant) -> Self {
        Self {
            tenant,
            account: None,
            address: None,
        }
    }

    /// The holder of the key with these quotas.
    pub fn holder(account: Arc<QuotaState>) -> Self {
        Self {
            tenant: account.tenant(),
            account: Some(account),
            address: None,
        }
    }

    /// Sets the address that it calls from.
    #[must_use]
    pub fn at(self, address: Option<CallerAddress>) -> Self {
        Self { address, ..self }
    }

    /// Address that it calls from, if it is known.
    pub fn address(&self) -> Option<CallerAddress> {
        self.address
    }

    /// Tenant that it belongs to.
    pub fn tenant(&self) -> Tenant {
        self.tenant
    }

    /// The name of its key, if it has one; never the key.
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

    /// Charges the begin of an utterance or answer of `characters` so far; more may follow.
    ///
    /// # Errors
    /// If its quotas have no room for that.
    pub fn begin(&self, characters: usize, now: Stamp) -> Result<(), OverQuota> {
        match &self.account {
            Some(account) => account.begin(characters, now),
            None => Ok(()),
        }
    }

    /// Charges further characters.
    pub fn more(&self, characters: usize, now: Stamp) {
        if let Some(account) = &self.account {
            account.more(characters, now);
        }
    }

    /// Charges audio of this playing time.
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
