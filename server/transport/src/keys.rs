//! API keys: which caller sent a request, and what its key opens.
//!
//! The file of keys is read again when it changes: a key can be added or taken back, and its quotas changed, while the server
//! runs. No call waits for that.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap};
use omni_config::{Holder, KeyFile, KeyHash, Scope, hash};
use omni_core::caller::{AuthError, Caller, CallerAddress, QuotaState, Tenant};
use parking_lot::Mutex;

use crate::reload::{Change, Reload, Source};

const SCHEME: &str = "Bearer ";
const OTHER_HEADER: &str = "x-api-key";
/// Time for which the usage of a key is known after it is gone from the file. No quota has a longer period.
const KEPT: Duration = Duration::from_secs(3_600);

/// API keys, if required. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Keys(Option<Arc<Reload<KeySource>>>);

/// A file of keys, and what those that it had have used.
struct KeySource {
    path: PathBuf,
    kept: Mutex<Kept>,
}

/// Holders of keys, and what each has used.
#[derive(Debug)]
struct Known {
    file: KeyFile,
    /// One for every key of `file`. They outlast a change of it.
    accounts: QuotaStates,
}

type QuotaStates = HashMap<KeyHash, Arc<QuotaState>>;

impl Keys {
    /// Asks for a key of the file at `path`, or for none if there is no path.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
    pub fn new(path: Option<&Path>) -> Result<Self, Vec<String>> {
        let Some(path) = path else { return Ok(Self(None)) };
        let source = KeySource {
            path: path.to_owned(),
            kept: Mutex::default(),
        };
        Ok(Self(Some(Arc::new(Reload::new(source)?))))
    }

    /// Polls the file for changes. Never ends.
    pub async fn follow(self) {
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
            return Ok(Caller::anonymous(tenant(extensions)).at(address(extensions)));
        };
        let key = hash(key(headers).ok_or(AuthError::KeyMissing)?);
        let state = keys.current();
        let known = state.file.holder_of(&key).zip(state.accounts.get(&key));
        let (holder, account) = known.ok_or(AuthError::KeyInvalid)?;
        // Log lines of the request name its key, even for a refusal.
        tracing::Span::current().record("key", holder.name.as_str());
        match scope {
            Some(scope) if !holder.scopes.contains(&scope) => Err(AuthError::ScopeMissing(scope)),
            _ => Ok(Caller::holder(Arc::clone(account)).at(address(extensions))),
        }
    }

    /// The holder of a key called `name`, calling from `address`, if its key opens `scope`: for protocols that carry no keys.
    ///
    /// # Errors
    /// Why not.
    pub fn holder(&self, name: &str, address: CallerAddress, scope: Scope) -> Result<Caller, AuthError> {
        let state = self.0.as_ref().ok_or(AuthError::KeyInvalid)?.current();
        let own = state.file.holders().filter(|(_, holder)| holder.name == name);
        // One name may have several keys.
        let found = own.min_by_key(|(key, holder)| (!holder.scopes.contains(&scope), **key));
        let (key, holder) = found.ok_or(AuthError::KeyInvalid)?;
        let account = state.accounts.get(key).ok_or(AuthError::KeyInvalid)?;
        if holder.scopes.contains(&scope) {
            Ok(Caller::holder(Arc::clone(account)).at(Some(address)))
        } else {
            Err(AuthError::ScopeMissing(scope))
        }
    }
}

impl Source for KeySource {
    type Value = Known;

    const NAME: &'static str = "the file of API keys";

    fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn read(&self) -> Result<Known, Vec<String>> {
        let file = KeyFile::read(&self.path)?;
        let accounts = self.kept.lock().accounts(&file, Instant::now());
        Ok(Known { file, accounts })
    }

    fn compare(&self, old: &Known, new: &Known) -> Change {
        if new.file.is_empty() && !old.file.is_empty() {
            return Change::Refused("the file holds no key any more".to_owned());
        }
        let gone = old
            .file
            .holders()
            .filter(|(key, _)| new.file.holder_of(key).is_none());
        match gone.count() {
            0 if new.file.is_unfinished() => Change::Less("the last line has no end".to_owned()),
            0 => Change::Taken,
            gone => Change::Less(format!("keys that are gone: {gone}")),
        }
    }

