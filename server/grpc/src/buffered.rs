//! Buffering whole gRPC responses on their way to their readers.

use std::task::{Context, Poll};

use http::{Request, Response};
use omni_transport::{BufferedResponses, ResponseSlot};
use tonic::codegen::BoxFuture;
use tonic::server::NamedService;
use tower::Service;

/// A service whose responses are buffered where they have a [`ResponseSlot`] among their extensions.
#[derive(Debug, Clone)]
pub(super) struct Wrapped<S> {
    inner: S,
    buffered: BufferedResponses,
}

impl<S> Wrapped<S> {
    pub(super) fn new(buffered: BufferedResponses, inner: S) -> Self {
        Self { inner, buffered }
    }
}

impl<S: NamedService> NamedService for Wrapped<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<tonic::body::Body>> for Wrapped<S>
where
    S: Service<Request<tonic::body::Body>, Response = Response<tonic::body::Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<tonic::body::Body>;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let answer = self.inner.call(request);
        let buffered = self.buffered.clone();
        Box::pin(async move {
            let mut response = answer.await?;
            Ok(match response.extensions_mut().remove::<ResponseSlot>() {
                Some(slot) => response.map(|body| tonic::body::Body::new(buffered.wrap(body, slot))),
                None => response,
            })
        })
    }
}
