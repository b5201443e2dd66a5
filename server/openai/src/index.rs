//! Index of the services here, and their health.

use std::net::SocketAddr;

use axum::extract::State;
use axum::http::header::{ACCEPT, CACHE_CONTROL, RETRY_AFTER, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use omni_core::caller::CallerAddress;
use omni_core::drain::ShutdownError;
use omni_core::error::ServeError;
use omni_transport::{CalledAs, names_this_machine};
use serde_json::{Value, json};

use super::{OpenAi, body};

/// Route of a kept voice.
pub(super) const VOICE: &str = "/v1/audio/voices/{name}";

/// Routes under `/v1`: method and path.
pub(super) const ROUTES: [(&str, &str); 11] = [
    ("POST", "/v1/audio/speech"),
    ("POST", "/v1/audio/speech/explain"),
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

/// Path of the page for browsers.
pub(super) const STUDIO: &str = "/studio/";
/// Path of the page relative to the root: a proxy may serve all of this below a prefix.
const STUDIO_BELOW: &str = "studio/";

/// `GET /`: the index, to a browser as the page.
pub(super) async fn root(openai: State<OpenAi>, head: Parts) -> Response {
    let accepts = head.headers.get(ACCEPT).and_then(|kinds| kinds.to_str().ok());
    let browses = accepts.is_some_and(|kinds| kinds.contains("text/html"));
    let mut response = if browses && openai.sites.studio {
        Redirect::temporary(STUDIO_BELOW).into_response()
    } else {
        index(openai, head).await
    };
    let by = HeaderValue::from_static("accept");
    response.headers_mut().insert(VARY, by);
    response
}

/// `GET /v1`: needs no key, and names models only if no key is required or a valid one was sent.
pub(super) async fn index(State(openai): State<OpenAi>, head: Parts) -> Response {
    let called = head.extensions.get::<CalledAs>();
    let scheme = called.map_or("http", CalledAs::scheme);
    let services = openai.sites.grpc_services.iter().filter(|(_, on)| *on);
    let services: Vec<_> = services.map(|(name, _)| *name).collect();
    let mut about = json!({
        "name": "omni-server",
        "version": env!("CARGO_PKG_VERSION"),
        "openai_base_url": format!("{scheme}://{}/v1", called.and_then(|called| called.host.as_deref()).unwrap_or("HOST:PORT")),
        "routes": ROUTES.map(|(method, path)| format!("{method} {path}")),
        "grpc_services": services,
        "health": "/health",
        "metrics": openai.metrics(&head),
        "studio": openai.sites.studio.then_some(STUDIO),
    });
    if let Ok(models) = super::listing::listed(&openai, &head) {
        about["models"] = models.into_iter().map(|model| model.id).collect();
    }
    body(&about)
}

/// `GET /health`: 200 when speech can be requested now, else 503 and the reason. Probes have no keys.
pub(super) async fn health(State(openai): State<OpenAi>) -> Response {
    let stays = if openai.phases.is_leaving() {
        Err(ServeError::from(ShutdownError::Draining))
    } else {
        Ok(())
    };
    let speaks = stays.clone().and_then(|()| openai.catalog.speaks());
    let converses = stays.and_then(|()| openai.catalog.converses());
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

/// `GET /livez`: always 200.
pub(super) async fn alive() -> Response {
    unstored(&json!({"status": "ok"}))
}

fn unstored(report: &Value) -> Response {
    let mut response = body(report);
    let store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, store);
    response
}

/// Address of a port for a caller that called this host: a browser cannot open 0.0.0.0.
fn reachable(address: SocketAddr, called: Option<&str>) -> String {
    if !address.ip().is_unspecified() {
        return address.to_string();
    }
    let host = called.unwrap_or("HOST");
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    format!("{name}:{}", address.port())
}

impl OpenAi {
    /// Address of the metrics for the caller of this request, if it can reach them.
    pub(super) fn metrics(&self, head: &Parts) -> Option<String> {
        let listens = self.sites.metrics?;
        let host = head
            .extensions
            .get::<CalledAs>()
            .and_then(|called| called.host.as_deref());
        let caller = head.extensions.get::<CallerAddress>();
        let is_behind = caller.is_some_and(|caller| caller.via().is_some());
        if is_behind || (listens.ip().is_loopback() && !host.is_some_and(names_this_machine)) {
            return None;
        }
        let address = reachable(listens, host);
        let scheme = if self.sites.metrics_encrypted {
            "https"
        } else {
            "http"
        };
        Some(format!("{scheme}://{address}/metrics"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_at_every_address_is_named_by_the_host_that_was_called() {
        for (listens, called, told) in [
            ("127.0.0.1:9464", Some("studio.example:50051"), "127.0.0.1:9464"),
            (
                "0.0.0.0:9464",
                Some("studio.example:50051"),
                "studio.example:9464",
            ),
            ("0.0.0.0:9464", Some("studio.example"), "studio.example:9464"),
            ("[::]:9464", Some("[fd00::1]:50051"), "[fd00::1]:9464"),
            ("[::]:9464", Some("[fd00::1]"), "[fd00::1]:9464"),
            ("0.0.0.0:9464", None, "HOST:9464"),
        ] {
            let address = listens.parse().expect("an address");
            assert_eq!(reachable(address, called), told, "{listens} as {called:?}");
        }
    }
}
