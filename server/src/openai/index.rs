//! What is served here, and whether it can be had now.

use axum::extract::State;
use axum::http::header::{ACCEPT, CACHE_CONTROL, HOST, RETRY_AFTER, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::{Value, json};

use super::{OpenAi, body};
use crate::error::ServeError;

/// The route to a voice that is kept.
pub(super) const VOICE: &str = "/v1/audio/voices/{name}";

/// Routes under `/v1`: method and path.
pub(super) const ROUTES: [(&str, &str); 10] = [
    ("POST", "/v1/audio/speech"),
    ("GET", "/v1/audio/speech/stream"),
    ("GET", "/v1/audio/voices"),
    ("POST", "/v1/audio/voices"),
    ("DELETE", VOICE),
    ("GET", "/v1/audio/models"),
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/realtime"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{id}"),
];

/// The routes in one line.
pub(super) fn listed() -> String {
    ROUTES.map(|(method, path)| format!("{method} {path}")).join(", ")
}

/// Where the page for browsers is.
pub(super) const STUDIO: &str = "/studio/";

/// `GET /`: what is served here, to a browser as the page.
pub(super) async fn root(openai: State<OpenAi>, head: Parts) -> Response {
    let accepts = head.headers.get(ACCEPT).and_then(|kinds| kinds.to_str().ok());
    let browses = accepts.is_some_and(|kinds| kinds.contains("text/html"));
    let mut response = match browses && openai.sites.studio {
        true => Redirect::temporary(STUDIO).into_response(),
        false => index(openai, head).await,
    };
    let by = HeaderValue::from_static("accept");
    response.headers_mut().insert(VARY, by);
    response
}

/// `GET /v1`: asks for no key, and names models only where none is needed or a good one came.
pub(super) async fn index(State(openai): State<OpenAi>, head: Parts) -> Response {
    let scheme = if openai.sites.encrypted { "https" } else { "http" };
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or(head.uri.authority().map(|authority| authority.as_str()));
    let mut about = json!({
        "name": "omni-server",
        "version": env!("CARGO_PKG_VERSION"),
        "openai_base_url": format!("{scheme}://{}/v1", host.unwrap_or("HOST:PORT")),
        "routes": ROUTES.map(|(method, path)| format!("{method} {path}")),
        "grpc_services": openai.sites.grpc_services,
        "health": "/health",
        "metrics": openai.metrics(),
        "studio": openai.sites.studio.then_some(STUDIO),
    });
    if let Ok(models) = super::listing::listed(&openai, &head) {
        about["models"] = models.into_iter().map(|model| model.id).collect();
    }
    body(&about)
}

/// `GET /health`: 200 when speech can be asked for now, else 503 and why. Probes have no keys.
pub(super) async fn health(State(openai): State<OpenAi>) -> Response {
    let (speaks, converses) = (openai.catalog.speaks(), openai.catalog.converses());
    let told = |state: &Result<(), ServeError>| match state {
        Ok(()) => json!({"ready": true}),
        Err(error) => json!({"ready": false, "reason": error.reason(), "message": error.to_string()}),
    };
    let status = match &speaks {
        Ok(()) => "ok",
        Err(_) => "unavailable",
    };
    let report = json!({"status": status, "speech": told(&speaks), "chat": told(&converses)});
    let mut response = unstored(&report);
    if speaks.is_err() {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// `GET /livez`: the process answers.
pub(super) async fn alive() -> Response {
    unstored(&json!({"status": "ok"}))
}

fn unstored(report: &Value) -> Response {
    let mut response = body(report);
    let store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, store);
    response
}

impl OpenAi {
    /// Where metrics are read.
    pub(super) fn metrics(&self) -> Option<String> {
        let address = self.sites.metrics?;
        let scheme = if self.sites.metrics_encrypted {
            "https"
        } else {
            "http"
        };
        Some(format!("{scheme}://{address}/metrics"))
    }
}
