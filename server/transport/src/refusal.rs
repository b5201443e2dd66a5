//! Answers to requests that reach no handler, each in the protocol of its caller.

use std::collections::HashMap;

use axum::body::Body;
use axum::response::Response;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use omni_core::error::{ErrorKind, ServeError};
use omni_proto::ERROR_DOMAIN;
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// The answer to a request with these headers: a status of gRPC, or a body of JSON as OpenAI's errors have it.
pub fn refusal(error: &ServeError, headers: &HeaderMap) -> Response {
    let (code, status, kind) = match error.kind() {
        ErrorKind::PermissionDenied => (Code::PermissionDenied, StatusCode::FORBIDDEN, "permission_error"),
        ErrorKind::FailedPrecondition => (
            Code::FailedPrecondition,
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
        ),
        ErrorKind::TooManySessions => (
            Code::ResourceExhausted,
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limit_error",
        ),
        ErrorKind::Unavailable => (Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE, "server_error"),
        _ => (
            Code::InvalidArgument,
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
        ),
    };
    let called = headers.get(CONTENT_TYPE).filter(|kind| is_grpc(Some(kind)));
    if let Some(called) = called {
        let details = ErrorDetails::with_error_info(error.reason(), ERROR_DOMAIN, HashMap::new());
        let mut answer = Status::with_error_details(code, error.message(), details).into_http::<Body>();
        answer.headers_mut().insert(CONTENT_TYPE, called.clone());
        return answer;
    }
    let told = json!({
        "error": {
            "message": error.message(),
            "type": kind,
            "param": null,
            "code": error.reason().to_ascii_lowercase(),
        }
    });
    let mut answer = Response::new(Body::from(told.to_string()));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    if let Some(delay) = error.retry() {
        let seconds = delay.as_secs_f64().ceil() as u64;
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

/// True if a content type is gRPC's or gRPC-Web's.
pub fn is_grpc(kind: Option<&HeaderValue>) -> bool {
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}
