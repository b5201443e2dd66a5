//! Names every request, in its answer and in every log line of its work, with its caller's address.
//!
//! In: a request, with an `x-request-id` of its caller or without. Out: the same with one, which its answer has too (of a gRPC call
//! that is initial metadata). The caller's own is taken if it is short and of plain characters, so that it cannot forge log lines.
//! Beside it a line says who calls, with whose key, in which protocol and which route.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{CONTENT_TYPE, SEC_WEBSOCKET_KEY};
use http::{HeaderName, HeaderValue};
use omni_core::call::CallContext;
use omni_core::error::excerpt;
use omni_core::id::{OnRefused, RequestName, WEBSOCKET, in_request, random_u64};
use tracing::Instrument as _;

use super::keys::address;

/// The header of requests and answers.
const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Longest name that a caller may choose, in bytes.
const LONGEST: usize = 128;
const GRPC: &str = "grpc";
const GRPC_WEB: &str = "grpc-web";

/// Names a request, and logs its result.
pub async fn named(State(on_refused): State<OnRefused>, mut request: Request, next: Next) -> Response {
    let own = request.headers().get(HEADER).filter(|id| is_plain(id.as_bytes()));
    let id = own.cloned().unwrap_or_else(new);
    request.headers_mut().insert(HEADER, id.clone());
    let protocol = protocol(&request);
    let route = match protocol {
        GRPC | GRPC_WEB => excerpt(request.uri().path()),
        _ => format!("{} {}", request.method(), excerpt(request.uri().path())),
    };
    let name = RequestName {
        id: id.to_str().unwrap_or_default().to_owned(),
        protocol,
        route,
        caller: address(request.extensions()),
        parent: CallContext::from_headers(request.headers()).trace,
        arrived: Instant::now(),
        traced: AtomicBool::new(false),
        on_refused,
    };
    // At the level of errors, so that lines of any level have it.
    let span = tracing::error_span!(
        "request",
        request_id = %name.id,
        peer = name.caller.map(tracing::field::display),
        key = tracing::field::Empty,
        protocol,
        route = name.route,
    );
    let mut response = in_request(Arc::new(name), next.run(request))
        .instrument(span)
        .await;
    response.headers_mut().insert(HEADER, id);
    response
}

/// The protocol of a request.
fn protocol(request: &Request) -> &'static str {
    let headers = request.headers();
    let kind = headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    if kind.starts_with(b"application/grpc-web") {
        GRPC_WEB
    } else if kind.starts_with(b"application/grpc") {
        GRPC
    } else if headers.contains_key(SEC_WEBSOCKET_KEY) {
        WEBSOCKET
    } else {
        "http"
    }
}

fn is_plain(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=LONGEST).contains(&id.len()) && id.iter().all(plain)
}

fn new() -> HeaderValue {
    let name = format!("req_{:016x}{:016x}", random_u64(), random_u64());
    HeaderValue::try_from(name).unwrap_or_else(|_| HeaderValue::from_static("req_0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_own_name_is_short_and_plain() {
        for good in ["a", "req_0123", "2f1e-4c/5", &"x".repeat(LONGEST)] {
            assert!(is_plain(good.as_bytes()), "{good}");
        }
        for bad in ["", "a b", "a\tb", "\"", "a,b", "\u{e4}", &"x".repeat(LONGEST + 1)] {
            assert!(!is_plain(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn new_names_are_plain_and_differ() {
        assert!(is_plain(new().as_bytes()));
        assert_ne!(new(), new());
    }
}
