//! Counts the calls of the HTTP API, from their head to the last byte of their answer.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use http::{HeaderMap, Method, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use omni_telemetry::{HttpExchange, HttpInstruments};

/// The label of every path that is not served: one series.
const NONE: &str = "none";

/// Counts the calls of these routes.
pub(super) fn counted(routes: Router, instruments: HttpInstruments) -> Router {
    let instruments = Arc::new(instruments);
    routes.layer(from_fn(move |request: Request, next: Next| {
        let call = Call::new(Arc::clone(&instruments), &request);
        async move {
            let response = next.run(request).await;
            call.answers(response)
        }
    }))
}

/// One call, told when its answer is over or its caller is gone.
struct Call {
    instruments: Arc<HttpInstruments>,
    handler: &'static str,
    method: &'static str,
    request_bytes: u64,
    response_bytes: u64,
    /// Status of the answer; 499 (as in nginx) if the caller left before.
    status: u16,
    began: Instant,
}

impl Call {
    fn new(instruments: Arc<HttpInstruments>, request: &Request) -> Self {
        Self {
            instruments,
            handler: handler(request.uri().path()),
            method: method(request.method()),
            request_bytes: length(request.headers()),
            response_bytes: 0,
            status: 499,
            began: Instant::now(),
        }
    }

    fn answers(mut self, response: Response) -> Response {
        self.status = response.status().as_u16();
        let body_length = response.body().size_hint().exact();
        self.response_bytes = length(response.headers()).max(body_length.unwrap_or_default());
        // The call ends with its body.
        response.map(|body| {
            Body::new(body.map_err(move |error| {
                let _call = &self;
                error
            }))
        })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.instruments.answered(&HttpExchange {
            handler: self.handler,
            method: self.method,
            works: works(self.handler, self.method),
            status: self.status,
            request_bytes: self.request_bytes,
            response_bytes: self.response_bytes,
            took: self.began.elapsed(),
        });
    }
}

/// The routes that have a path of their own, as [`OpenAi::routes`](omni_openai::OpenAi::routes) has them.
const ROUTES: [&str; 15] = [
    "/",
    "/v1",
    "/v1/",
    "/health",
    "/healthz",
    "/readyz",
    "/livez",
    "/v1/audio/speech",
    "/v1/audio/speech/explain",
    "/v1/audio/speech/stream",
    "/v1/audio/voices",
    "/v1/audio/models",
    "/v1/models",
    "/v1/chat/completions",
    "/v1/realtime",
];
/// The files of the page for browsers.
const STUDIO: &str = "/studio/{file}";
/// The route to a model, whose path ends in its name.
const MODEL: &str = "/v1/models/{*id}";
/// The route to a voice that is kept.
const VOICE: &str = "/v1/audio/voices/{name}";

fn handler(path: &str) -> &'static str {
    let below = |folder: &str| path.strip_prefix(folder).filter(|id| !id.is_empty());
    let model = below("/v1/models/").map(|_| MODEL);
    let voice = below("/v1/audio/voices/").filter(|name| !name.contains('/'));
    let studio = (path == "/studio" || path.starts_with("/studio/")).then_some(STUDIO);
    let named = ROUTES.into_iter().find(|route| *route == path);
    named
        .or(model)
        .or(studio)
        .or(voice.map(|_| VOICE))
        .unwrap_or(NONE)
}

/// True if a call asks for work.
fn works(handler: &str, method: &str) -> bool {
    method == "POST" && handler.starts_with("/v1/")
}

/// Those that are known; a caller can make no series of its own.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::OPTIONS => "OPTIONS",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        _ => "OTHER",
    }
}

fn length(headers: &HeaderMap) -> u64 {
    let value = headers.get(header::CONTENT_LENGTH);
    let value = value.and_then(|value| value.to_str().ok());
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_a_series_of_its_own_and_all_other_paths_share_one() {
        let source = include_str!("../../../openai/src/lib.rs");
        let routes = source.match_indices(".route(\"").map(|(at, begin)| {
            let rest = &source[at + begin.len()..];
            &rest[..rest.find('"').expect("the end of the path")]
        });
        let routes: Vec<_> = routes.collect();
        assert!(routes.len() > 5, "{routes:?}");
        for route in routes {
            assert_eq!(
                handler(&route.replace("{*id}", "a/b").replace("{name}", "anna")),
                route
            );
        }
        assert_eq!(handler("/wp-login.php"), NONE);
    }
}
