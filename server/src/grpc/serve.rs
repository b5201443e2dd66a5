//! The listener: every service on one port, HTTP/2 bounds stated and not left to defaults.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderValue, Method, Request, Response};
use http_body::Body as HttpBody;
use omni_proto::FILE_DESCRIPTOR_SET;
use omni_proto::riva::tts::riva_speech_synthesis_server::{self, RivaSpeechSynthesisServer};
use omni_proto::v1::catalog_service_server::{self, CatalogServiceServer};
use omni_proto::v1::chat_service_server::{self, ChatServiceServer};
use omni_proto::v1::metrics_service_server::{self, MetricsServiceServer};
use omni_proto::v1::speech_service_server::{self, SpeechServiceServer};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_web::GrpcWebLayer;
use tower::{BoxError, Layer as _, Service};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use super::calls::CountCalls;
use super::catalog::Catalog;
use super::chat::Chat;
use super::keys::Keys;
use super::metrics::{MAX_MESSAGE as MAX_METRICS_MESSAGE, Measurements};
use super::riva::Riva;
use super::speech::Speech;
use crate::config::Scope;

/// Services that are healthy when the model can speak, besides the whole server ("").
pub const SERVICE_NAMES: [&str; 3] = [
    speech_service_server::SERVICE_NAME,
    catalog_service_server::SERVICE_NAME,
    riva_speech_synthesis_server::SERVICE_NAME,
];

/// The service whose health depends on what the model can do.
pub const CHAT_SERVICE_NAME: &str = chat_service_server::SERVICE_NAME;

/// The service that needs no model, and that is healthy where it is on.
pub const METRICS_SERVICE_NAME: &str = metrics_service_server::SERVICE_NAME;

/// The services of one server. Three are shared with the routes of other protocols, which ask them in turn.
#[derive(Debug)]
pub struct Services {
    /// Speaks.
    pub speech: Arc<Speech>,
    /// Converses.
    pub chat: Arc<Chat>,
    /// Tells.
    pub catalog: Arc<Catalog>,
    /// Speaks to clients of NVIDIA Riva.
    pub riva: Riva,
    /// Takes what callers measure.
    pub measurements: Measurements,
    /// Whatever else is served on the port, over HTTP/1.1 too.
    pub routes: axum::Router,
}

/// Bounds of connections.
#[derive(Debug, Clone)]
pub struct GrpcLimits {
    /// Calls at once on one connection.
    pub streams_per_connection: u32,
    /// Largest request message in bytes.
    pub max_message: usize,
    /// A connection without traffic is probed after this.
    pub keepalive: Duration,
    /// A probe that is not answered in this time ends the connection.
    pub keepalive_timeout: Duration,
    /// Origins whose pages may call; none unless stated, "*" for all.
    pub cors_origins: Vec<HeaderValue>,
}

impl Default for GrpcLimits {
    fn default() -> Self {
        Self {
            streams_per_connection: 256,
            max_message: 1 << 20,
            keepalive: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            cors_origins: Vec::new(),
        }
    }
}

/// Requests are text: small windows hold back a flood without slowing anyone.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// How long a browser need not ask again.
const CORS_AGE: Duration = Duration::from_secs(3_600);
const MAX_HEADERS: u32 = 16 << 10;
/// Streams that a caller opened and reset before they were accepted; more ends the connection (rapid reset).
const MAX_RESETS: usize = 64;

/// Serves until `shutdown` resolves and every connection has closed after it.
///
/// # Errors
/// If the descriptors for reflection are unusable or the listener fails.
pub async fn serve<H: Health>(
    listener: TcpListener,
    services: Services,
    health: HealthServer<H>,
    calls: CountCalls,
    keys: Keys,
    limits: GrpcLimits,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let speech = SpeechServiceServer::from_arc(services.speech).max_decoding_message_size(limits.max_message);
    let chat = ChatServiceServer::from_arc(services.chat).max_decoding_message_size(limits.max_message);
    let catalog =
        CatalogServiceServer::from_arc(services.catalog).max_decoding_message_size(limits.max_message);
    let parcels = services.riva.parcels();
    let riva = RivaSpeechSynthesisServer::new(services.riva).max_decoding_message_size(limits.max_message);
    let metrics = MetricsServiceServer::new(services.measurements)
        .max_decoding_message_size(limits.max_message.min(MAX_METRICS_MESSAGE));
    let mut routes = Routes::default();
    let (speaks, converses) = (Some(Scope::Speech), Some(Scope::Chat));
    routes = with(routes, &calls, keys.guard(speaks, speech));
    routes = with(routes, &calls, keys.guard(converses, chat));
    routes = with(routes, &calls, keys.guard(None, catalog));
    routes = with(routes, &calls, keys.guard(speaks, parcels.layer(riva)));
    routes = with(routes, &calls, keys.guard(Some(Scope::Metrics), metrics));
    routes = with(routes, &calls, keys.guard(None, reflection().build_v1()?));
    routes = with(routes, &calls, keys.guard(None, reflection().build_v1alpha()?));
    // Probes have no keys.
    routes = with(routes, &calls, health);
    let router = routes.axum_router_mut();
    *router = std::mem::take(router).merge(services.routes);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    // HTTP/2 has pings; without these a peer on HTTP/1.1 that was lost would stay for ever.
    let incoming = incoming.with_keepalive(Some(limits.keepalive));
    Server::builder()
        .max_concurrent_streams(limits.streams_per_connection)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(MAX_HEADERS)
        .http2_max_pending_accept_reset_streams(Some(MAX_RESETS))
        .http2_keepalive_interval(Some(limits.keepalive))
        .http2_keepalive_timeout(Some(limits.keepalive_timeout))
        .layer(cors(&limits.cors_origins))
        .accept_http1(true)
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, shutdown)
        .await?;
    Ok(())
}

/// With a service more, counted, and open to browsers: what they send as gRPC-Web is translated before it is counted.
fn with<S, B>(routes: Routes, calls: &CountCalls, service: S) -> Routes
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + NamedService,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes, Error: Into<BoxError> + Display> + Send + 'static,
{
    routes.add_service(GrpcWebLayer::new().layer(calls.layer(service)))
}

/// Lets pages of these origins call; "*" is every origin.
fn cors(origins: &[HeaderValue]) -> CorsLayer {
    let exposed = [
        "grpc-status",
        "grpc-message",
        "grpc-status-details-bin",
        "retry-after",
    ];
    if origins.is_empty() {
        return CorsLayer::new();
    }
    let allowed = match origins.iter().any(|origin| origin == "*") {
        true => AllowOrigin::any(),
        false => AllowOrigin::list(origins.to_vec()),
    };
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(AllowHeaders::mirror_request())
        .max_age(CORS_AGE)
        .expose_headers(exposed.map(HeaderName::from_static))
}
