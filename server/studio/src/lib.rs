//! Studio, the page for browsers: write and hear, talk, keep voices, watch.
//!
//! In: `GET` below `/studio/`. Out: files that are part of the program, made of the sources in `server/studio/page/`
//! (`make studio`). The page calls the services of the same port as every other client does; the files themselves need
//! no API key.

// Part of a program, and no library for others: items are documented where their names do not say enough.
#![allow(missing_docs)]

use std::io::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::middleware::map_response;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{self, HeaderMap, HeaderName};
use http::{HeaderValue, StatusCode};
use sha2::{Digest as _, Sha256};

/// A file of the page.
#[derive(Debug, Clone, Copy)]
struct File {
    path: &'static str,
    kind: &'static str,
    data: &'static [u8],
}

macro_rules! file {
    ($path:literal, $name:literal, $kind:literal) => {
        File {
            path: $path,
            kind: $kind,
            data: include_bytes!(concat!("../page/dist/", $name)),
        }
    };
}

const FILES: [File; 6] = [
    file!("/studio/", "index.html", "text/html; charset=utf-8"),
    file!("/studio/app.js", "app.js", "text/javascript; charset=utf-8"),
    file!("/studio/app.css", "app.css", "text/css; charset=utf-8"),
    file!(
        "/studio/playback.js",
        "playback.js",
        "text/javascript; charset=utf-8"
    ),
    file!(
        "/studio/capture.js",
        "capture.js",
        "text/javascript; charset=utf-8"
    ),
    file!("/studio/icon.svg", "icon.svg", "image/svg+xml"),
];

/// The rights of the page in a browser: scripts, styles and calls of its own origin alone, and nothing that another page put into it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; media-src blob:; img-src 'self'; \
                      worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The routes of the page.
pub fn routes() -> Router {
    // Relative: a proxy may serve the page below a prefix.
    let router = Router::new().route("/studio", get(async || Redirect::permanent("studio/")));
    let router = FILES.into_iter().fold(router, |router, file| {
        let page = Arc::new(Prepared::of(file));
        let answer = move |asked: HeaderMap| std::future::ready(page.answer(&asked));
        router.route(file.path, get(answer))
    });
    router.layer(map_response(guarded))
}

/// A file, ready to be sent.
#[derive(Debug)]
struct Prepared {
    file: File,
    /// Names its content, packed or not.
    tag: HeaderValue,
    /// The same by gzip, where that is shorter.
    packed: Option<Bytes>,
}

impl Prepared {
    fn of(file: File) -> Self {
        let digest = Sha256::digest(file.data);
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let packed = gzip.write_all(file.data).and_then(|()| gzip.finish());
        let packed = packed.ok().filter(|packed| packed.len() < file.data.len());
        Self {
            file,
            // Digits in quotes are always a value.
            tag: HeaderValue::from_str(&format!("W/\"{name}\""))
                .unwrap_or(HeaderValue::from_static("W/\"\"")),
            packed: packed.map(Bytes::from),
        }
    }

    fn answer(&self, asked: &HeaderMap) -> Response {
        let mut response = if lists(asked, &header::IF_NONE_MATCH, |tag| tag == self.tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            self.whole(asked)
        };
        response.headers_mut().insert(header::ETAG, self.tag.clone());
        response
    }

    fn whole(&self, asked: &HeaderMap) -> Response {
        let packed = self.packed.clone();
        let packed = packed.filter(|_| lists(asked, &header::ACCEPT_ENCODING, takes_gzip));
        let kind = (header::CONTENT_TYPE, self.file.kind);
        match packed {
            Some(packed) => ([kind, (header::CONTENT_ENCODING, "gzip")], packed).into_response(),
            None => ([kind], Bytes::from_static(self.file.data)).into_response(),
        }
    }
}

/// True if this part of `accept-encoding` asks for gzip, by a weight above zero (RFC 9110, section 12.4.2).
fn takes_gzip(part: &str) -> bool {
    let mut words = part.split(';').map(str::trim);
    let named = words.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
    let weight = words.find_map(|word| word.strip_prefix("q=").or(word.strip_prefix("Q=")));
    named && weight.is_none_or(|weight| weight.parse().is_ok_and(|weight: f32| weight > 0.0))
}

/// True if one of a header's parts, between commas, is wanted.
fn lists(asked: &HeaderMap, name: &HeaderName, wanted: impl Fn(&str) -> bool) -> bool {
    let lines = asked.get_all(name).iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .any(|part| wanted(part.trim()))
}

/// With the headers of every answer, besides its kind and tag.
async fn guarded(mut response: Response) -> Response {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("permissions-policy"),
            "microphone=(self), camera=(), geolocation=()",
        ),
        // Kept, and asked for again with its tag: a server that was replaced is noticed at once.
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "accept-encoding"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_for_files_of_its_own_alone() {
        let named = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
        let page = named(FILES[0].data);
        for reference in page.split([' ', '>']).filter_map(|word| {
            let word = word.strip_prefix("src=").or(word.strip_prefix("href="));
            word.map(|word| word.trim_matches('"'))
        }) {
            let path = format!("/studio/{reference}");
            assert!(FILES.iter().any(|file| file.path == path), "{path} is not served");
        }
        assert!(!page.contains("//"), "something of another origin");
    }

    #[test]
    fn gzip_is_taken_where_its_weight_is_above_zero() {
        for (part, takes) in [
            ("gzip", true),
            ("GZIP", true),
            ("gzip;q=0.5", true),
            ("gzip; q=1", true),
            ("gzip;q=0", false),
            ("gzip;q=0.0", false),
            ("gzip; Q=0.000", false),
            ("gzip;q=much", false),
            ("gzip-like", false),
            ("br", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(part), takes, "{part:?}");
        }
    }
}
