//! Every service for callers on one port, and the one for operators on another.

use std::convert::Infallible;
use std::fmt::Display;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::middleware::{from_fn, from_fn_with_state, map_request};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as HttpBody;
use omni_config::Scope;
use omni_core::error::{ErrorKind, ServeError, excerpt};
use omni_core::id::OnRefused;
use omni_proto::FILE_DESCRIPTOR_SET;
use omni_proto::riva::tts::riva_speech_synthesis_server::{self, RivaSpeechSynthesisServer};
use omni_proto::v1::admin_service_server::{self, AdminServiceServer};
use omni_proto::v1::catalog_service_server::{self, CatalogServiceServer};
use omni_proto::v1::chat_service_server::{self, ChatServiceServer};
use omni_proto::v1::metrics_service_server::{self, MetricsServiceServer};
use omni_proto::v1::speech_service_server::{self, SpeechServiceServer};
use omni_proto::v1::voice_service_server::{self, VoiceServiceServer};
use omni_proto::v1::watch_service_server::{self, WatchServiceServer};
use omni_transport::{
    BodyBudget, Hosts, Keys, Listener, Port, Seldom, checked, is_grpc, origin, refusal, request_id,
};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_health::pb::health_server::{self, Health, HealthServer};
use tonic_reflection::pb::{v1 as reflection_v1, v1alpha as reflection_v1alpha};
use tonic_web::GrpcWebLayer;
use tower::{BoxError, Layer as _, Service, ServiceExt as _};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use super::admin::Admin;
use super::auth::Guarded;
use super::body_time::BodyTime;
use super::buffered::Wrapped;
use super::calls::{self, CountCalls};
use super::catalog::GrpcCatalog;
use super::chat::GrpcChat;
use super::metrics::{MAX_MESSAGE as MAX_METRICS_MESSAGE, Measurements};
use super::riva::Riva;
use super::speech::GrpcSpeech;
use super::voices::{GrpcVoices, MAX_MESSAGE as MAX_VOICE_MESSAGE};
use super::watch::Watch;

/// Services that are healthy when the model can speak, besides the whole server ("").
pub const SERVICE_NAMES: [&str; 4] = [
    speech_service_server::SERVICE_NAME,
    catalog_service_server::SERVICE_NAME,
    voice_service_server::SERVICE_NAME,
    riva_speech_synthesis_server::SERVICE_NAME,
];

/// Service whose health depends on the model's chat properties.
pub const CHAT_SERVICE_NAME: &str = chat_service_server::SERVICE_NAME;

/// Service that needs no model, and that is healthy where it is enabled.
pub const METRICS_SERVICE_NAME: &str = metrics_service_server::SERVICE_NAME;

/// Service for watching the server at work, where it is enabled. It needs no model.
pub const WATCH_SERVICE_NAME: &str = watch_service_server::SERVICE_NAME;

/// Service for operators, which needs no model either.
pub const ADMIN_SERVICE_NAME: &str = admin_service_server::SERVICE_NAME;

/// The services of one server.
#[derive(Debug)]
pub struct Services {
    /// Speech service.
    pub speech: GrpcSpeech,
    /// Chat service.
    pub chat: GrpcChat,
    /// Catalogue service.
    pub catalog: GrpcCatalog,
    /// Voice service.
    pub voices: GrpcVoices,
    /// Speech service for clients of NVIDIA Riva.
    pub riva: Riva,
    /// Metrics service for callers' measurements.
    pub measurements: Measurements,
    /// Watch service, where it is enabled.
    pub watch: Option<Watch>,
    /// Routes of requests that are not gRPC, over HTTP/1.1 too.
    pub routes: axum::Router,
    /// Budget of requests until a session has them.
    pub bodies: BodyBudget,
}

/// Keys, encryption and bounds of a port.
#[derive(Debug, Clone)]
pub struct Access {
    /// API keys of callers.
    pub keys: Keys,
    /// Port that accepts the connections.
    pub port: Port,
    /// Hosts that are served.
    pub hosts: Hosts,
    /// Origins whose pages may call; none by default, "*" for all.
    pub cors_origins: Vec<HeaderValue>,
    /// Takes requests that were refused.
    pub on_refused: OnRefused,
}

