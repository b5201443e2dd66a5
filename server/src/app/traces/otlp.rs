//! Spans as OTLP, over gRPC.
//!
//! Source: opentelemetry-proto, `collector/trace/v1`; OTLP specification 1.x, "Failures". The connection is made when there is
//! something to send, and again when it was lost.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use omni_telemetry::{Attribute, Span, SpanEvent, SpanKind, SpanSendError, SpanTransport, SpanValue};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind as WireKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as WireSpan, Status};
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request};
use tonic_types::StatusExt as _;

use crate::config::TraceSettings;

/// The flag of a span that is recorded, and those that say whether its parent is another program's.
const SAMPLED: u32 = 0x1;
const KNOWS_PARENT: u32 = 0x100;
const REMOTE_PARENT: u32 = 0x200;

/// A collector.
pub(super) struct Otlp {
    client: TraceServiceClient<Channel>,
    headers: MetadataMap,
    resource: Resource,
}

impl Otlp {
    /// As configured; nothing is sent yet.
    pub(super) fn new(settings: &TraceSettings) -> anyhow::Result<Self> {
        let mut endpoint = Endpoint::from(settings.endpoint.clone()).connect_timeout(settings.limits.timeout);
        if settings.is_tls() {
            let tls = tls(settings)?;
            endpoint = endpoint
                .tls_config(tls)
                .context("the certificates cannot be used")?;
        }
        let mut client = TraceServiceClient::new(endpoint.connect_lazy());
        if settings.gzip {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        let resource = settings.resource.iter();
        let resource = resource.map(|(key, value)| said(key.clone(), Value::StringValue(value.clone())));
        Ok(Self {
            client,
            headers: MetadataMap::from_headers(settings.headers.clone()),
            resource: Resource {
                attributes: resource.collect(),
                ..Resource::default()
            },
        })
    }

    fn request(&self, spans: &[Span]) -> Request<ExportTraceServiceRequest> {
        let scope = InstrumentationScope {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_spans = ScopeSpans {
            scope: Some(scope),
            spans: spans.iter().map(wire).collect(),
            ..ScopeSpans::default()
        };
        let resource_spans = ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![scope_spans],
            ..ResourceSpans::default()
        };
        let mut request = Request::new(ExportTraceServiceRequest {
            resource_spans: vec![resource_spans],
        });
        *request.metadata_mut() = self.headers.clone();
        request
    }
}

fn tls(settings: &TraceSettings) -> anyhow::Result<ClientTlsConfig> {
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut tls = match &settings.authority {
        Some(path) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(path)?)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    if let Some((certificate, key)) = &settings.identity {
        tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(tls)
}

impl SpanTransport for Otlp {
    async fn send(&mut self, spans: &[Span]) -> Result<u64, SpanSendError> {
        let request = self.request(spans);
        let answer = self
            .client
            .export(request)
            .await
            .map_err(|status| error(&status))?;
        let unwanted = answer.into_inner().partial_success;
        Ok(unwanted.map_or(0, |partial| u64::try_from(partial.rejected_spans).unwrap_or(0)))
    }
}

fn error(status: &tonic::Status) -> SpanSendError {
    let message = match std::error::Error::source(status) {
        Some(source) => format!("no connection to the collector: {}", root_cause(source)),
        // Its words stay out of the log: it may repeat what it was sent, credentials too.
        None => format!("the collector answered {:?}", status.code()),
    };
    match status.code() {
        Code::ResourceExhausted if status.get_details_retry_info().is_none() => SpanSendError::Refused(message),
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss
        // How a connection ends that was lost.
        | Code::Unknown => SpanSendError::Transient(message),
        _ => SpanSendError::Refused(message),
    }
}

/// The innermost error of a chain: that a certificate is not trusted, rather than "transport error".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn wire(span: &Span) -> WireSpan {
    let context = &span.context;
    let at = |stamp: Duration| nanos(context.time(stamp));
    let kind = match span.kind {
        SpanKind::Server => WireKind::Server,
        SpanKind::Internal => WireKind::Internal,
    };
    let event = |event: &SpanEvent| Event {
        time_unix_nano: at(event.at),
        name: event.name.to_owned(),
        ..Event::default()
    };
    let failed = |reason: &str| Status {
        message: reason.to_owned(),
        code: StatusCode::Error.into(),
    };
    WireSpan {
        trace_id: context.trace.to_bytes().to_vec(),
        span_id: span.id.to_bytes().to_vec(),
        parent_span_id: span
            .parent
            .map_or_else(Vec::new, |parent| parent.to_bytes().to_vec()),
        trace_state: context.state.as_deref().unwrap_or_default().to_owned(),
        flags: SAMPLED | KNOWS_PARENT | if span.remote_parent { REMOTE_PARENT } else { 0 },
        name: span.name.clone().into_owned(),
        kind: kind.into(),
        start_time_unix_nano: at(span.start),
        end_time_unix_nano: at(span.end),
        attributes: span.attributes.iter().map(attribute).collect(),
        events: span.events.iter().map(event).collect(),
        status: span.failed.map(failed),
        ..WireSpan::default()
    }
}

fn attribute((name, value): &Attribute) -> KeyValue {
    let value = match value {
        SpanValue::Text(text) => Value::StringValue(text.clone().into_owned()),
        SpanValue::Count(count) => Value::IntValue(i64::try_from(*count).unwrap_or(i64::MAX)),
        SpanValue::Measure(measure) => Value::DoubleValue(*measure),
    };
    said((*name).to_owned(), value)
}

fn said(key: String, value: Value) -> KeyValue {
    KeyValue {
        key,
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
