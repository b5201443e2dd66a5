//! What is said beside an answer: fields without effect, in its headers, and refusals, in the log.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use crate::error::excerpt;
use crate::session::IgnoredField;

/// Fields that had no effect, by OpenAI's names.
const IGNORED: HeaderName = HeaderName::from_static("x-omni-ignored");
/// Reasons of other warnings that came before the first sound.
const WARNING: HeaderName = HeaderName::from_static("x-omni-warning");

/// What an answer's headers say.
#[derive(Debug, Default)]
pub(super) struct Notes {
    ignored: Vec<String>,
    warnings: Vec<String>,
}

impl Notes {
    /// Of fields that were not even handed on.
    pub(super) fn new(ignored: Vec<&'static str>) -> Self {
        Self {
            ignored: ignored.into_iter().map(str::to_owned).collect(),
            warnings: Vec::new(),
        }
    }

    /// Fields without effect. `names`: how fields of the service's requests begin, and what OpenAI calls them.
    pub(super) fn ignored(&mut self, fields: &[IgnoredField], names: &[(&str, &str)]) {
        self.ignored.extend(renamed(fields, names));
    }

    /// A warning.
    pub(super) fn warn(&mut self, reason: &str) {
        self.warnings.push(reason.to_owned());
    }

    /// Puts them into the headers of an answer.
    pub(super) fn tell(mut self, response: &mut Response) {
        for (header, mut names) in [
            (IGNORED, std::mem::take(&mut self.ignored)),
            (WARNING, std::mem::take(&mut self.warnings)),
        ] {
            names.dedup();
            if let Ok(value) = HeaderValue::try_from(names.join(", "))
                && !names.is_empty()
            {
                response.headers_mut().insert(header, value);
            }
        }
    }
}

/// Fields without effect by OpenAI's names; `names` as in [`Notes::ignored`].
pub(super) fn renamed(fields: &[IgnoredField], names: &[(&str, &str)]) -> Vec<String> {
    let own = |ignored: &IgnoredField| {
        let known = names.iter().find(|(name, _)| ignored.field.starts_with(name));
        known.map_or(ignored.field, |(_, own)| own).to_owned()
    };
    fields.iter().map(own).collect()
}

/// The code of a refusal, among the extensions of its answer.
#[derive(Debug, Clone)]
pub(super) struct Refusal(pub(super) String);

/// Writes a line about every request that was refused or failed. What can be caused without a key is written at a lower level,
/// so that a scanner fills no disk.
pub(super) async fn refusals(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), excerpt(request.uri().path()));
    let response = next.run(request).await;
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let code = response
        .extensions()
        .get::<Refusal>()
        .map(|refusal| refusal.0.as_str());
    let (code, status_code) = (code.unwrap_or_default(), status.as_u16());
    match status {
        StatusCode::UNAUTHORIZED
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            tracing::debug!(%method, path, status = status_code, code, "refused");
        }
        status if status.is_server_error() => {
            tracing::warn!(%method, path, status = status_code, code, "failed");
        }
        _ => tracing::info!(%method, path, status = status_code, code, "refused"),
    }
    response
}
