//! Errors of the services as OpenAI's.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::notes::Refusal;
use crate::error::{ErrorKind, ServeError};

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

    /// The same with a code of its own, stable, for programs.
    pub(super) fn coded(code: &str, param: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            code: Some(code.to_owned()),
            ..Self::invalid(param, message)
        }
    }

    /// The same about a field that is under `to` here and not under `from`, with which the message begins.
    pub(super) fn moved(mut self, from: &str, to: &str) -> Self {
        for text in [Some(&mut self.message), self.param.as_mut()]
            .into_iter()
            .flatten()
        {
            if let Some(rest) = text.strip_prefix(from) {
                *text = format!("{to}{rest}");
            }
        }
        self
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
    pub(super) fn no_such_model(served: &[&str]) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            code: Some("model_not_found".to_owned()),
            ..Self::invalid(
                Some("model"),
                format!("the model is not served here, these are: {}", served.join(", ")),
            )
        }
    }

    /// What a service said. `names`: how fields of its requests begin, and what OpenAI calls them.
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
            code: Some(error.reason().to_ascii_lowercase()),
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

fn http_status(kind: ErrorKind) -> StatusCode {
    use ErrorKind as K;
    match kind {
        K::InvalidArgument | K::Unspeakable | K::FailedPrecondition => StatusCode::BAD_REQUEST,
        // Clients try again after 5xx, which would not make a model converse.
        K::UnknownModel | K::NotSupported | K::NotFound => StatusCode::NOT_FOUND,
        K::Unauthenticated => StatusCode::UNAUTHORIZED,
        K::PermissionDenied => StatusCode::FORBIDDEN,
        K::OverQuota | K::TooManySessions | K::QueueFull | K::Overloaded | K::LimitReached => {
            StatusCode::TOO_MANY_REQUESTS
        }
        K::Loading | K::Unavailable | K::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        K::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        // Clients send a request again after 409 and 5xx, which these must not cause.
        K::SessionExpired | K::SessionCancelled | K::SlowReader => StatusCode::GONE,
        K::Internal | K::CallerGone => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
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
            let told = ApiError::new(&error, &[]);
            let again = matches!(told.status.as_u16(), 408 | 409 | 429 | 500..);
            assert!(!again, "{error}: {}", told.status);
            assert_eq!(told.code, Some(error.reason().to_ascii_lowercase()));
        }
    }
}
