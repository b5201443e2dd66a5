//! Bodies of requests: their bounds, their compression, and the JSON in them.

use std::error::Error;
use std::io::{self, Read as _};

use axum::body::{Body, Bytes, to_bytes};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use http_body_util::LengthLimitError;
use omni_core::error::{ServeError, excerpt};
use omni_transport::BodyHold;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use super::notes::Notes;
use super::{OpenAi, blocking, unknown};

/// Longest body, in bytes, that is read on the threads of sessions.
const SHORT: usize = 32 << 10;
/// Bytes that are unpacked in one step.
const STEP: usize = 16 << 10;

/// Compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Gzip,
    /// The format of zlib (RFC 1950), as in HTTP.
    Deflate,
}

impl Packing {
    /// Compression named in the head.
    fn of(head: &Parts) -> Result<Option<Self>, ApiError> {
        let mut packing = None;
        let named = head.headers.get_all(CONTENT_ENCODING).iter();
        let named = named.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        for name in named {
            let name = String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase();
            let next = match name.as_str() {
                "" | "identity" => continue,
                "gzip" | "x-gzip" => Self::Gzip,
                "deflate" => Self::Deflate,
                other => return Err(unpackable(other)),
            };
            if packing.replace(next).is_some() {
                return Err(unpackable("more than one"));
            }
        }
        Ok(packing)
    }

    /// Unpacks the bytes, to at most `limit`; each piece is charged to `hold` before it is kept.
    fn unpacked(self, packed: &[u8], limit: usize, hold: Option<&BodyHold>) -> Result<Bytes, ApiError> {
        let mut reader: Box<dyn io::Read + '_> = match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Self::Deflate => Box::new(ZlibDecoder::new(packed)),
        };
        let mut step = vec![0; STEP];
        let mut bytes = Vec::new();
        loop {
            let read = reader.read(&mut step).map_err(|error| {
                let problem = format!("the body is not what its content-encoding says: {error}");
                ApiError::invalid(None, problem)
            })?;
            if read == 0 {
                return Ok(bytes.into());
            }
            if bytes.len() + read > limit {
                return Err(too_large(limit));
            }
            if let Some(hold) = hold {
                hold.take(read).map_err(|error| ApiError::new(&error, &[]))?;
            }
            bytes.extend_from_slice(&step[..read]);
        }
    }
}

/// Limits of a route's bodies.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyRules {
    /// Longest body in bytes, also when it is unpacked.
    pub(super) longest: usize,
    /// Fields that are never named as ignored, with their content: no answer could lack anything by them.
    pub(super) silent: &'static [&'static str],
}

impl BodyRules {
    fn silences(&self, name: &str) -> bool {
        self.silent.iter().any(|silent| unknown::is_within(name, silent))
    }
}

impl OpenAi {
    /// A body of at most `limit` bytes, unpacked.
    pub(super) async fn read(&self, head: &Parts, body: Body, limit: usize) -> Result<Bytes, ApiError> {
        let packing = Packing::of(head)?;
        let read = tokio::time::timeout(self.limits.request_time, to_bytes(body, limit)).await;
        let late = |_| {
            let problem = "the body did not come in time";
            ApiError::unread(StatusCode::REQUEST_TIMEOUT, "request_timeout", problem)
        };
        let body = read.map_err(late)?.map_err(|error| unread(&error, limit))?;
        let Some(packing) = packing else {
            return Ok(body);
        };
        let hold = head.extensions.get::<BodyHold>().cloned();
        blocking(move || packing.unpacked(&body, limit, hold.as_ref())).await
    }

    /// Parses the JSON of a body and runs `then` on it; returns its result, with the notes of unknown fields. The
    /// content type must be JSON: a browser lets any page send what is called text, but asks before JSON. Called when
    /// the caller is known: bodies of others are not read.
    pub(super) async fn json<T, U>(
        &self,
        head: &Parts,
        body: Body,
        rules: BodyRules,
        then: impl FnOnce(T) -> Result<U, ApiError> + Send + 'static,
    ) -> Result<(U, Notes), ApiError>
    where
        T: DeserializeOwned,
        U: Send + 'static,
    {
        called_json(head)?;
        let body = self.read(head, body, rules.longest).await?;
        let long = body.len() > SHORT;
        let strict = self.sites.strict;
        // Counted until it is parsed, also if the caller has gone.
        let hold = head.extensions.get::<BodyHold>().cloned();
        let parse = move || {
            let parsed = unknown::read(&body).map_err(|error| unreadable::<T>(&body, &error));
            drop((body, hold));
            let (value, mut names) = parsed?;
            names.retain(|name| !rules.silences(name));
            let notes = Notes::unknown(names, strict)?;
            Ok((then(value)?, notes))
        };
        if long { blocking(parse).await } else { parse() }
    }
}

fn called_json(head: &Parts) -> Result<(), ApiError> {
    let kind = head.headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    let kind = String::from_utf8_lossy(kind.unwrap_or_default()).to_ascii_lowercase();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let is_json = essence
        .split_once('/')
        .is_some_and(|(_, subtype)| subtype == "json" || subtype.ends_with("+json"));
    if is_json {
        return Ok(());
    }
    let problem = match essence {
        "" => "missing content-type; expected application/json".to_owned(),
        other => format!(
            "unsupported content-type '{}'; expected application/json",
            excerpt(other)
        ),
    };
    Err(unsupported(&problem))
}

fn unsupported(problem: &str) -> ApiError {
    ApiError::unread(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        problem,
    )
}

fn unpackable(got: &str) -> ApiError {
    let got = excerpt(got);
    unsupported(&format!(
        "unsupported content-encoding '{got}'; expected gzip, deflate or none"
    ))
}

/// The answer where the body could not be read to its end.
fn unread(error: &axum::Error, limit: usize) -> ApiError {
    if let Some(refused) = cause::<ServeError>(error) {
        return ApiError::new(refused, &[]);
    }
    if cause::<LengthLimitError>(error).is_some() {
        return too_large(limit);
    }
    ApiError::unread(
        StatusCode::BAD_REQUEST,
        "body_incomplete",
        "the body broke off before its end",
    )
}

fn too_large(limit: usize) -> ApiError {
    let problem = format!("the body is too long; expected at most {limit} bytes");
    ApiError::unread(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", &problem)
}

fn unreadable<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> ApiError {
    let field = unknown::field_at_fault::<T>(body);
    let problem = match std::str::from_utf8(body) {
        Ok(_) => match &field {
            Some(field) => format!("invalid body: {field}: {}", omni_json::problem(error)),
            None => format!("invalid body: {}", omni_json::problem(error)),
        },
        Err(encoding) => format!(
            "invalid body: byte {} is not UTF-8; expected JSON in UTF-8",
            encoding.valid_up_to()
        ),
    };
    ApiError::invalid(field.as_deref(), problem)
}

/// The first error of this type among an error and its causes.
fn cause<T: Error + 'static>(error: &axum::Error) -> Option<&T> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}
