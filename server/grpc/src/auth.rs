//! Authentication layer: checks API keys, and refuses pages of other origins. A call goes on with its [`Caller`]
//! among the extensions, or ends with UNAUTHENTICATED or PERMISSION_DENIED.

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body as HttpBody;
use omni_config::Scope;
use omni_core::caller::{AuthError, Caller};
use omni_transport::{ForeignOrigin, Keys, tenant};
use tonic::body::Body;
use tonic::server::NamedService;
use tower::{BoxError, Service};

use super::status::status;

/// A service that requires keys.
#[derive(Debug, Clone)]
pub(super) struct Guarded<S> {
    inner: S,
    keys: Keys,
    scope: Option<Scope>,
    /// The path that needs no key.
    open: Option<&'static str>,
}

impl<S> Guarded<S> {
    /// Requires a key with `scope`; without a scope, any valid key will do.
    pub(super) fn new(keys: &Keys, scope: Option<Scope>, inner: S) -> Self {
        Self {
            inner,
            keys: keys.clone(),
            scope,
            open: None,
        }
    }

    /// Admits calls of `path` without a key. A key that is sent must be valid.
    pub(super) fn but(self, path: &'static str) -> Self {
        Self {
            open: Some(path),
            ..self
        }
    }
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
        let mut request = request;
        let open = self.open == Some(request.uri().path());
        let scope = self.scope.filter(|_| !open);
        let allowed = self.keys.allow(request.headers(), request.extensions(), scope);
        let allowed = match allowed {
            _ if request.extensions().get::<ForeignOrigin>().is_some() => Err(AuthError::ForeignOrigin),
            Err(AuthError::KeyMissing) if open => Ok(Caller::anonymous(tenant(request.extensions()))),
            allowed => allowed,
        };
        match allowed {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                let answer = self.inner.call(request);
                Box::pin(async move { Ok(answer.await?.map(Body::new)) })
            }
            Err(error) => Box::pin(std::future::ready(Ok(status(&error.into()).into_http()))),
        }
    }
}
