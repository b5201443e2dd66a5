//! Spans as OTLP, over gRPC.
//!
//! Source: opentelemetry-proto, `collector/trace/v1`; OTLP specification 1.x, "Failures". The connection is made when there is
//! something to send, and again when it was lost.

use std::path::Path;

use anyhow::Context as _;
use omni_config::TraceSettings;
use omni_telemetry::{SpanSendError, SpanTransport};
use opentelemetry::{KeyValue, Value};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use opentelemetry_sdk::trace::SpanData;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request};
use tonic_types::StatusExt as _;

/// The conventions that attributes of the resource follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";

/// A collector.
pub(super) struct Otlp {
    client: TraceServiceClient<Channel>,
    headers: MetadataMap,
    resource: ResourceAttributesWithSchema,
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
        // Required of every SDK by the specification: its name, language and version.
        let sdk = Resource::builder_empty()
            .with_detector(Box::new(TelemetryResourceDetector))
            .build();
        let sdk = sdk
            .iter()
            .map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        let own = settings.resource.iter().map(|(key, value)| {
            let number = value.parse::<i64>().ok().filter(|_| key == "process.pid");
            let value = number.map_or_else(|| Value::from(value.clone()), Value::from);
            KeyValue::new(key.clone(), value)
        });
        let resource = own.chain(sdk);
        Ok(Self {
            client,
            headers: MetadataMap::from_headers(settings.headers.clone()),
            resource: ResourceAttributesWithSchema {
                attributes: resource.into(),
                schema_url: Some(SCHEMA.to_owned()),
            },
        })
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
    async fn send(&self, spans: Vec<SpanData>) -> Result<u64, SpanSendError> {
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        let mut request = Request::new(ExportTraceServiceRequest { resource_spans });
        *request.metadata_mut() = self.headers.clone();
        let mut client = self.client.clone();
        let answer = client.export(request).await.map_err(|status| error(&status))?;
        let rejected = answer.into_inner().partial_success;
        Ok(rejected.map_or(0, |partial| u64::try_from(partial.rejected_spans).unwrap_or(0)))
    }
}

fn error(status: &tonic::Status) -> SpanSendError {
    let message = match std::error::Error::source(status) {
        Some(source) => format!("no connection to the collector: {}", root_cause(source)),
        // The collector's message stays out of the log: it may quote the request, even credentials.
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
