//! Counts calls and their messages, by the names of go-grpc-prometheus, and logs those that end with an error. A request
//! that ends within its message is its caller's fault, which tonic's status does not say, so that is corrected first.
//!
//! In: every call, of any service. Out: the same, with the instruments of its method updated. Messages are counted in
//! the bytes that pass, so that no service takes part; a call that ends without a status was cancelled. Only methods
//! that are served have series: a caller cannot create any by calling others.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Buf as _, Bytes};
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use omni_core::error::log::{Fault, Refusal};
use omni_core::id::{RequestName, as_request, current_request};
use omni_proto::FILE_DESCRIPTOR_SET;
use omni_telemetry::{CallKind, GrpcCode, GrpcInstruments, Meter};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tower::{Layer, Service};
use tracing::Span;

mod frames;

pub(super) use frames::Frames;

/// Number of messages that end within the pieces of a body.
pub(super) fn messages<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> usize {
    let mut frames = Frames::default();
    pieces.into_iter().map(|piece| frames.messages(piece)).sum()
}

const STATUS: &str = "grpc-status";
const CANCELLED: GrpcCode = GrpcCode(1);
const UNKNOWN: GrpcCode = GrpcCode(2);
const INTERNAL: GrpcCode = GrpcCode(13);

/// Counters of a server's calls. Clones share them.
#[derive(Clone, derive_more::Debug)]
#[debug("CountCalls {{ methods: {:?} }}", self.0.len())]
pub struct CountCalls(Arc<HashMap<String, Arc<GrpcInstruments>>>);

impl CountCalls {
    /// Creates the counters of all methods.
    ///
    /// # Errors
    /// If the descriptors that are compiled in cannot be read.
    pub fn new(meter: &Meter) -> Result<Self, prost::DecodeError> {
        let mut counted = HashMap::new();
        for method in methods()? {
            let Method { service, name, kind } = &method;
            let new = || Arc::new(GrpcInstruments::new(meter, *kind, service, name));
            counted.entry(method.path()).or_insert_with(new);
        }
        Ok(Self(Arc::new(counted)))
    }
}

/// A method that is served.
struct Method {
    /// The full name of its service.
    service: String,
    name: String,
    kind: CallKind,
}

impl Method {
    fn path(&self) -> String {
        format!("/{}/{}", self.service, self.name)
    }
}

/// All methods that are served.
fn methods() -> Result<Vec<Method>, prost::DecodeError> {
    let mut methods = Vec::new();
    for set in [
        FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ] {
        for file in FileDescriptorSet::decode(set)?.file {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                methods.extend(service.method.iter().map(|method| Method {
                    service: name.clone(),
                    name: method.name().to_owned(),
                    kind: match (method.client_streaming(), method.server_streaming()) {
                        (false, false) => CallKind::Unary,
                        (true, false) => CallKind::ClientStream,
                        (false, true) => CallKind::ServerStream,
                        (true, true) => CallKind::BidiStream,
                    },
                }));
            }
        }
    }
    Ok(methods)
}

/// Paths of the methods whose callers send one message.
///
/// # Errors
/// If the descriptors that are compiled in cannot be read.
pub(super) fn whole_requests() -> Result<HashSet<String>, prost::DecodeError> {
    let whole = |method: &Method| matches!(method.kind, CallKind::Unary | CallKind::ServerStream);
    Ok(methods()?
        .iter()
        .filter(|method| whole(method))
        .map(Method::path)
        .collect())
}

impl<S> Layer<S> for CountCalls {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            calls: self.clone(),
        }
    }
}

/// A service whose calls are counted.
#[derive(Debug, Clone)]
pub struct Counted<S> {
    inner: S,
    calls: CountCalls,
}

impl<S: NamedService> NamedService for Counted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
{
    type Response = Response<CountedBody<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let instruments = self.calls.0.get(request.uri().path()).cloned();
        let mut call = Call::new(instruments.clone());
        let end = Arc::clone(&call.request_end);
        let request = request.map(|body| {
            let received = CountedBody {
                body: Box::pin(body),
                frames: Frames::default(),
                instruments,
                side: Side::Request {
                    end,
                    has_message: false,
                },
            };
            Body::new(received)
        });
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            call.answered = true;
            call.blame_caller(response.headers_mut());
            // A response without a message has its status in its headers.
            call.ends_with(response.headers());
            Ok(response.map(|body| CountedBody {
                body: Box::pin(body),
                frames: Frames::default(),
                instruments: call.instruments.clone(),
                side: Side::Response(call),
            }))
        })
    }
}

/// The status in these headers or trailers.
fn code(headers: &HeaderMap) -> Option<GrpcCode> {
    let value = headers.get(STATUS)?.to_str().ok();
    Some(
        value
            .and_then(|value| value.parse().ok())
            .map_or(UNKNOWN, GrpcCode),
    )
}

/// One call, from its begin to its status, or until its caller cancels it.
#[derive(Debug)]
struct Call {
    /// None for an unknown method.
    instruments: Option<Arc<GrpcInstruments>>,
    /// Span of the request: responses are polled outside of it.
    span: Span,
    request: Option<Arc<RequestName>>,
    began: Instant,
    request_end: Arc<RequestEnd>,
    /// `true` once the response has begun.
    answered: bool,
    over: bool,
}

impl Call {
    fn new(instruments: Option<Arc<GrpcInstruments>>) -> Self {
        if let Some(instruments) = &instruments {
            instruments.started();
        }
        Self {
            instruments,
            span: Span::current(),
            request: current_request(),
            began: Instant::now(),
            request_end: Arc::default(),
            answered: false,
            over: false,
        }
    }

