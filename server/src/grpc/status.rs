//! The one table from errors to gRPC statuses.
//!
//! Every status carries `google.rpc.ErrorInfo` with a stable reason and domain "omni"; besides it what the error calls for:
//! `BadRequest` for a field, `RetryInfo` where trying again makes sense, limits as metadata.

use std::collections::HashMap;
use std::time::Duration;

use omni_proto::{ERROR_DOMAIN, RpcStatus};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _, pb};

use crate::error::ServeError;

/// When a caller may try again.
const RETRY_LOAD: Duration = Duration::from_secs(1);
const RETRY_START: Duration = Duration::from_secs(2);
const RETRY_ELSEWHERE: Duration = Duration::from_millis(100);

fn code(error: &ServeError) -> Code {
    match error {
        ServeError::InvalidField { .. }
        | ServeError::ModelNotFound { .. }
        | ServeError::VoiceNotFound { .. }
        | ServeError::LanguageNotFound { .. }
        | ServeError::UnsupportedAudioFormat { .. }
        | ServeError::Protocol(_)
        | ServeError::UtteranceId { .. }
        | ServeError::MessageId { .. }
        | ServeError::CannotHear { .. }
        | ServeError::AudioTooShort { .. }
        | ServeError::AudioTooLong { .. }
        | ServeError::MessageTooLong { .. }
        | ServeError::ContextTooLong { .. }
        | ServeError::TextTooLong { .. }
        | ServeError::MessageTooLarge { .. }
        | ServeError::TooManyItems { .. }
        | ServeError::NothingSpeakable(_)
        | ServeError::Markup => Code::InvalidArgument,
        ServeError::ConfigDuringUtterance | ServeError::ResponseInProgress | ServeError::NoInputAudio => {
            Code::FailedPrecondition
        }
        ServeError::ChatNotSupported(_) | ServeError::MetricsServiceOff => Code::Unimplemented,
        ServeError::TextBufferFull { .. }
        | ServeError::TooManyUtterances { .. }
        | ServeError::TooManySessions { .. }
        | ServeError::TooManyRecorders { .. }
        | ServeError::TooManyWatchers { .. }
        | ServeError::Overloaded(_)
        | ServeError::Crowded { .. }
        | ServeError::OverQuota(_) => Code::ResourceExhausted,
        ServeError::ModelLoading
        | ServeError::StageUnavailable { .. }
        | ServeError::Draining
        | ServeError::Stopped => Code::Unavailable,
        ServeError::StageFailed { .. } => Code::Internal,
        ServeError::ApiKeyMissing | ServeError::ApiKeyInvalid => Code::Unauthenticated,
        ServeError::ScopeMissing(_) => Code::PermissionDenied,
        ServeError::StageNotFound { .. }
        | ServeError::ReplicaNotFound { .. }
        | ServeError::SessionNotFound { .. } => Code::NotFound,
        ServeError::DeadlineExceeded => Code::DeadlineExceeded,
        ServeError::SessionIdle(_)
        | ServeError::SessionMaxAge(_)
        | ServeError::SessionCancelled(_)
        | ServeError::SlowReader(_) => Code::Aborted,
        ServeError::CallerGone => Code::Cancelled,
    }
}

/// The field at fault, for `BadRequest`.
fn field(error: &ServeError) -> Option<&'static str> {
    match error {
        ServeError::InvalidField { field, .. }
        | ServeError::UnsupportedAudioFormat { field, .. }
        | ServeError::CannotHear { field }
        | ServeError::AudioTooShort { field, .. }
        | ServeError::MessageTooLong { field, .. }
        | ServeError::TooManyItems { field, .. } => Some(field),
        ServeError::ModelNotFound { .. } => Some("config.model"),
        ServeError::VoiceNotFound { .. } => Some("config.voice"),
        ServeError::LanguageNotFound { .. } => Some("config.language"),
        ServeError::UtteranceId { .. } => Some("text.utterance_id"),
        ServeError::TextTooLong { .. } | ServeError::NothingSpeakable(_) | ServeError::Markup => Some("text"),
        _ => None,
    }
}

