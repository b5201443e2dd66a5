//! Studio, the page for browsers: write and hear, talk, keep voices, watch.
//!
//! In: `GET` below `/studio/`. Out: files that are part of the program, made of the sources in `studio/` (`make studio`). The page calls
//! the services of the same port as every other client does; the files themselves need no API key.

use axum::Router;
use axum::body::Bytes;
use axum::middleware::map_response;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
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
            data: include_bytes!(concat!("../../studio/dist/", $name)),
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

/// What a browser lets the page do: scripts, styles and calls of its own origin alone, and nothing that another page put into it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; media-src blob:; img-src 'self'; \
                      worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The routes of the page.
pub fn routes() -> Router {
    let router = Router::new().route("/studio", get(async || Redirect::permanent("/studio/")));
    let router = FILES.into_iter().fold(router, |router, file| {
        let tag = tag(file.data);
        let answer = move |asked: HeaderMap| std::future::ready(answer(file, &tag, &asked));
        router.route(file.path, get(answer))
    });
    router.layer(map_response(guarded))
}

/// Names what is in a file.
fn tag(data: &[u8]) -> HeaderValue {
    let digest = Sha256::digest(data);
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    // Digits in quotes are always a value.
    HeaderValue::from_str(&format!("\"{name}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

fn answer(file: File, tag: &HeaderValue, asked: &HeaderMap) -> Response {
    let known = asked.get_all(header::IF_NONE_MATCH).iter();
    let known = known.filter_map(|tags| tags.to_str().ok());
    let mut known = known.flat_map(|tags| tags.split(',')).map(str::trim);
    let same = known.any(|known| known.trim_start_matches("W/").as_bytes() == tag.as_bytes());
    let mut response = match same {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => {
            let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(file.kind))];
            (kind, Bytes::from_static(file.data)).into_response()
        }
    };
    response.headers_mut().insert(header::ETAG, tag.clone());
    response
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
}