/// Method that clients of Riva call without a key before they speak: names of voices.
const RIVA_VOICES: &str = "/nvidia.riva.tts.RivaSpeechSynthesis/GetRivaSynthesisConfig";
/// Header with the compression of a call's messages.
pub(super) const MESSAGE_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const MESSAGE_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// Largest request message of operators, in bytes.
const MAX_ADMIN_MESSAGE: usize = 16 << 10;
/// Code UNAVAILABLE of gRPC, in the form of headers.
const UNAVAILABLE: &str = "14";
/// Time for which a browser may cache a preflight answer.
const CORS_AGE: Duration = Duration::from_secs(3_600);

/// A generated service that accepts compressed messages. Its limit also bounds the unpacked message.
macro_rules! zipped {
    ($service:expr) => {
        $service
            .accept_compressed(CompressionEncoding::Gzip)
            .send_compressed(CompressionEncoding::Gzip)
    };
}

/// Serves until `shutdown` resolves and every connection has closed after it.
///
/// # Errors
/// If the descriptors for reflection are unusable.
pub async fn serve<H: Health>(
    listener: TcpListener,
    mut services: Services,
    health: HealthServer<H>,
    calls: CountCalls,
    access: Access,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let local = listener.local_addr()?.ip().is_loopback();
    let bodies = services.bodies.clone();
    let others = std::mem::take(&mut services.routes);
    let calls = grpc_routes(services, health, calls, &access)?;
    let counted = map_request(move |request| ready(bodies.count(request).map(axum::body::Body::new)));
    let routes = others
        .layer(counted)
        .layer(from_fn_with_state(calls, calls_apart));
    let routes = checked_routes(routes, &access, local);
    tokio::select! {
        () = Listener::new(listener, access.port.clone(), routes).serve(shutdown) => {}
        () = follow(&access) => {}
    }
    Ok(())
}

/// Every gRPC service of `services`, with its key, its bounds and its figures; health and reflection beside them.
fn grpc_routes<H: Health>(
    services: Services,
    health: HealthServer<H>,
    calls: CountCalls,
    access: &Access,
) -> anyhow::Result<axum::Router> {
    let keys = &access.keys;
    let most = access.port.limits.message_bytes;
    let most_of_voices = most.max(MAX_VOICE_MESSAGE);
    let body_time = BodyTime::new(
        access.port.limits.request_time,
        services.bodies,
        most,
        calls::whole_requests()?,
    );
    // Recordings are larger than texts.
    let recordings = Layers {
        calls: calls.clone(),
        body_time: body_time.with_most(most_of_voices),
    };
    let layers = Layers { calls, body_time };
    let measures = services.measurements.is_on().then_some(METRICS_SERVICE_NAME);
    let watches = services.watch.is_some().then_some(WATCH_SERVICE_NAME);
    let names = [CHAT_SERVICE_NAME]
        .into_iter()
        .chain(measures)
        .chain(watches)
        .chain(SERVICE_NAMES);
    let buffered = services.riva.buffered();

    let speech = zipped!(SpeechServiceServer::new(services.speech)).max_decoding_message_size(most);
    let chat = zipped!(ChatServiceServer::new(services.chat)).max_decoding_message_size(most);
    let catalog = zipped!(CatalogServiceServer::new(services.catalog)).max_decoding_message_size(most);
    let voices = zipped!(VoiceServiceServer::new(services.voices)).max_decoding_message_size(most_of_voices);
    let riva = zipped!(RivaSpeechSynthesisServer::new(services.riva)).max_decoding_message_size(most);
    let riva = Guarded::new(keys, Some(Scope::Speech), Wrapped::new(buffered, riva)).but(RIVA_VOICES);
    let metrics = zipped!(MetricsServiceServer::new(services.measurements))
        .max_decoding_message_size(most.min(MAX_METRICS_MESSAGE));
    let reflection = || reflection(names.clone());

    let mut routes = Routes::default();
    routes = with(routes, &layers, Guarded::new(keys, Some(Scope::Speech), speech));
    routes = with(routes, &layers, Guarded::new(keys, Some(Scope::Chat), chat));
    routes = with(routes, &layers, Guarded::new(keys, None, catalog));
    routes = with(
        routes,
        &recordings,
        Guarded::new(keys, Some(Scope::Speech), voices),
    );
    routes = with(routes, &layers, riva);
    routes = with(routes, &layers, Guarded::new(keys, Some(Scope::Metrics), metrics));
    if let Some(watch) = services.watch {
        let watch = zipped!(WatchServiceServer::new(watch)).max_decoding_message_size(MAX_ADMIN_MESSAGE);
        routes = with(routes, &layers, Guarded::new(keys, Some(Scope::Admin), watch));
    }
    routes = with(
        routes,
        &layers,
        Guarded::new(keys, None, reflection().build_v1()?),
    );
    routes = with(
        routes,
        &layers,
        Guarded::new(keys, None, reflection().build_v1alpha()?),
    );
    // Probes have no keys.
    routes = with(routes, &layers, health);
    Ok(routes.prepare().into_axum_router().fallback(no_such_service))
}

