//! Statuses as OpenAI's errors.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::notes::Refusal;

/// A refusal or a failure.
#[derive(Debug, Clone)]
pub(super) struct ApiError {
    status: StatusCode,
    message: String,
    /// The field at fault, as OpenAI calls it.
    param: Option<String>,
    /// Stable, for programs.
    code: Option<String>,
    /// Seconds after which trying again makes sense.
    retry_after: Option<u64>,
    /// Whether it answers a call to a service, whose clients read it in another form.
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

    /// A request that was not read. `code` is stable, for programs.
    pub(super) fn unread(status: StatusCode, code: &str, message: &str) -> Self {
        Self {
            status,
            code: Some(code.to_owned()),
            ..Self::invalid(None, message)
        }
    }

    /// A model that is not served.
    pub(super) fn no_such_model() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            code: Some("model_not_found".to_owned()),
            ..Self::invalid(
                Some("model"),
                "the model is not served here, GET /v1/models lists those that are",
            )
        }
    }

    /// What a service said. `names`: how fields of the service's messages begin, and what OpenAI calls them.
    pub(super) fn new(status: &Status, names: &[(&str, &str)]) -> Self {
        let details = status.get_error_details();
        let reason = details
            .error_info()
            .map(|info| info.reason.clone())
            .unwrap_or_default();
        let field = details
            .bad_request()
            .and_then(|bad| bad.field_violations.first())
            .map(|violation| violation.field.clone());
        let own = field.as_deref().and_then(|field| {
            let known = names.iter().find(|(name, _)| field.starts_with(name));
            known.map(|(_, own)| (*own).to_owned())
        });
        let rest = field
            .as_deref()
            .and_then(|field| status.message().strip_prefix(field));
        let message = match (rest, &own) {
            (Some(rest), Some(own)) => format!("{own}{rest}"),
            _ => status.message().to_owned(),
        };
        let delay = details.retry_info().and_then(|info| info.retry_delay);
        Self {
            status: http_status(status.code(), &reason),
            message,
            param: own.or(field),
            code: (!reason.is_empty()).then(|| reason.to_ascii_lowercase()),
            retry_after: delay.map(|delay| delay.as_secs_f64().ceil() as u64),
            call: false,
        }
    }

    /// The same as an answer that clients of the Connect protocol read, too.
    pub(super) fn into_call(mut self) -> Self {
        self.call = true;
        self
    }

    /// What goes into a body or an event.
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
        let code = self.code.unwrap_or_default();
        response.extensions_mut().insert(Refusal(code));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

fn http_status(code: Code, reason: &str) -> StatusCode {
    // Clients try again after 5xx, which would not make a model converse.
    if matches!(reason, "MODEL_NOT_FOUND" | "CHAT_NOT_SUPPORTED") {
        return StatusCode::NOT_FOUND;
    }
    match code {
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        // An operator or the server's patience has ended it: it is not to be sent again by itself, as clients do after 409 and 5xx.
        Code::Aborted => StatusCode::GONE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::ServeError;
    use crate::session::{SessionCancelled, SessionTimeout};

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
            let told = ApiError::new(&crate::grpc::status(&error), &[]);
            let again = matches!(told.status.as_u16(), 408 | 409 | 429 | 500..);
            assert!(!again, "{error}: {}", told.status);
            assert_eq!(told.code, Some(error.reason().to_ascii_lowercase()));
        }
    }
}
