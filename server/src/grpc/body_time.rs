//! Slow-loris protection for calls with one message: it must arrive in time, and within the budget of all of them, packed and
//! unpacked.
//! Calls that stream their messages are left alone: sessions know how long silence may last.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::{BoxError, Service};

use super::serve::MESSAGE_ENCODING;
use super::status::status;
use super::unpacked::Unpacked;
use crate::error::ServeError;
use crate::transport::BodyBudget;

/// How long whole requests may take. Copies share the list of methods.
#[derive(Debug, Clone)]
pub(super) struct BodyTime {
    time: Duration,
    bodies: BodyBudget,
    /// Largest message, in bytes.
    most: usize,
    /// Paths of methods with one request message.
    whole: Arc<HashSet<String>>,
}

impl BodyTime {
    /// For these paths.
    pub(super) fn new(time: Duration, bodies: BodyBudget, most: usize, whole: HashSet<String>) -> Self {
        Self {
            time,
            bodies,
            most,
            whole: Arc::new(whole),
        }
    }

    /// The same for messages of at most `most` bytes.
    pub(super) fn with_most(&self, most: usize) -> Self {
        Self { most, ..self.clone() }
    }

    pub(super) fn layer<S>(&self, inner: S) -> Timely<S> {
        Timely {
            inner,
            body_time: self.clone(),
        }
    }
}

/// A service whose requests come in time, or not at all.
#[derive(Debug, Clone)]
pub(super) struct Timely<S> {
    inner: S,
    body_time: BodyTime,
}

impl<S: NamedService> NamedService for Timely<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for Timely<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        if !self.body_time.whole.contains(request.uri().path()) {
            return self.inner.call(request);
        }
        let time = self.body_time.time;
        let packed = request.headers().contains_key(MESSAGE_ENCODING);
        let request = self.body_time.bodies.count(request);
        let hold = request.extensions().get().filter(|_| packed).cloned();
        let unpacked = hold.map(|hold| Unpacked::new(hold, self.body_time.most));
        let request = request.map(|body| {
            Body::new(Timed {
                body: Body::new(body.map_err(refused)),
                unpacked,
                late: Box::pin(tokio::time::sleep(time)),
                time,
            })
        });
        self.inner.call(request)
    }
}

/// What tonic is told when the budget has no room.
fn refused(error: BoxError) -> Status {
    match error.downcast::<ServeError>() {
        Ok(error) => status(&error),
        Err(error) => Status::from_error(error),
    }
}

/// A body that has until `late`.
struct Timed {
    body: Body,
    /// Set where messages are compressed.
    unpacked: Option<Unpacked>,
    late: Pin<Box<Sleep>>,
    time: Duration,
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let charged = match (&mut self.unpacked, &frame) {
                (Some(unpacked), Some(Ok(frame))) => frame.data_ref().map(|data| unpacked.pass(data)),
                _ => None,
            };
            return Poll::Ready(match charged {
                Some(Err(error)) => Some(Err(status(&error))),
                _ => frame,
            });
        }
        let time = self.time;
        let late = self.late.as_mut().poll(context);
        late.map(|()| {
            Some(Err(Status::deadline_exceeded(format!(
                "the request did not come in full within {time:?}"
            ))))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
