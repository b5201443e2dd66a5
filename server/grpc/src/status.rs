//! The one table from errors to gRPC statuses.
//!
//! Every status carries `google.rpc.ErrorInfo` with a stable reason and domain "omni"; besides it, depending on the
//! error: `BadRequest` for a field, `RetryInfo` where trying again makes sense, limits as metadata.

use omni_core::error::{ErrorKind, ServeError};
use omni_proto::{ERROR_DOMAIN, RpcStatus};
use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};
use tonic_types::pb;

fn code(kind: ErrorKind) -> Code {
    use ErrorKind as K;
    match kind {
        K::InvalidArgument | K::Unspeakable | K::UnknownModel => Code::InvalidArgument,
        K::FailedPrecondition => Code::FailedPrecondition,
        K::NotSupported => Code::Unimplemented,
        K::NotFound => Code::NotFound,
        K::Unauthenticated => Code::Unauthenticated,
        K::PermissionDenied => Code::PermissionDenied,
        K::OverQuota | K::TooManySessions | K::QueueFull | K::Overloaded | K::LimitReached => {
            Code::ResourceExhausted
        }
        K::Loading | K::Unavailable | K::ShuttingDown => Code::Unavailable,
        K::Internal => Code::Internal,
        K::DeadlineExceeded => Code::DeadlineExceeded,
        K::SessionExpired | K::SessionCancelled | K::SlowReader => Code::Aborted,
        K::CallerGone => Code::Cancelled,
    }
}

/// The details of an error as standard messages.
fn details(error: &ServeError) -> Vec<Any> {
    let metadata = error.metadata().iter();
    let metadata = metadata.map(|(key, value)| ((*key).to_owned(), value.clone()));
    let info = pb::ErrorInfo {
        reason: error.reason().to_owned(),
        domain: ERROR_DOMAIN.to_owned(),
        metadata: metadata.collect(),
    };
    let violation = error.field().map(|field| pb::BadRequest {
        field_violations: vec![pb::bad_request::FieldViolation {
            field: field.to_owned(),
            description: error.message().to_owned(),
            ..Default::default()
        }],
    });
    let quota = error.quota().map(|over| pb::QuotaFailure {
        violations: vec![pb::quota_failure::Violation {
            subject: over.quota.name().to_owned(),
            description: format!("limited to {} for this API key", over.limit),
            ..Default::default()
        }],
    });
    let retry = error.retry().map(|delay| pb::RetryInfo {
        retry_delay: delay.try_into().ok(),
    });
    let details = [
        Some(packed("ErrorInfo", &info)),
        violation.map(|violation| packed("BadRequest", &violation)),
        quota.map(|quota| packed("QuotaFailure", &quota)),
        retry.map(|retry| packed("RetryInfo", &retry)),
    ];
    details.into_iter().flatten().collect()
}

fn packed(name: &str, message: &impl Message) -> Any {
    Any {
        type_url: format!("type.googleapis.com/google.rpc.{name}"),
        value: message.encode_to_vec(),
    }
}

/// The error inside an `Outcome`.
pub fn rpc_status(error: &ServeError) -> RpcStatus {
    RpcStatus {
        code: code(error.kind()) as i32,
        message: error.message().to_owned(),
        details: details(error),
    }
}

/// The status that ends a call.
pub fn status(error: &ServeError) -> Status {
    let rpc = rpc_status(error);
    let code = code(error.kind());
    // tonic carries details as an encoded google.rpc.Status.
    let details = rpc.encode_to_vec();
    Status::with_details(code, rpc.message, details.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic_types::StatusExt as _;

    use super::*;
    use omni_config::Quota;
    use omni_core::caller::OverQuota;
    use omni_core::error::TooManySessions;
    use omni_pipeline::orchestrator::StageError;
    use omni_session::UtteranceError;

    #[test]
    fn every_status_names_its_reason_and_domain() {
        let status = status(&UtteranceError::TextTooLong { got: 12, limit: 10 }.into());
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(
            (info.reason.as_str(), info.domain.as_str()),
            ("TEXT_TOO_LONG", "omni")
        );
        assert_eq!(info.metadata["limit"], "10");
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, "text");
        assert_eq!(status.code(), Code::InvalidArgument);
    }

    #[test]
    fn a_quota_that_is_used_up_is_named_with_its_limit_and_when_to_try_again() {
        let over = |quota| {
            let limit = "4".to_owned();
            let retry = Duration::from_millis(700);
            status(&OverQuota { quota, limit, retry }.into())
        };
        for (quota, reason) in [
            (Quota::Streams, "CONCURRENCY_LIMIT"),
            (Quota::Requests, "RATE_LIMITED"),
            (Quota::Characters, "RATE_LIMITED"),
            (Quota::Audio, "RATE_LIMITED"),
        ] {
            let status = over(quota);
            assert_eq!(status.code(), Code::ResourceExhausted);
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!(
                (info.reason.as_str(), info.metadata["limit"].as_str()),
                (reason, "4")
            );
            let violation = &details.quota_failure().unwrap().violations[0];
            assert_eq!(violation.subject, quota.name());
            assert!(violation.description.contains('4'));
            let retry = details.retry_info().unwrap().retry_delay;
            assert_eq!(retry, Some(Duration::from_millis(700)));
        }
    }

    #[test]
    fn overload_says_when_to_try_again() {
        let status = status(&TooManySessions { limit: 3 }.into());
        assert!(status.get_details_retry_info().is_some());
        assert_eq!(status.code(), Code::ResourceExhausted);
    }

    #[test]
    fn an_outcome_carries_the_same_details() {
        let stage = "talker";
        let message = "x".to_owned();
        let rpc = rpc_status(&StageError::Failed { stage, message }.into());
        assert_eq!(rpc.code, Code::Internal as i32);
        assert!(
            rpc.details
                .iter()
                .any(|any| any.type_url.ends_with("google.rpc.ErrorInfo"))
        );
    }
}
