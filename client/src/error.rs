//! Everything that can go wrong, in one type that a program can act on and a person can read.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use omni_proto::RpcStatus;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, RpcStatusExt as _, StatusExt as _};

use crate::endpoint::Endpoint;
use crate::tls::{self, TlsProblem};

/// Reason why a call failed.
///
/// ```
/// use std::time::Duration;
///
/// use omni_client::{ClientError, Code};
///
/// /// How long to wait before trying again; `None` if that would not help. Not for a call that has given audio.
/// fn pause(error: &ClientError) -> Option<Duration> {
///     match (error, error.code()) {
///         // The server knows best.
///         (ClientError::Rpc(rpc), _) if rpc.retry_after.is_some() => rpc.retry_after,
///         (_, Code::Unavailable) => Some(Duration::from_secs(1)),
///         _ => None,
///     }
/// }
/// # let endpoint = omni_client::Endpoint::parse("localhost")?;
/// # let error = ClientError::Unreachable { endpoint, cause: "refused".to_owned() };
/// # assert_eq!(pause(&error), Some(Duration::from_secs(1)));
/// # Ok::<(), omni_client::EndpointError>(())
/// ```
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// No connection to the server.
    #[error("cannot reach {endpoint}: {cause}")]
    Unreachable {
        /// The server.
        endpoint: Endpoint,
        /// Error of the operating system or the transport.
        cause: String,
    },
    /// No connection in confidence.
    #[error("no encrypted connection to {endpoint}: {problem} ({cause})")]
    Tls {
        /// The server.
        endpoint: Endpoint,
        /// The problem.
        problem: TlsProblem,
        /// Error of TLS.
        cause: String,
    },
    /// The connection ended before the call did.
    #[error("lost the connection to {endpoint}: {cause}")]
    Lost {
        /// The server.
        endpoint: Endpoint,
        /// Error of the transport.
        cause: String,
    },
    /// The server answered with an error.
    #[error(transparent)]
    Rpc(Box<RpcError>),
    /// The server sent something the protocol does not allow.
    #[error("the server at {endpoint} broke the protocol: {what}")]
    Protocol {
        /// The server.
        endpoint: Endpoint,
        /// The violation.
        what: String,
    },
}

impl ClientError {
    /// The gRPC code that describes the failure best.
    pub fn code(&self) -> Code {
        match self {
            Self::Unreachable { .. } | Self::Tls { .. } | Self::Lost { .. } => Code::Unavailable,
            Self::Rpc(error) => error.code,
            Self::Protocol { .. } => Code::Internal,
        }
    }

    pub(crate) fn protocol(endpoint: &Endpoint, what: impl Into<String>) -> Self {
        Self::Protocol {
            endpoint: endpoint.clone(),
            what: what.into(),
        }
    }

    /// Converts a status: an error of the server, or one that the transport generated.
    pub(crate) fn from_status(endpoint: &Endpoint, status: &Status) -> Self {
        match std::error::Error::source(status) {
            Some(source) => match Self::of_tls(endpoint, source) {
                Some(error) => error,
                None => Self::Lost {
                    endpoint: endpoint.clone(),
                    cause: root_cause(source),
                },
            },
            None => Self::Rpc(Box::new(RpcError::from_status(status))),
        }
    }

    pub(crate) fn from_connect(endpoint: &Endpoint, error: &tonic::transport::Error) -> Self {
        Self::of_tls(endpoint, error).unwrap_or_else(|| Self::Unreachable {
            endpoint: endpoint.clone(),
            cause: root_cause(error),
        })
    }

    /// Failure that TLS explains, if it does.
    fn of_tls(endpoint: &Endpoint, error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let (problem, cause) = tls::find(error)?;
        let encrypted = endpoint.tls().is_some();
        (encrypted != (problem == TlsProblem::TlsExpected)).then(|| Self::tls(endpoint, problem, cause))
    }

    pub(crate) fn tls(endpoint: &Endpoint, problem: TlsProblem, cause: String) -> Self {
        Self::Tls {
            endpoint: endpoint.clone(),
            problem,
            cause,
        }
    }
}

