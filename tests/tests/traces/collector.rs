//! A collector of spans on a free port.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use omni_config::Config;
use omni_tests::{FakeScript, FakeSpeech, Signed, TestServer};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::metadata::MetadataMap;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// Exported spans, and the metadata of their call.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) metadata: MetadataMap,
    pub(crate) request: ExportTraceServiceRequest,
}

#[derive(Debug, Clone, Default)]
struct Received(Arc<Mutex<Vec<Batch>>>);

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let batch = Batch { metadata, request };
        self.0.lock().push(batch);
        Ok(Response::new(ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess::default()),
        }))
    }
}

/// It runs as long as this lives.
#[derive(Debug)]
pub(crate) struct Collector {
    scheme: &'static str,
    address: SocketAddr,
    received: Received,
    task: JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Collector {
    pub(crate) async fn start() -> Self {
        Self::serve("http", Server::builder()).await
    }

    /// Behind TLS.
    pub(crate) async fn encrypted(signed: &Signed) -> Self {
        let identity = Identity::from_pem(&signed.certificate, &signed.key);
        let tls = ServerTlsConfig::new().identity(identity);
        let server = Server::builder().tls_config(tls).expect("a pair");
        Self::serve("https", server).await
    }

    async fn serve(scheme: &'static str, mut server: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let received = Received::default();
        let service = TraceServiceServer::new(received.clone())
            .accept_compressed(tonic::codec::CompressionEncoding::Gzip);
        let serving = server
            .add_service(service)
            .serve_with_incoming(TcpIncoming::from(listener));
        let task = tokio::spawn(async move { serving.await.expect("it serves") });
        Self {
            scheme,
            address,
            received,
            task,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    pub(crate) fn batches(&self) -> Vec<Batch> {
        let received = self.received.0.lock();
        received.clone()
    }

    /// All spans, in the order of their beginnings.
    pub(crate) fn spans(&self) -> Vec<Seen> {
        let batches = self.batches();
        let spans = batches
            .iter()
            .flat_map(|batch| &batch.request.resource_spans)
            .flat_map(|resource| &resource.scope_spans)
            .flat_map(|scope| &scope.spans);
        let mut spans: Vec<_> = spans.map(Seen::new).collect();
        spans.sort_by_key(|span| span.start);
        spans
    }
}

/// A span as a person reads it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: BTreeMap<String, Value>,
    pub(crate) wire: Span,
}

impl Seen {
    fn new(wire: &Span) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            trace: hex(&wire.trace_id),
            id: hex(&wire.span_id),
            parent: hex(&wire.parent_span_id),
            name: wire.name.clone(),
            start: wire.start_time_unix_nano,
            end: wire.end_time_unix_nano,
            attributes: attributes(&wire.attributes),
            wire: wire.clone(),
        }
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        match self.attributes.get(name) {
            Some(Value::IntValue(count)) => u64::try_from(*count).expect("a count"),
            other => panic!("{name} of {} is {other:?}", self.name),
        }
    }

    pub(crate) fn seconds(&self, name: &str) -> f64 {
        match self.attributes.get(name) {
            Some(Value::DoubleValue(seconds)) => *seconds,
            other => panic!("{name} of {} is {other:?}", self.name),
        }
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        match self.attributes.get(name) {
            Some(Value::StringValue(text)) => text,
            other => panic!("{name} of {} is {other:?}", self.name),
        }
    }

    /// Time of an event within it.
    pub(crate) fn event(&self, name: &str) -> u64 {
        let mut events = self.wire.events.iter();
        let event = events.find(|event| event.name == name);
        event
            .unwrap_or_else(|| panic!("no {name} in {}", self.name))
            .time_unix_nano
    }
}

pub(crate) fn attributes(given: &[KeyValue]) -> BTreeMap<String, Value> {
    let pairs = given.iter().map(|pair| {
        let value = pair.value.clone().and_then(|value| value.value);
        (pair.key.clone(), value.expect("a value"))
    });
    pairs.collect()
}

/// The only span of that name.
pub(crate) fn only<'a>(spans: &'a [Seen], name: &str) -> &'a Seen {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found
        .next()
        .unwrap_or_else(|| panic!("no {name} among {spans:#?}"));
    assert!(found.next().is_none(), "{name} is there twice");
    span
}

/// A server that sends its spans to `url` soon.
pub(crate) async fn server(url: &str, adjust: impl FnOnce(&mut Config)) -> TestServer {
    scripted(url, FakeScript::default(), adjust).await
}

/// As above, with a script of its own.
pub(crate) async fn scripted(url: &str, script: FakeScript, adjust: impl FnOnce(&mut Config)) -> TestServer {
    with_args(url, &[], script, adjust).await
}

/// As above, with arguments.
pub(crate) async fn with_args(
    url: &str,
    args: &[&str],
    script: FakeScript,
    adjust: impl FnOnce(&mut Config),
) -> TestServer {
    let args = [args, &["--otlp-traces-endpoint", url]].concat();
    let soon = |config: &mut Config| {
        let traces = config.traces.as_mut().expect("an endpoint");
        traces.limits.delay = Duration::from_millis(10);
        adjust(config);
    };
    let mut server = TestServer::adjusted(&args, soon, move || Ok(FakeSpeech::new(script))).await;
    server.app.ready().await.expect("the fake model loads");
    server
}
