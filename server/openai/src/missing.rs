//! Unknown paths and methods: 404, 405 and 415 with a hint at the existing ones.

use std::future::ready;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::map_request;
use omni_core::error::excerpt;
use tower::Layer as _;

use super::error::ApiError;
use super::index::{ROUTES, STUDIO, VOICE, listed};
use super::{OpenAi, Sites};

/// Header by which clients of the Connect protocol identify it, if not by their content type.
const CONNECT: &str = "connect-protocol-version";

/// Answer for an unknown path.
pub(super) async fn route(State(openai): State<OpenAi>, head: Parts) -> ApiError {
    let path = head.uri.path();
    if is_call(&head, path, &openai.sites) {
        return not_grpc(&head.method);
    }
    let problem = match path {
        "/metrics" => match openai.metrics(&head) {
            Some(url) => format!("metrics have a port of their own: {url}"),
            None => "metrics are not served here: they have a port of their own (--metrics-listen), which may not be reached from everywhere"
                .to_owned(),
        },
        "/studio" | STUDIO => "the page for browsers is off, --studio=on turns it on".to_owned(),
        path => no_route(path),
    };
    ApiError::unread(StatusCode::NOT_FOUND, "route_not_found", &problem)
}

/// Answer for a known path with an unsupported method.
pub(super) async fn method(head: Parts) -> ApiError {
    let path = head.uri.path();
    let route = if path.starts_with("/v1/audio/voices/") {
        VOICE
    } else {
        path
    };
    let taken = ROUTES.iter().filter(|(_, known)| *known == route);
    let taken: Vec<_> = taken.map(|(method, _)| *method).collect();
    let taken = if taken.is_empty() {
        "GET".to_owned()
    } else {
        taken.join(" and ")
    };
    let problem = format!("{} takes {taken}, not {}", excerpt(route), head.method);
    ApiError::unread(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &problem)
}

/// Routes of OpenAI that are not served and that clients ask for by default, and what there is instead.
const NOT_SERVED: [(&str, &str); 4] = [
    (
        "/responses",
        "the Responses API is not served; expected POST /v1/chat/completions, which clients have a setting for",
    ),
    (
        "/completions",
        "completions of a bare text are not served; expected POST /v1/chat/completions",
    ),
    (
        "/audio/transcriptions",
        "transcriptions are not served; expected another server for them",
    ),
    (
        "/audio/translations",
        "transcriptions are not served; expected another server for them",
    ),
];

fn no_route(path: &str) -> String {
    let shown = excerpt(path);
    let known_elsewhere = NOT_SERVED
        .iter()
        .find(|(route, _)| path.strip_prefix("/v1").unwrap_or(path) == *route);
    if let Some((_, problem)) = known_elsewhere {
        return format!("there is no route {shown}: {problem}");
    }
    let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    // Longest end of the path that is a route, with or without the version in front.
    let meant = (0..segments.len()).find_map(|begin| {
        let end = format!("/{}", segments[begin..].join("/"));
        known(&end).or_else(|| known(&format!("/v1{end}")))
    });
    match meant {
        Some(meant) => format!(
            "there is no route {shown}, but {meant}: the base URL of OpenAI's clients ends in /v1, which stands directly behind the port"
        ),
        None => format!("there is no route {shown}, these are: {}", listed()),
    }
}

/// The same routes for paths with needless slashes, too: clients join a base URL that ends in one with a path that
/// begins with one.
pub fn tidied(routes: Router) -> Router {
    let tidy = map_request(|request: Request| ready(tidied_path(request)));
    Router::new().fallback_service(tidy.layer(routes))
}

