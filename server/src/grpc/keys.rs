//! Who may call: the layer that asks for API keys.
//!
//! In: every call of a service. Out: the same, or UNAUTHENTICATED and PERMISSION_DENIED. The file of keys is read again when it
//! changes: a key can be added or taken back while the server runs. No call waits for that.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

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
use crate::reload::Reload;

const SCHEME: &str = "Bearer ";
const OTHER_HEADER: &str = "x-api-key";

/// The keys that are asked for. Copies are the same keys.
#[derive(Debug, Clone, Default)]
pub struct Keys(Option<Arc<Reload<KeyFile>>>);

impl Keys {
    /// Asks for a key of the file at `path`, or for none if there is no path.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
    pub fn new(path: Option<&Path>) -> Result<Self, Vec<String>> {
        let Some(path) = path else { return Ok(Self(None)) };
        let files = vec![path.to_owned()];
        let path = path.to_owned();
        let keys = Reload::new("the file of API keys", files, move || KeyFile::read(&path))?;
        Ok(Self(Some(Arc::new(keys))))
    }

    /// Looks at the file again and again. Never ends.
    pub(super) async fn follow(self) {
        match self.0 {
            Some(keys) => keys.follow().await,
            None => std::future::pending().await,
        }
    }

    /// Whether who sent these headers may do what `scope` covers; without a scope, any good key will do.
    ///
    /// # Errors
    /// Why not.
    pub fn allow(&self, headers: &HeaderMap, scope: Option<Scope>) -> Result<(), ServeError> {
        let Some(keys) = &self.0 else { return Ok(()) };
        let key = key(headers).ok_or(ServeError::ApiKeyMissing)?;
        let file = keys.current();
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
