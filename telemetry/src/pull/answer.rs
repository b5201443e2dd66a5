//! One answer: its body, compressed if the caller takes that, or only its head.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, VARY,
    WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use crate::exposition::Format;

const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The text for readers when nothing is recorded: never an empty body, which looks like a fault.
const NOTHING: &str = "# nothing to show: statistics are off, or no family has one of these names\n";

pub(super) struct Answer {
    status: StatusCode,
    content_type: &'static str,
    body: String,
}

impl Answer {
    pub(super) fn metrics(text: String, format: Format) -> Self {
        let body = if text.is_empty() { NOTHING.to_owned() } else { text };
        Self {
            status: StatusCode::OK,
            content_type: match format {
                Format::Text => EXPOSITION,
                Format::OpenMetrics => OPEN_METRICS,
            },
            body,
        }
    }

    pub(super) fn json(value: &serde_json::Value) -> Self {
        Self {
            status: StatusCode::OK,
            content_type: "application/json",
            body: format!("{value:#}\n"),
        }
    }

    pub(super) fn text(status: StatusCode, text: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: text.to_owned(),
        }
    }

    /// For a caller that used another method.
    pub(super) fn allow_reading(self) -> Response<Full<Bytes>> {
        let mut response = self.response(&Method::GET, false);
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        response
    }

    /// For a caller that has none, or none that will do.
    pub(super) fn ask_for_a_key(self) -> Response<Full<Bytes>> {
        let mut response = self.response(&Method::GET, false);
        response
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        response
    }

    pub(super) fn into_response<B>(self, request: &Request<B>) -> Response<Full<Bytes>> {
        let gzip = takes_gzip(request.headers());
        self.response(request.method(), gzip)
    }

    fn response(self, method: &Method, gzip: bool) -> Response<Full<Bytes>> {
        let compressed = gzip.then(|| compress(&self.body)).flatten();
        let is_compressed = compressed.is_some();
        let body = compressed.unwrap_or_else(|| self.body.into_bytes());
        let length = body.len();
        let body = if *method == Method::HEAD { Vec::new() } else { body };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        if is_compressed {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

fn compress(text: &str) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 8), Compression::fast());
    encoder.write_all(text.as_bytes()).ok()?;
    encoder.finish().ok()
}

/// The format that a reader prefers: OpenMetrics if it names that with no lower weight than plain text.
pub(super) fn taken(headers: &HeaderMap) -> Format {
    let values = headers.get_all(ACCEPT).iter();
    let ranges = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut open = 0.0_f64;
    let mut plain = 0.0_f64;
    for range in ranges {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let weight = parts
            .find_map(|part| part.strip_prefix("q="))
            .map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        match kind.to_ascii_lowercase().as_str() {
            "application/openmetrics-text" => open = open.max(weight),
            "text/plain" => plain = plain.max(weight),
            _ => {}
        }
    }
    if open > 0.0 && open >= plain {
        Format::OpenMetrics
    } else {
        Format::Text
    }
}

/// Returns true if `gzip` is among the encodings that the caller takes.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let mut codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let refused = parts
            .filter_map(|part| part.strip_prefix("q="))
            .any(|weight| weight.parse() == Ok(0.0));
        named && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_readers_that_prefer_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (value, expected) in [
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("text/plain, application/openmetrics-text;q=0.5", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            ("*/*", Format::Text),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(value));
            assert_eq!(taken(&headers), expected, "{value}");
        }
    }

    #[test]
    fn gzip_is_taken_when_it_is_named_and_not_refused() {
        for (value, expected) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_str(value).expect("a header"));
            assert_eq!(takes_gzip(&headers), expected, "{value}");
        }
    }
}
