//! OpenAI's HTTP API, over the same services as gRPC: JSON in, requests in domain types to the service, JSON or audio
//! out.
//!
//! In: `POST /v1/audio/speech`, `POST /v1/audio/speech/explain`, the WebSockets `GET /v1/audio/speech/stream` and
//! `GET /v1/realtime`, `GET`, `POST` and `DELETE /v1/audio/voices`, `GET /v1/audio/models`, `GET /v1/models`, `POST
//! /v1/chat/completions`, the health of the server, and unknown paths. A field that changes the answer and cannot be
//! honoured is refused by name. Hints that the model cannot follow are ignored, unless the server is strict, and the
//! header `x-omni-ignored` names them.

// Part of a program, and no library for others: items are documented where their names do not say enough.
#![allow(missing_docs)]

mod answer;
mod calls;
mod chat;
mod error;
mod explain;
mod index;
mod json;
mod lean;
mod listing;
mod missing;
mod multipart;
mod notes;
pub mod parsers;
mod question;
mod realtime;
mod request_body;
mod sound;
mod speech;
mod stream;
mod unknown;
mod voices;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::middleware::from_fn;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use omni_config::{ConnectionLimits, Scope};
use omni_core::caller::{AuthError, Caller};
use omni_core::drain::Phases;
use omni_pipeline::orchestrator::StageError;
use omni_services::{Catalog, ChatService, SpeechService, Voices};
use omni_telemetry::ProtocolInstruments;
use omni_transport::{BufferedResponses, Keys};
use serde_json::Value;

use self::error::ApiError;
pub use self::missing::tidied;

/// Facts about the server that routes report besides its services.
#[derive(Debug, Clone, Copy)]
pub struct Sites {
    /// Address of the metrics, if there is one.
    pub metrics: Option<SocketAddr>,
    /// `true` if the metrics are served over TLS.
    pub metrics_encrypted: bool,
    /// `true` if hints that cannot be followed are refused.
    pub strict: bool,
    /// `true` if the page for browsers is served, too.
    pub studio: bool,
    /// Full names of the gRPC services of the same port; `true` for those that are enabled.
    pub grpc_services: [(&'static str, bool); 7],
}

/// The services behind the routes.
#[derive(Debug, Clone)]
pub struct OpenAi {
    speech: SpeechService,
    chat: ChatService,
    catalog: Catalog,
    voices: Voices,
    keys: Keys,
    buffered: BufferedResponses,
    limits: ConnectionLimits,
    phases: Phases,
    /// Counts the requests of WebSockets.
    requests: Arc<ProtocolInstruments>,
    sites: Sites,
}

impl OpenAi {
    /// Creates the routes' state for callers within `limits`; whole responses take their slots from `buffered`.
    pub fn new(
        (speech, chat, catalog, voices): (SpeechService, ChatService, Catalog, Voices),
        keys: Keys,
        buffered: BufferedResponses,
        (limits, requests): (ConnectionLimits, Arc<ProtocolInstruments>),
        phases: Phases,
        sites: Sites,
    ) -> Self {
        Self {
            speech,
            chat,
            catalog,
            voices,
            keys,
            buffered,
            limits,
            phases,
            requests,
            sites,
        }
    }

    /// Caller of a request with this head, if its key has `scope`.
    fn allow(&self, head: &Parts, scope: Option<Scope>) -> Result<Caller, ApiError> {
        let allowed = self.keys.allow(&head.headers, &head.extensions, scope);
        allowed.map_err(|error| ApiError::new(&error.into(), &[]))
    }

    /// Admits requests for lists of names, which need no key; an invalid key is refused all the same. Returns the
    /// caller, unless a key is required and none was sent.
    fn allow_listing(&self, head: &Parts) -> Result<Option<Caller>, ApiError> {
        match self.keys.allow(&head.headers, &head.extensions, None) {
            Ok(caller) => Ok(Some(caller)),
            Err(AuthError::KeyMissing) => Ok(None),
            Err(error) => Err(ApiError::new(&error.into(), &[])),
        }
    }

    /// The routes.
    pub fn routes(self) -> Router {
        Router::new()
            .route("/", get(index::root))
            .route("/v1", get(index::index))
            .route("/v1/", get(index::index))
            .route("/health", get(index::health))
            .route("/healthz", get(index::health))
            .route("/readyz", get(index::health))
            .route("/livez", get(index::alive))
            .route("/v1/audio/speech", post(speech::create))
            .route("/v1/audio/speech/explain", post(explain::explain))
            .route("/v1/audio/speech/stream", get(stream::open))
            .route("/v1/audio/voices", get(listing::voices).post(voices::create))
            .route("/v1/audio/voices/{name}", delete(voices::delete))
            .route("/v1/audio/models", get(listing::speech_models))
            .route("/v1/models", get(listing::models))
            .route("/v1/models/{*id}", get(listing::model))
            .route("/v1/chat/completions", post(chat::create))
            .route("/v1/realtime", get(realtime::open))
            .fallback(missing::route)
            .method_not_allowed_fallback(missing::method)
            .with_state(self)
            .layer(from_fn(notes::refusals))
    }
}

/// Runs `parse` for a long body on a thread for blocking work.
async fn blocking<T: Send + 'static>(
    parse: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let span = tracing::Span::current();
    let parsed = tokio::task::spawn_blocking(move || span.in_scope(parse)).await;
    parsed.unwrap_or_else(|_| Err(ApiError::new(&StageError::panicked("body").into(), &[])))
}

/// An answer of JSON.
fn body(value: &Value) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, kind)], value.to_string()).into_response()
}