/// The innermost error of a chain: "Connection refused" rather than "transport error".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// One field of a request that the server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldViolation {
    /// Path of the field.
    pub field: String,
    /// The problem.
    pub description: String,
}

/// An error as the server reported it, details included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The gRPC code.
    pub code: Code,
    /// For people.
    pub message: String,
    /// For programs: stable, UPPER_SNAKE_CASE. Empty if the server gave none.
    pub reason: String,
    /// Facts that belong to the reason, for example `limit` and `got`.
    pub metadata: BTreeMap<String, String>,
    /// The fields at fault.
    pub violations: Vec<FieldViolation>,
    /// Time after which the server suggests to try again.
    pub retry_after: Option<Duration>,
    /// Names the request in the server's log. Empty if the server gave none.
    pub request_id: String,
}

impl RpcError {
    /// An error of this side that takes the shape of a server's.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            reason: String::new(),
            metadata: BTreeMap::new(),
            violations: Vec::new(),
            retry_after: None,
            request_id: String::new(),
        }
    }

    pub(crate) fn from_status(status: &Status) -> Self {
        Self::new(status.code(), status.message()).with_details(&status.get_error_details())
    }

    /// From a status inside a message: the outcome of one utterance.
    pub(crate) fn from_rpc_status(status: &RpcStatus) -> Self {
        Self::new(Code::from_i32(status.code), &status.message).with_details(&status.get_error_details())
    }

    fn with_details(mut self, details: &ErrorDetails) -> Self {
        if let Some(info) = details.error_info() {
            self.reason.clone_from(&info.reason);
            self.metadata = info.metadata.clone().into_iter().collect();
        }
        if let Some(request) = details.bad_request() {
            let violation = |violation: &tonic_types::FieldViolation| FieldViolation {
                field: violation.field.clone(),
                description: violation.description.clone(),
            };
            self.violations = request.field_violations.iter().map(violation).collect();
        }
        self.retry_after = details.retry_info().and_then(|retry| retry.retry_delay);
        if let Some(request) = details.request_info() {
            self.request_id.clone_from(&request.request_id);
        }
        self
    }
}

impl std::error::Error for RpcError {}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = if self.message.is_empty() {
            "the server gave no explanation"
        } else {
            &self.message
        };
        write!(f, "{message} ({}", code_name(self.code))?;
        if !self.reason.is_empty() {
            write!(f, ", {}", self.reason)?;
        }
        f.write_str(")")
    }
}

/// A code's name as the gRPC documentation spells it.
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details() -> ErrorDetails {
        let mut details = ErrorDetails::with_error_info(
            "TEXT_TOO_LONG",
            omni_proto::ERROR_DOMAIN,
            [("limit".to_owned(), "5000".to_owned())],
        );
        details
            .add_bad_request_violation("text", "has 6000 bytes")
            .set_retry_info(Some(Duration::from_millis(1_500)))
            .set_request_info("r-1", "");
        details
    }

    #[test]
    fn every_detail_of_a_status_is_read() {
        let status = Status::with_error_details(Code::InvalidArgument, "text is too long", details());
        let error = RpcError::from_status(&status);
        assert_eq!(
            error.to_string(),
            "text is too long (INVALID_ARGUMENT, TEXT_TOO_LONG)"
        );
        assert_eq!(error.metadata["limit"], "5000");
        assert_eq!(
            error.violations,
            [FieldViolation {
                field: "text".into(),
                description: "has 6000 bytes".into()
            }]
        );
        assert_eq!(error.retry_after, Some(Duration::from_millis(1_500)));
        assert_eq!(error.request_id, "r-1");
    }

    #[test]
    fn a_status_inside_a_message_reads_the_same() {
        let status = Status::with_error_details(Code::InvalidArgument, "text is too long", details());
        let inner = <RpcStatus as prost::Message>::decode(status.details()).unwrap();
        assert_eq!(RpcError::from_rpc_status(&inner), RpcError::from_status(&status));
    }

    #[test]
    fn a_bare_status_still_reads_as_a_sentence() {
        let error = RpcError::from_status(&Status::new(Code::Internal, ""));
        assert_eq!(error.to_string(), "the server gave no explanation (INTERNAL)");
    }
}