    /// Corrects the status of a response to a request that ended before its message: tonic answers as if the server had
    /// failed.
    fn blame_caller(&self, headers: &mut HeaderMap) {
        if !matches!(code(headers), Some(UNKNOWN | INTERNAL)) {
            return;
        }
        let status = if self.request_end.is_broken.load(Ordering::Relaxed) {
            Status::cancelled("the request broke off")
        } else if self.request_end.is_short.load(Ordering::Relaxed) {
            Status::invalid_argument("incomplete request message; expected a whole one")
        } else {
            return;
        };
        // A status of plain words has valid headers.
        let _ = status.add_header(headers);
    }

    /// Ends the call with the status in these headers or trailers, if there is one.
    fn ends_with(&mut self, headers: &HeaderMap) {
        let Some(code) = code(headers) else { return };
        if !self.over
            && let Some(status) = Status::from_header_map(headers)
            && status.code() != Code::Ok
        {
            let info = status.get_details_error_info();
            let reason = info.map(|info| info.reason).unwrap_or_default();
            self.refused(&status, &reason);
        }
        self.end(code);
    }

    fn refused(&self, status: &Status, reason: &str) {
        let refused = || refused(status, reason);
        as_request(self.request.clone(), || self.span.in_scope(refused));
    }

    fn end(&mut self, code: GrpcCode) {
        if !std::mem::replace(&mut self.over, true)
            && let Some(instruments) = &self.instruments
        {
            instruments.handled(code, self.began.elapsed());
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // Responses that had begun have records.
        if !self.over && !self.answered {
            self.refused(&Status::cancelled(""), "");
        }
        self.end(CANCELLED);
    }
}

/// Logs that a call has ended with this status.
pub(super) fn refused(status: &Status, reason: &str) {
    let (fault, name) = match status.code() {
        Code::Cancelled => (Fault::Gone, "CANCELLED"),
        Code::Internal => (Fault::Server, "INTERNAL"),
        Code::Unknown => (Fault::Server, "UNKNOWN"),
        Code::DataLoss => (Fault::Server, "DATA_LOSS"),
        // A server that shuts down does its work.
        Code::Unavailable if matches!(reason, "DRAINING" | "STOPPED" | "MODEL_LOADING") => {
            (Fault::Caller, "UNAVAILABLE")
        }
        Code::Unavailable => (Fault::Server, "UNAVAILABLE"),
        Code::InvalidArgument => (Fault::Caller, "INVALID_ARGUMENT"),
        Code::DeadlineExceeded => (Fault::Caller, "DEADLINE_EXCEEDED"),
        Code::NotFound => (Fault::Caller, "NOT_FOUND"),
        Code::AlreadyExists => (Fault::Caller, "ALREADY_EXISTS"),
        Code::PermissionDenied => (Fault::Caller, "PERMISSION_DENIED"),
        Code::ResourceExhausted => (Fault::Caller, "RESOURCE_EXHAUSTED"),
        Code::FailedPrecondition => (Fault::Caller, "FAILED_PRECONDITION"),
        Code::Aborted => (Fault::Caller, "ABORTED"),
        Code::OutOfRange => (Fault::Caller, "OUT_OF_RANGE"),
        Code::Unimplemented => (Fault::Caller, "UNIMPLEMENTED"),
        Code::Unauthenticated => (Fault::Caller, "UNAUTHENTICATED"),
        Code::Ok => return,
    };
    Refusal {
        fault,
        status: &name,
        reason: if reason.is_empty() { name } else { reason },
        message: status.message(),
    }
    .log();
}

/// The end of a request's body.
#[derive(Debug, Default)]
struct RequestEnd {
    /// It came within a message, or before any.
    is_short: AtomicBool,
    /// It came by an error of the connection.
    is_broken: AtomicBool,
}

/// A direction of a call.
#[derive(Debug)]
enum Side {
    Request { end: Arc<RequestEnd>, has_message: bool },
    Response(Call),
}

/// The body of one direction of a call.
#[derive(Debug)]
pub struct CountedBody<B> {
    body: Pin<Box<B>>,
    frames: Frames,
    instruments: Option<Arc<GrpcInstruments>>,
    side: Side,
}

impl<B> CountedBody<B> {
    fn passes(&mut self, frame: &Frame<Bytes>) {
        if let Some(data) = frame.data_ref() {
            let Some(instruments) = &self.instruments else {
                return;
            };
            for _ in 0..self.frames.messages(data.chunk()) {
                match &mut self.side {
                    Side::Response(_) => instruments.sent(),
                    Side::Request { has_message, .. } => {
                        *has_message = true;
                        instruments.received();
                    }
                }
            }
        } else if let Some(trailers) = frame.trailers_ref()
            && let Side::Response(call) = &mut self.side
        {
            call.ends_with(trailers);
            call.end(UNKNOWN);
        }
    }
}

impl<B: HttpBody<Data = Bytes>> HttpBody for CountedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = self.body.as_mut().poll_frame(context);
        match (&polled, &self.side) {
            (Poll::Ready(Some(Ok(frame))), _) => self.passes(frame),
            (Poll::Ready(Some(Err(_))), Side::Request { end, .. }) => {
                end.is_broken.store(true, Ordering::Relaxed);
            }
            (Poll::Ready(None), Side::Request { end, has_message }) => {
                let is_short = self.frames.is_within() || !has_message;
                end.is_short.store(is_short, Ordering::Relaxed);
            }
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