/// The routes behind the checks of all requests, whatever their protocol: origin, host, and the phase of the server.
fn checked_routes(routes: axum::Router, access: &Access, local: bool) -> axum::Router {
    let allowed: Arc<[HeaderValue]> = access.cors_origins.clone().into();
    let hosts = access.hosts.clone();
    routes
        .layer(map_request(move |request: axum::extract::Request| {
            ready(origin::marked(request, &allowed, local, &hosts))
        }))
        .layer(cors(&access.cors_origins))
        .layer(from_fn_with_state(access.hosts.clone(), checked))
        .layer(from_fn(seen_by_proxies))
        .layer(from_fn_with_state(access.on_refused.clone(), request_id::named))
}

/// Follows the files of keys and certificates, for ever.
async fn follow(access: &Access) {
    tokio::join!(access.keys.clone().follow(), async {
        if let Some(tls) = &access.port.tls {
            tls.clone().follow().await;
        }
    });
}

/// Serves operators until `shutdown` resolves and every connection has closed after it. The files of `access` are
/// watched where callers are served.
///
/// # Errors
/// If the descriptors for reflection are unusable.
pub async fn serve_admin<H: Health>(
    listener: TcpListener,
    admin: Admin,
    health: HealthServer<H>,
    calls: CountCalls,
    access: Access,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let scope = Some(Scope::Admin);
    let keys = access.keys;
    let admin = zipped!(AdminServiceServer::new(admin)).max_decoding_message_size(MAX_ADMIN_MESSAGE);
    let reflection = || reflection([ADMIN_SERVICE_NAME].into_iter());
    let v1 = reflection().build_v1()?;
    let v1alpha = reflection().build_v1alpha()?;
    let routes = Routes::default()
        .add_service(calls.layer(Guarded::new(&keys, scope, admin)))
        .add_service(calls.layer(Guarded::new(&keys, scope, v1)))
        .add_service(calls.layer(Guarded::new(&keys, scope, v1alpha)))
        .add_service(calls.layer(health));
    let routes = routes.prepare().into_axum_router();
    let routes = routes
        .layer(from_fn(only_grpc))
        .layer(from_fn_with_state(access.hosts, checked))
        .layer(from_fn_with_state(access.on_refused, request_id::named));
    Listener::new(listener, access.port, routes).serve(shutdown).await;
    Ok(())
}

/// Passes only content types of gRPC. A browser lets any page post a text or an empty body to this machine without
/// asking first, and harm is done without reading the answer.
async fn only_grpc(
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    let kind = request.headers().get(CONTENT_TYPE);
    match is_grpc(kind) {
        true if is_downgraded(&request) => needs_http2(&request),
        true => next.run(packed_alike(request)).await,
        false => http::StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response(),
    }
}

/// Routes gRPC and gRPC-Web to the services, and everything else to the HTTP routes. The content type decides, not
/// the path: an unknown path is answered in the protocol of its caller.
async fn calls_apart(
    State(services): State<axum::Router>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    match is_grpc(request.headers().get(CONTENT_TYPE)) {
        true if is_downgraded(&request) => needs_http2(&request),
        true => {
            let answer = services.oneshot(packed_alike(request)).await;
            answer.unwrap_or_else(|never| match never {})
        }
        false => next.run(request).await,
    }
}

