//! OpenAI's HTTP API, over the same services as gRPC: JSON in, `omni.v1` messages to the service, JSON or audio out.
//!
//! In: `POST /v1/audio/speech`, `GET /v1/audio/voices`, `GET /v1/models`, `POST /v1/chat/completions`. Whatever OpenAI's
//! clients may set and this server cannot honour is refused by name, except for compressed formats that nothing here
//! writes: those who ask for MP3 or AAC get WAV, whose content type says so, because every client's default is MP3.

mod answer;
mod chat;
mod error;
mod listing;
mod question;
mod sound;
mod speech;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::extract::rejection::BytesRejection;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{any, get, post};
use serde::de::DeserializeOwned;
use tonic::metadata::MetadataMap;

use self::error::ApiError;
use crate::config::Scope;
use crate::grpc::{Catalog, Chat, Keys, Speech, status};

/// The services that answer.
#[derive(Debug, Clone)]
pub struct OpenAi {
    speech: Arc<Speech>,
    chat: Arc<Chat>,
    catalog: Arc<Catalog>,
    keys: Keys,
}

impl OpenAi {
    /// Answers by these, to who has a key.
    #[must_use]
    pub fn new(speech: Arc<Speech>, chat: Arc<Chat>, catalog: Arc<Catalog>, keys: Keys) -> Self {
        Self {
            speech,
            chat,
            catalog,
            keys,
        }
    }

    /// Whether who sent these headers may do what `scope` covers.
    fn allow(&self, headers: &HeaderMap, scope: Option<Scope>) -> Result<(), ApiError> {
        let allowed = self.keys.allow(headers, scope);
        allowed.map_err(|error| ApiError::new(&status(&error), &[]))
    }

    /// The routes. A body has at most `max_body` bytes.
    pub fn routes(self, max_body: usize) -> Router {
        Router::new()
            .route("/v1/audio/speech", post(speech::create))
            .route("/v1/audio/voices", get(listing::voices))
            .route("/v1/models", get(listing::models))
            .route("/v1/models/{id}", get(listing::model))
            .route("/v1/chat/completions", post(chat::create))
            .route("/v1/{*rest}", any(unknown))
            .layer(DefaultBodyLimit::max(max_body))
            .with_state(self)
    }
}

/// The JSON of a body. It must be called JSON: a browser lets any page send what is called text, but asks before JSON.
fn json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<T, ApiError> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/json")) {
        let problem = "the content type is not application/json";
        return Err(ApiError::unread(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem));
    }
    let body = body.map_err(|rejection| ApiError::unread(rejection.status(), &rejection.body_text()))?;
    serde_json::from_slice(&body).map_err(|error| ApiError::invalid(None, format!("the body: {error}")))
}

async fn unknown() -> ApiError {
    ApiError::unread(StatusCode::NOT_FOUND, "there is no such route here")
}

/// A message to a service, with what the HTTP request says about its caller.
fn request<T>(headers: HeaderMap, message: T) -> tonic::Request<T> {
    let metadata = MetadataMap::from_headers(headers);
    tonic::Request::from_parts(metadata, tonic::Extensions::default(), message)
}
