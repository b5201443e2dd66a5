//! Counts calls and their messages, by the names of go-grpc-prometheus.
//!
//! In: every call, whatever its service. Out: the same, and what the instruments of its method are told. Messages are counted where
//! they pass as bytes, so that no service knows of it; a call that ends without a status was cancelled. Only methods that
//! are served have series: a caller cannot make any by asking for what there is not.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Buf as _, Bytes};
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use omni_proto::FILE_DESCRIPTOR_SET;
use omni_telemetry::{CallKind, GrpcCode, GrpcInstruments, Meter};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::{Layer, Service};

mod frames;

use frames::Frames;

/// How many messages end within the pieces of a body.
pub(super) fn messages<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> usize {
    let mut frames = Frames::default();
    pieces.into_iter().map(|piece| frames.messages(piece)).sum()
}

const STATUS: &str = "grpc-status";
const CANCELLED: GrpcCode = GrpcCode(1);
const UNKNOWN: GrpcCode = GrpcCode(2);

/// Counts the calls of a server. Copies count together.
#[derive(Clone)]
pub struct CountCalls(Arc<HashMap<String, Arc<GrpcInstruments>>>);

impl fmt::Debug for CountCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountCalls")
            .field("methods", &self.0.len())
            .finish()
    }
}

impl CountCalls {
    /// Of all methods that are served.
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
        let call = instruments.clone().map(Call::new);
        let request = request.map(|body| {
            let received = CountedBody {
                body: Box::pin(body),
                frames: Frames::default(),
                instruments,
                call: None,
            };
            Body::new(received)
        });
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            let mut call = call;
            // An answer without a message has its status at its head.
            if let Some(call) = &mut call
                && let Some(code) = code(response.headers())
            {
                call.end(code);
            }
            Ok(response.map(|body| CountedBody {
                body: Box::pin(body),
                frames: Frames::default(),
                instruments: call.as_ref().map(|call| Arc::clone(&call.instruments)),
                call,
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
    instruments: Arc<GrpcInstruments>,
    began: Instant,
    over: bool,
}

impl Call {
    fn new(instruments: Arc<GrpcInstruments>) -> Self {
        instruments.started();
        Self {
            instruments,
            began: Instant::now(),
            over: false,
        }
    }

    fn end(&mut self, code: GrpcCode) {
        if !std::mem::replace(&mut self.over, true) {
            self.instruments.handled(code, self.began.elapsed());
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.end(CANCELLED);
    }
}

/// One direction of a call. The way back has the call.
#[derive(Debug)]
pub struct CountedBody<B> {
    body: Pin<Box<B>>,
    frames: Frames,
    instruments: Option<Arc<GrpcInstruments>>,
    call: Option<Call>,
}

impl<B> CountedBody<B> {
    fn passes(&mut self, frame: &Frame<Bytes>) {
        let Some(instruments) = &self.instruments else {
            return;
        };
        if let Some(data) = frame.data_ref() {
            for _ in 0..self.frames.messages(data.chunk()) {
                match self.call {
                    Some(_) => instruments.sent(),
                    None => instruments.received(),
                }
            }
        } else if let Some(trailers) = frame.trailers_ref()
            && let Some(call) = &mut self.call
        {
            call.end(code(trailers).unwrap_or(UNKNOWN));
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
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.passes(frame);
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