/// Returns true if a call of native gRPC came by HTTP/1.1, from a proxy that is configured for HTTP alone.
fn is_downgraded(request: &axum::extract::Request) -> bool {
    let kind = request.headers().get(CONTENT_TYPE);
    let web = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc-web"));
    request.version() < Version::HTTP_2 && !web
}

/// Answer to such a call. The log has a line of it now and then, for the operator of the proxy.
fn needs_http2(request: &axum::extract::Request) -> axum::response::Response {
    const TOLD: &str = "gRPC needs HTTP/2, and this call came by HTTP/1.1: the proxy in front must speak HTTP/2 (h2c) to the \
                        server for the content type application/grpc, as grpc_pass of nginx and h2c:// do";
    static SAID: Seldom = Seldom::new();
    if SAID.now() {
        tracing::warn!("gRPC call by HTTP/1.1 refused: {TOLD}");
    }
    let error = ServeError::new(ErrorKind::FailedPrecondition, "HTTP2_NEEDED", TOLD);
    refusal(&error, request.headers())
}

/// Adds HTTP status 503 to gRPC calls that are refused as UNAVAILABLE before their first message, because the server loads its model or
/// drains: a proxy then tries another server. Clients of gRPC read its own status beside it, or take 503 for UNAVAILABLE.
async fn seen_by_proxies(
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    let mut answer = next.run(request).await;
    let headers = answer.headers();
    let unavailable = headers.get("grpc-status").is_some_and(|code| code == UNAVAILABLE);
    let native = headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind == "application/grpc");
    if unavailable && native {
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    answer
}

/// Compresses the responses of a call only if its requests are compressed. Every client of gRPC's own library accepts
/// compressed messages, and audio is not made smaller by it.
fn packed_alike(mut request: axum::extract::Request) -> axum::extract::Request {
    if !request.headers().contains_key(MESSAGE_ENCODING) {
        request.headers_mut().remove(MESSAGE_ACCEPT_ENCODING);
    }
    request
}

/// UNIMPLEMENTED, in the caller's own kind of gRPC.
async fn no_such_service(request: axum::extract::Request) -> axum::response::Response {
    let told = format!(
        "{} is not served here, reflection lists what is",
        excerpt(request.uri().path())
    );
    let status = tonic::Status::unimplemented(told);
    calls::refused(&status, "");
    let mut answer = status.into_http::<axum::body::Body>();
    if let Some(kind) = request.headers().get(CONTENT_TYPE) {
        answer.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    answer
}

/// Reflection of these services, those for probes and itself.
fn reflection(names: impl Iterator<Item = &'static str>) -> tonic_reflection::server::Builder<'static> {
    let builder = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        // Details of errors.
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET);
    let always = [
        health_server::SERVICE_NAME,
        reflection_v1::server_reflection_server::SERVICE_NAME,
        reflection_v1alpha::server_reflection_server::SERVICE_NAME,
    ];
    names
        .chain(always)
        .fold(builder, |builder, name| builder.with_service_name(name))
}

/// Layers in front of every service.
struct Layers {
    calls: CountCalls,
    body_time: BodyTime,
}

/// Adds a service, counted, and open to browsers: gRPC-Web is translated before it is counted.
fn with<S, B>(routes: Routes, layers: &Layers, service: S) -> Routes
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + NamedService,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes, Error: Into<BoxError> + Display> + Send + 'static,
{
    let timely = layers.body_time.layer(service);
    routes.add_service(GrpcWebLayer::new().layer(layers.calls.layer(timely)))
}

/// CORS for pages of these origins; "*" is every origin.
fn cors(origins: &[HeaderValue]) -> CorsLayer {
    let exposed = [
        "grpc-status",
        "grpc-message",
        "grpc-status-details-bin",
        "retry-after",
        "x-request-id",
        "x-omni-ignored",
        "x-omni-warning",
        "x-sample-rate",
    ];
    if origins.is_empty() {
        return CorsLayer::new();
    }
    let allowed = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.to_vec())
    };
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .max_age(CORS_AGE)
        .expose_headers(exposed.map(HeaderName::from_static))
}
