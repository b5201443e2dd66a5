//! Who may call: the layer that asks for API keys.
//!
//! In: every call of a service. Out: the same, or UNAUTHENTICATED and PERMISSION_DENIED. The file of keys is looked at again
//! when a call comes and a second has passed: a key can be added or taken back while the server runs. A file that
//! cannot be read leaves the keys as they were.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use http_body::Body as HttpBody;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::{BoxError, Service};

use super::status::status;
use crate::config::{KeyFile, Scope};
use crate::error::ServeError;

/// How often the file is looked at, at most.
const LOOK: Duration = Duration::from_secs(1);
const SCHEME: &str = "Bearer ";
const OTHER_HEADER: &str = "x-api-key";

/// The keys that are asked for. Copies are the same keys.
#[derive(Debug, Clone, Default)]
pub struct Keys(Option<Arc<Store>>);

#[derive(Debug)]
struct Store {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: Arc<KeyFile>,
    /// Of what `file` was read from.
    version: Option<Version>,
    /// Of what could not be used.
    bad: Option<Option<Version>>,
    looked: Instant,
}

/// What changes when a file is written again.
type Version = (SystemTime, u64);

impl Keys {
    /// Asks for a key of the file at `path`, or for none if there is no path.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
    pub fn new(path: Option<&Path>) -> Result<Self, Vec<String>> {
        let Some(path) = path else { return Ok(Self(None)) };
        let state = State {
            version: version(path),
            file: Arc::new(KeyFile::read(path)?),
            bad: None,
            looked: Instant::now(),
        };
        Ok(Self(Some(Arc::new(Store {
            path: path.to_owned(),
            state: Mutex::new(state),
        }))))
    }

    /// Whether who sent these headers may do what `scope` covers; without a scope, any good key will do.
    ///
    /// # Errors
    /// Why not.
    pub fn allow(&self, headers: &HeaderMap, scope: Option<Scope>) -> Result<(), ServeError> {
        let Some(store) = &self.0 else { return Ok(()) };
        let key = key(headers).ok_or(ServeError::ApiKeyMissing)?;
        let file = store.current();
        let holder = file.holder(key).ok_or(ServeError::ApiKeyInvalid)?;
        match scope {
            Some(scope) if !holder.scopes.contains(&scope) => Err(ServeError::ScopeMissing(scope)),
            _ => Ok(()),
        }
    }

    /// A service behind these keys.
    pub(super) fn guard<S>(&self, scope: Option<Scope>, inner: S) -> Guarded<S> {
        Guarded {
            inner,
            keys: self.clone(),
            scope,
        }
    }
}

impl Store {
    fn current(&self) -> Arc<KeyFile> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= LOOK {
            state.looked = Instant::now();
            let version = version(&self.path);
            if version != state.version {
                match KeyFile::read(&self.path) {
                    // What is being written is empty for a moment.
                    Ok(file) if !file.is_empty() => {
                        tracing::info!(keys = file.len(), "the file of API keys has been read again");
                        state.file = Arc::new(file);
                        state.version = version;
                    }
                    Ok(_) => self.stay(&mut state, version, &["has no keys".to_owned()]),
                    Err(problems) => self.stay(&mut state, version, &problems),
                }
            }
        }
        Arc::clone(&state.file)
    }

    /// Keeps the keys, and tries again at the next look. Says why once for every version of the file.
    fn stay(&self, state: &mut State, version: Option<Version>, problems: &[String]) {
        if state.bad != Some(version) {
            state.bad = Some(version);
            tracing::error!(file = %self.path.display(), ?problems, "API keys stay as they were");
        }
    }
}

fn version(path: &Path) -> Option<Version> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn key(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(AUTHORIZATION.as_str()).and_then(|value| {
        let (scheme, key) = value.split_at_checked(SCHEME.len())?;
        scheme.eq_ignore_ascii_case(SCHEME).then_some(key)
    });
    bearer.or_else(|| text(OTHER_HEADER)).map(str::trim)
}

/// A service that asks for keys.
#[derive(Debug, Clone)]
pub(super) struct Guarded<S> {
    inner: S,
    keys: Keys,
    scope: Option<Scope>,
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.keys.allow(request.headers(), self.scope) {
            Ok(()) => {
                let answer = self.inner.call(request);
                Box::pin(async move { Ok(answer.await?.map(Body::new)) })
            }
            Err(error) => Box::pin(std::future::ready(Ok(status(&error).into_http()))),
        }
    }
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