    fn taken(&self, known: &Known) {
        for (key, holder) in known.file.holders() {
            if let Some(account) = known.accounts.get(key) {
                account.set(&holder.quotas);
            }
        }
    }
}

/// Accounts of all recent keys. A removed key keeps its account for a while: if it returns, its usage still counts,
/// and so do its open streams.
#[derive(Debug, Default)]
struct Kept(HashMap<KeyHash, KeptAccount>);

#[derive(Debug)]
struct KeptAccount {
    account: Arc<QuotaState>,
    /// The first reading without the key, since the last one with it.
    gone: Option<Instant>,
}

impl Kept {
    /// The accounts of a file's keys: those that there were, and new ones.
    fn accounts(&mut self, file: &KeyFile, now: Instant) -> QuotaStates {
        let accounts = file.holders().map(|(key, holder)| {
            let known = self.0.get(key).map(|kept| &kept.account);
            let account = match known {
                Some(known) if known.name() == holder.name => Arc::clone(known),
                Some(known) => Arc::new(known.renamed(&holder.name)),
                None => account(key, holder),
            };
            (*key, account)
        });
        let accounts: QuotaStates = accounts.collect();
        for (key, account) in &accounts {
            let account = Arc::clone(account);
            self.0.insert(*key, KeptAccount { account, gone: None });
        }
        self.0.retain(|key, kept| {
            if accounts.contains_key(key) {
                return true;
            }
            let gone = *kept.gone.get_or_insert(now);
            now.saturating_duration_since(gone) < KEPT || kept.account.is_open()
        });
        accounts
    }
}

fn account(key: &KeyHash, holder: &Holder) -> Arc<QuotaState> {
    let (half, _) = key.split_at(size_of::<u128>());
    let half = half.try_into().map_or(0, u128::from_be_bytes);
    Arc::new(QuotaState::new(&holder.name, Tenant::Key(half), &holder.quotas))
}

/// Tenant of a caller without a key: its address.
pub fn tenant(extensions: &Extensions) -> Tenant {
    address(extensions).map_or(Tenant::Unknown, |address| Tenant::at(address.ip()))
}

/// The address that a call comes from.
pub(super) fn address(extensions: &Extensions) -> Option<CallerAddress> {
    extensions.get().copied()
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
    fn what_a_key_has_used_is_the_keys_whatever_its_file_says_meanwhile() {
        let line = |name: &str| format!("{name} speech sha256:{}\n", "0".repeat(64));
        let file = |text: &str| KeyFile::parse(text).unwrap();
        let mut kept = Kept::default();
        let now = Instant::now();
        let accounts = |kept: &mut Kept, text: &str, seconds| {
            let found = kept.accounts(&file(text), now + Duration::from_secs(seconds));
            found.into_values().next()
        };
        let first = accounts(&mut kept, &line("anna"), 0).unwrap();
        let clock = omni_engine::Stamp(Duration::from_secs(500));
        let stream = Caller::holder(Arc::clone(&first)).open(clock).unwrap();
        assert!(accounts(&mut kept, "", 1).is_none());
        let renamed = accounts(&mut kept, &line("berta"), 2).unwrap();
        assert_eq!((renamed.name(), renamed.is_open()), ("berta", true));
        assert!(accounts(&mut kept, "", 3_000_000).is_none(), "a stream is open");
        assert!(accounts(&mut kept, &line("anna"), 3_000_001).unwrap().is_open());
        drop(stream);
        assert!(accounts(&mut kept, "", 6_000_000).is_none());
        assert!(!kept.0.is_empty(), "it has just gone, however old its file was");
        assert!(accounts(&mut kept, "", 6_003_600).is_none());
        assert!(kept.0.is_empty(), "it was gone for long");
    }

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
