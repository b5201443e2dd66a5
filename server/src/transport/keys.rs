//! API keys: which caller sent a request, and what its key opens.
//!
//! The file of keys is read again when it changes: a key can be added or taken back, and its quotas changed, while the server
//! runs. No call waits for that.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap};

use crate::caller::{AuthError, Caller, QuotaState, Tenant};
use crate::config::{Holder, KeyFile, KeyHash, Scope, hash};
use crate::reload::Reload;

const SCHEME: &str = "Bearer ";
const OTHER_HEADER: &str = "x-api-key";

/// The keys that are asked for. Copies are the same keys.
#[derive(Debug, Clone, Default)]
pub struct Keys(Option<Arc<Reload<Known>>>);

/// Holders of keys, and what each has used.
#[derive(Debug)]
struct Known {
    file: KeyFile,
    /// One for every key of `file`. They outlast a change of it.
    accounts: QuotaStates,
}

type QuotaStates = HashMap<KeyHash, Arc<QuotaState>>;

/// Where a call comes from; among its extensions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

impl Keys {
    /// Asks for a key of the file at `path`, or for none if there is no path.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
    pub fn new(path: Option<&Path>) -> Result<Self, Vec<String>> {
        let Some(path) = path else { return Ok(Self(None)) };
        let files = vec![path.to_owned()];
        let (path, kept) = (path.to_owned(), Mutex::new(QuotaStates::new()));
        let keys = Reload::new("the file of API keys", files, move || {
            let file = KeyFile::read(&path)?;
            let mut before = kept.lock().unwrap_or_else(PoisonError::into_inner);
            *before = accounts(&file, &before);
            let accounts = before.clone();
            Ok(Known { file, accounts })
        })?;
        Ok(Self(Some(Arc::new(keys))))
    }

    /// Looks at the file again and again. Never ends.
    pub(crate) async fn follow(self) {
        match self.0 {
            Some(keys) => keys.follow().await,
            None => std::future::pending().await,
        }
    }

    /// The caller with these headers, if its key opens `scope`; without a scope, any good key will do.
    ///
    /// # Errors
    /// Why not.
    pub fn allow(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
        scope: Option<Scope>,
    ) -> Result<Caller, AuthError> {
        let Some(keys) = &self.0 else {
            return Ok(Caller::anonymous(tenant(extensions)).at(peer(extensions)));
        };
        let key = hash(key(headers).ok_or(AuthError::KeyMissing)?);
        let state = keys.current();
        let known = state.file.holder_of(&key).zip(state.accounts.get(&key));
        let (holder, account) = known.ok_or(AuthError::KeyInvalid)?;
        // Log lines about the request say whose key it has, also that it is refused.
        tracing::Span::current().record("key", holder.name.as_str());
        match scope {
            Some(scope) if !holder.scopes.contains(&scope) => Err(AuthError::ScopeMissing(scope)),
            _ => Ok(Caller::holder(Arc::clone(account)).at(peer(extensions))),
        }
    }

    /// The holder of a key called `name`, calling from `peer`, if its key opens `scope`: for protocols that carry no keys.
    ///
    /// # Errors
    /// Why not.
    pub fn holder(&self, name: &str, peer: IpAddr, scope: Scope) -> Result<Caller, AuthError> {
        let state = self.0.as_ref().ok_or(AuthError::KeyInvalid)?.current();
        let own = state.file.holders().filter(|(_, holder)| holder.name == name);
        // One name may have several keys.
        let found = own.min_by_key(|(key, holder)| (!holder.scopes.contains(&scope), **key));
        let (key, holder) = found.ok_or(AuthError::KeyInvalid)?;
        let account = state.accounts.get(key).ok_or(AuthError::KeyInvalid)?;
        match holder.scopes.contains(&scope) {
            true => Ok(Caller::holder(Arc::clone(account)).at(Some(peer))),
            false => Err(AuthError::ScopeMissing(scope)),
        }
    }
}

/// The accounts of a file's keys: those that there were, with the quotas that hold now, and new ones.
fn accounts(file: &KeyFile, before: &QuotaStates) -> QuotaStates {
    let accounts = file.holders().map(|(key, holder)| {
        let known = before.get(key).filter(|known| known.name() == holder.name);
        let account = known.map_or_else(|| account(key, holder), Arc::clone);
        account.set(&holder.quotas);
        (*key, account)
    });
    accounts.collect()
}

fn account(key: &KeyHash, holder: &Holder) -> Arc<QuotaState> {
    let (half, _) = key.split_at(size_of::<u128>());
    let half = half.try_into().map_or(0, u128::from_be_bytes);
    Arc::new(QuotaState::new(&holder.name, Tenant::Key(half), &holder.quotas))
}

/// Of whom nothing is known but where the call comes from.
pub(crate) fn tenant(extensions: &Extensions) -> Tenant {
    peer(extensions).map_or(Tenant::Unknown, Tenant::at)
}

/// Where a call comes from.
pub(super) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<Peer>().map(|peer| peer.0)
}

fn key(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(AUTHORIZATION.as_str()).and_then(|value| {
        let (scheme, key) = value.split_at_checked(SCHEME.len())?;
        scheme.eq_ignore_ascii_case(SCHEME).then_some(key)
    });
    bearer.or_else(|| text(OTHER_HEADER)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_either_header() {
        let headers = |name: &'static str, value: &str| {
            let value = value.parse().expect("a value");
            HeaderMap::from_iter([(http::HeaderName::from_static(name), value)])
        };
        for (name, value, expected) in [
            ("authorization", "Bearer k", Some("k")),
            ("authorization", "bearer  k ", Some("k")),
            ("authorization", "Basic k", None),
            ("authorization", "Bear", None),
            ("x-api-key", "k", Some("k")),
            ("x-other", "k", None),
        ] {
            assert_eq!(key(&headers(name, value)), expected, "{name}: {value}");
        }
    }
}
