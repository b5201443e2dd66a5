//! Notes beside an answer: fields without effect, in its headers, and refusals, in the log.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use omni_core::error::log::{Fault, Refusal};
use omni_session::IgnoredField;
use omni_transport::is_probe;
use tracing::Span;

use super::error::{ApiError, Refused};

/// Header with the ignored fields, by OpenAI's names.
const IGNORED: HeaderName = HeaderName::from_static("x-omni-ignored");
/// Header with the reasons of other warnings before the first sound.
const WARNING: HeaderName = HeaderName::from_static("x-omni-warning");

/// Notes in an answer's headers.
#[derive(Debug, Default)]
pub(super) struct Notes {
    ignored: Vec<String>,
    warnings: Vec<String>,
}

impl Notes {
    /// Creates notes of unknown fields.
    ///
    /// # Errors
    /// The first of them, if the server is `strict`.
    pub(super) fn unknown(names: Vec<String>, strict: bool) -> Result<Self, ApiError> {
        Ok(Self {
            ignored: ignored(names, strict)?,
            warnings: Vec::new(),
        })
    }

    /// Adds ignored fields that were not passed on.
    pub(super) fn dropped(&mut self, fields: impl IntoIterator<Item = &'static str>) {
        let fields = fields.into_iter().map(str::to_owned).collect();
        self.ignore(fields);
    }

    /// Adds ignored fields. `names`: prefixes of fields in the service's requests, and OpenAI's names for them.
    pub(super) fn ignored(&mut self, fields: &[IgnoredField], names: &[(&str, &str)]) {
        self.ignore(renamed(fields, names));
    }

    fn ignore(&mut self, fields: Vec<String>) {
        if !fields.is_empty() {
            tracing::info!(field = fields.join(", "), "hint ignored");
        }
        self.ignored.extend(fields);
    }

    /// A warning.
    pub(super) fn warn(&mut self, reason: &str) {
        self.warnings.push(reason.to_owned());
    }

    /// Adds them to the headers of an answer.
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

/// Logs unknown fields and returns their names.
///
/// # Errors
/// The first of them, if the server is `strict`.
pub(super) fn ignored(names: Vec<String>, strict: bool) -> Result<Vec<String>, ApiError> {
    match names.first() {
        Some(name) if strict => {
            let problem = format!("unknown field '{name}'; a strict server ignores none");
            return Err(ApiError::coded("unknown_field", Some(name), problem));
        }
        Some(_) => tracing::info!(fields = names.join(", "), "unknown fields ignored"),
        None => {}
    }
    Ok(names)
}

/// Ignored fields by OpenAI's names; `names` as in [`Notes::ignored`].
pub(super) fn renamed(fields: &[IgnoredField], names: &[(&str, &str)]) -> Vec<String> {
    let own = |ignored: &IgnoredField| {
        let known = names.iter().find(|(name, _)| ignored.field.starts_with(name));
        known.map_or(ignored.field, |(_, own)| own).to_owned()
    };
    fields.iter().map(own).collect()
}

/// Logs every request that was refused or failed, except probes while the server loads or shuts down.
pub(super) async fn refusals(request: Request, next: Next) -> Response {
    let probe = is_probe(request.uri().path());
    let mut unanswered = Unanswered(Some(Span::current()));
    let response = next.run(request).await;
    unanswered.0 = None;
    let status = response.status();
    if (status.is_client_error() || status.is_server_error()) && !probe {
        let refused = response.extensions().get::<Refused>();
        refused.unwrap_or(&Refused::default()).log(status);
    }
    response
}

/// A request without an answer yet; if dropped before, its caller has gone.
struct Unanswered(Option<Span>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        let abandoned = Refusal {
            fault: Fault::Gone,
            status: &"none",
            reason: "caller_gone",
            message: "",
        };
        if let Some(span) = &self.0 {
            span.in_scope(|| abandoned.log());
        }
    }
}