fn retry(error: &ServeError) -> Option<Duration> {
    match error {
        ServeError::TooManySessions { .. }
        | ServeError::TooManyRecorders { .. }
        | ServeError::TooManyWatchers { .. }
        | ServeError::Overloaded(_)
        | ServeError::StageUnavailable { .. } => Some(RETRY_LOAD),
        ServeError::Crowded { retry, .. } => Some(*retry),
        ServeError::OverQuota(over) => Some(over.retry),
        ServeError::ModelLoading => Some(RETRY_START),
        ServeError::Draining | ServeError::Stopped => Some(RETRY_ELSEWHERE),
        _ => None,
    }
}

fn metadata(error: &ServeError) -> HashMap<String, String> {
    let pairs = match error {
        ServeError::TextTooLong { got, limit }
        | ServeError::TextBufferFull { got, limit }
        | ServeError::MessageTooLong { got, limit, .. }
        | ServeError::TooManyItems { got, limit, .. }
        | ServeError::ContextTooLong { got, limit } => {
            vec![("got", got.to_string()), ("limit", limit.to_string())]
        }
        ServeError::TooManyUtterances { limit }
        | ServeError::TooManySessions { limit }
        | ServeError::TooManyRecorders { limit }
        | ServeError::TooManyWatchers { limit }
        | ServeError::MessageTooLarge { limit } => {
            vec![("limit", limit.to_string())]
        }
        ServeError::OverQuota(over) => {
            vec![("quota", over.quota.to_string()), ("limit", over.limit.clone())]
        }
        ServeError::StageFailed { stage, .. } | ServeError::StageUnavailable { stage, .. } => {
            vec![("stage", (*stage).to_owned())]
        }
        _ => vec![],
    };
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// The status that ends a call.
#[must_use]
pub fn status(error: &ServeError) -> Status {
    let message = error.to_string();
    let mut details = ErrorDetails::new();
    details.set_error_info(error.reason(), ERROR_DOMAIN, metadata(error));
    if let Some(field) = field(error) {
        details.add_bad_request_violation(field, &message);
    }
    if let ServeError::OverQuota(over) = error {
        let description = format!("limited to {} for this API key", over.limit);
        details.add_quota_failure_violation(over.quota.name(), description);
    }
    if let Some(delay) = retry(error) {
        details.set_retry_info(Some(delay));
    }
    Status::with_error_details(code(error), message, details)
}

/// The same inside an `Outcome`.
#[must_use]
pub fn rpc_status(error: &ServeError) -> RpcStatus {
    let status = status(error);
    // tonic carries details as an encoded google.rpc.Status.
    let details = <pb::Status as prost::Message>::decode(status.details()).map(|encoded| encoded.details);
    RpcStatus {
        code: status.code() as i32,
        message: status.message().to_owned(),
        details: details.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::OverQuota;
    use crate::config::Quota;

    #[test]
    fn every_status_names_its_reason_and_domain() {
        let status = status(&ServeError::TextTooLong { got: 12, limit: 10 });
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
            let (limit, retry) = ("4".to_owned(), Duration::from_millis(700));
            status(&ServeError::OverQuota(OverQuota { quota, limit, retry }))
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
        let status = status(&ServeError::TooManySessions { limit: 3 });
        assert!(status.get_details_retry_info().is_some());
        assert_eq!(status.code(), Code::ResourceExhausted);
    }

    #[test]
    fn an_outcome_carries_the_same_details() {
        let rpc = rpc_status(&ServeError::StageFailed {
            stage: "talker",
            message: "x".into(),
        });
        assert_eq!(rpc.code, Code::Internal as i32);
        assert!(
            rpc.details
                .iter()
                .any(|any| any.type_url.ends_with("google.rpc.ErrorInfo"))
        );
    }
}
