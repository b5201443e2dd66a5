//! Errors of the services as OpenAI's.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use omni_core::error::log::{Fault, Refusal};
use omni_core::error::{ErrorKind, ServeError, excerpt};
use serde_json::{Value, json};

/// A refusal or a failure.
#[derive(Debug, Clone)]
pub(super) struct ApiError {
    status: StatusCode,
    message: String,
    /// Field at fault, by OpenAI's name.
    param: Option<String>,
    /// Stable, for programs.
    code: Option<String>,
    /// Seconds after which trying again makes sense.
    retry_after: Option<u64>,
    /// `true` if it answers a call to a service, whose clients read it in another form.
    call: bool,
}

impl ApiError {
    /// A request that cannot be honoured.
    pub(super) fn invalid(param: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
            param: param.map(str::to_owned),
            code: Some("invalid_field".to_owned()),
            retry_after: None,
            call: false,
        }
    }

    /// As above with a stable code of its own, for programs.
    pub(super) fn coded(code: &str, param: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            code: Some(code.to_owned()),
            ..Self::invalid(param, message)
        }
    }

    /// The same error with the prefix `from` of its field replaced by `to`.
    pub(super) fn moved(mut self, from: &str, to: &str) -> Self {
        if let Some(param) = &mut self.param
            && param.starts_with(from)
        {
            *param = param.replacen(from, to, 1);
            self.message = self.message.replacen(from, to, 1);
        }
        self
    }

    /// Error of a request that was not read. `code` is stable, for programs.
    pub(super) fn unread(status: StatusCode, code: &str, message: &str) -> Self {
        Self {
            status,
            code: Some(code.to_owned()),
            ..Self::invalid(None, message)
        }
    }

    /// A model that is not served. `served`: the names of those that are.
    pub(super) fn no_such_model(got: &str, served: &[&str]) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            code: Some("model_not_found".to_owned()),
            ..Self::invalid(
                Some("model"),
                format!(
                    "unknown model '{}'; expected one of: {}",
                    excerpt(got),
                    served.join(", ")
                ),
            )
        }
    }

    /// Error of a service. `names`: prefixes of fields in its requests, and OpenAI's names for them.
    pub(super) fn new(error: &ServeError, names: &[(&str, &str)]) -> Self {
        let own = error.field().map(|field| {
            let known = names.iter().find(|(name, _)| field.starts_with(name));
            known.map_or(field, |(_, own)| own)
        });
        Self {
            status: http_status(error.kind()),
            message: match own {
                Some(own) => error.message_about(own),
                None => error.message().to_owned(),
            },
            param: own.map(str::to_owned),
            code: Some(code(error.reason())),
            retry_after: error.retry().map(|delay| delay.as_secs_f64().ceil() as u64),
            call: false,
        }
    }

    /// The same as an answer that clients of the Connect protocol read, too.
    pub(super) fn into_call(mut self) -> Self {
        self.call = true;
        self
    }

    /// For people.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Logs the error.
    pub(super) fn log(&self) {
        Refused::from(self).log(self.status);
    }

    /// Body or event of the error.
    pub(super) fn json(&self) -> Value {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        };
        json!({"message": self.message, "type": kind, "param": self.param, "code": self.code})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut told = json!({"error": self.json()});
        if self.call {
            told["code"] = json!("unimplemented");
            told["message"] = json!(self.message);
        }
        let mut response = super::body(&told);
        *response.status_mut() = self.status;
        response.extensions_mut().insert(Refused::from(&self));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Details of an error for its log line besides its status; among the extensions of an answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Refused {
    reason: String,
    message: String,
}

impl From<&ApiError> for Refused {
    fn from(error: &ApiError) -> Self {
        Self {
            reason: error.code.clone().unwrap_or_default(),
            message: unquoted(&error.message),
        }
    }
}

impl Refused {
    /// Logs it.
    pub(super) fn log(&self, status: StatusCode) {
        let ends = matches!(self.reason.as_str(), "draining" | "stopped" | "model_loading");
        let status_code = status.as_str();
        Refusal {
            // A server that loads or shuts down does its work.
            fault: if status.is_server_error() && !ends {
                Fault::Server
            } else {
                Fault::Caller
            },
            status: &status_code,
            reason: if self.reason.is_empty() {
                status_code
            } else {
                &self.reason
            },
            message: &self.message,
        }
        .log();
    }
}

/// Removes the JSON reader's quotes of a body from a message: they may be the text to speak.
fn unquoted(message: &str) -> String {
    let begins = ["invalid body: ", "invalid message: ", "invalid event: "];
    let quotes = begins.iter().any(|begin| message.starts_with(begin));
    match (message.find('"'), message.rfind('"')) {
        (Some(first), Some(last)) if quotes => {
            format!("{}\"…\"{}", &message[..first], &message[last + 1..])
        }
        _ => message.to_owned(),
    }
}

/// Code by which clients know a reason.
fn code(reason: &str) -> String {
    match reason {
        "CONTEXT_TOO_LONG" => "context_length_exceeded".to_owned(),
        reason => reason.to_ascii_lowercase(),
    }
}

fn http_status(kind: ErrorKind) -> StatusCode {
    use ErrorKind as K;
    match kind {
        K::InvalidArgument | K::Unspeakable | K::FailedPrecondition => StatusCode::BAD_REQUEST,
        // Clients retry after 5xx, which would not make a model converse.
        K::UnknownModel | K::NotSupported | K::NotFound => StatusCode::NOT_FOUND,
        K::Unauthenticated => StatusCode::UNAUTHORIZED,
        K::PermissionDenied => StatusCode::FORBIDDEN,
        K::OverQuota | K::TooManySessions | K::QueueFull | K::Overloaded | K::LimitReached => {
            StatusCode::TOO_MANY_REQUESTS
        }
        K::Loading | K::Unavailable | K::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        K::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        // Clients send a request again after 409 and 5xx, which these errors must not cause.
        K::SessionExpired | K::SessionCancelled | K::SlowReader => StatusCode::GONE,
        K::Internal | K::CallerGone => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use omni_session::{SessionCancelled, SessionTimeout};

    #[test]
    fn a_line_of_the_log_does_not_repeat_what_a_body_says() {
        for (told, written) in [
            (
                "invalid body: invalid type: string \"my \"secret\" text\", expected f64 at line 1 column 9",
                "invalid body: invalid type: string \"…\", expected f64 at line 1 column 9",
            ),
            (
                "invalid body: missing field `input`",
                "invalid body: missing field `input`",
            ),
            ("there is no voice \"nobody\"", "there is no voice \"nobody\""),
        ] {
            assert_eq!(unquoted(told), written);
        }
    }

    #[test]
    fn what_was_ended_on_purpose_is_nothing_that_clients_send_again() {
        let time = Duration::from_secs(1);
        for error in [
            SessionCancelled("maintenance".to_owned()).into(),
            SessionTimeout::Idle(time).into(),
            SessionTimeout::MaxAge(time).into(),
            SessionTimeout::SlowReader(time).into(),
        ] {
            let error: ServeError = error;
            let told = ApiError::new(&error, &[]);
            let again = matches!(told.status.as_u16(), 408 | 409 | 429 | 500..);
            assert!(!again, "{error}: {}", told.status);
            assert_eq!(told.code, Some(error.reason().to_ascii_lowercase()));
        }
    }
}