fn tidied_path(mut request: Request) -> Request {
    let path = request.uri().path();
    if let Some(path) = tidy(path) {
        let target = match request.uri().query() {
            Some(query) => format!("{path}?{query}"),
            None => path,
        };
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = target.parse().ok();
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// The path without needless slashes, if it has any. The page for browsers is a folder, whose slash at the end
/// counts.
fn tidy(path: &str) -> Option<String> {
    let ends = path.len() > 1 && path.ends_with('/') && !path.contains(STUDIO);
    if !path.contains("//") && !ends {
        return None;
    }
    let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut tidy = format!("/{}", segments.join("/"));
    if path.ends_with('/') && tidy.starts_with(STUDIO.trim_end_matches('/')) {
        tidy.push('/');
    }
    Some(tidy)
}

/// Route of this path.
fn known(path: &str) -> Option<&'static str> {
    let plain = ROUTES.iter().find(|(_, route)| *route == path);
    let model = || {
        ROUTES
            .iter()
            .find(|_| path.starts_with("/v1/models/"))
            .map(|_| "/v1/models/{id}")
    };
    plain.map(|(_, route)| *route).or_else(model)
}

/// Returns true if this is a call to a gRPC service in another protocol than gRPC.
fn is_call(head: &Parts, path: &str, sites: &Sites) -> bool {
    let service = path.split('/').nth(1).unwrap_or_default();
    let kind = head.headers.get(CONTENT_TYPE);
    let connect = kind.is_some_and(|kind| {
        let kind = kind.as_bytes();
        kind.starts_with(b"application/connect+") || kind.starts_with(b"application/proto")
    });
    connect
        || head.headers.contains_key(CONNECT)
        || sites.grpc_services.iter().any(|(name, _)| *name == service)
}

/// Error of a call in another protocol: methods are called by POST, and the body is gRPC.
fn not_grpc(method: &Method) -> ApiError {
    let problem = "services are called by gRPC or gRPC-Web (content type application/grpc or application/grpc-web), the Connect \
                   protocol and JSON are not served";
    match *method {
        Method::POST => ApiError::unread(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            problem,
        )
        .into_call(),
        _ => ApiError::unread(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", problem).into_call(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_the_version_is_led_to_the_one_with_it() {
        for (path, meant) in [
            ("/audio/speech", "/v1/audio/speech: the base URL"),
            ("/chat/completions", "/v1/chat/completions: the base URL"),
            ("/models", "/v1/models: the base URL"),
            ("/models/tts-1", "/v1/models/{id}: the base URL"),
            ("/v1/v1/models", "but /v1/models: the base URL"),
            ("/api/v1/audio/speech", "but /v1/audio/speech: the base URL"),
            ("/tts/audio/speech", "but /v1/audio/speech: the base URL"),
            (
                "/openai/deployments/tts-1/audio/speech",
                "but /v1/audio/speech: the base URL",
            ),
            ("/v2/audio/voices/", "but /v1/audio/voices: the base URL"),
        ] {
            let told = no_route(path);
            assert!(told.contains(meant), "{path}: {told}");
        }
    }

    #[test]
    fn a_route_of_openai_that_is_not_served_is_told_with_what_there_is_instead() {
        for (path, instead) in [
            ("/v1/responses", "POST /v1/chat/completions"),
            ("/responses", "POST /v1/chat/completions"),
            ("/v1/completions", "POST /v1/chat/completions"),
            ("/v1/audio/transcriptions", "another server"),
            ("/v1/audio/translations", "another server"),
        ] {
            let told = no_route(path);
            assert!(told.contains(path) && told.contains(instead), "{path}: {told}");
        }
    }

    #[test]
    fn any_other_path_is_told_what_there_is() {
        for path in ["/v1/embeddings", "/", "/x", "/v1/files"] {
            let told = no_route(path);
            assert!(
                told.contains("these are: POST /v1/audio/speech"),
                "{path}: {told}"
            );
        }
    }

    #[test]
    fn needless_slashes_are_left_out_but_for_the_one_of_a_folder() {
        for (path, meant) in [
            ("/v1//audio/speech", Some("/v1/audio/speech")),
            ("//v1///audio//speech//", Some("/v1/audio/speech")),
            ("/v1/audio/speech/", Some("/v1/audio/speech")),
            ("/v1/", Some("/v1")),
            ("//studio/", Some("/studio/")),
            ("/studio//index.html", Some("/studio/index.html")),
            ("/studio/", None),
            ("/", None),
            ("/v1/models/a/b", None),
        ] {
            assert_eq!(tidy(path).as_deref(), meant, "{path}");
        }
    }
}
