//! gRPC calls of one method, by the names of go-grpc-prometheus.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram};

use super::torchserve::{ResponseClass, Responses};
use crate::families as f;
use crate::meter::Meter;

/// The side that streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// Neither.
    Unary,
    /// The caller.
    ClientStream,
    /// The server.
    ServerStream,
    /// Both.
    BidiStream,
}

impl CallKind {
    fn label(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::ClientStream => "client_stream",
            Self::ServerStream => "server_stream",
            Self::BidiStream => "bidi_stream",
        }
    }
}

/// A gRPC status code by its number, 0 to 16. Any other reads as unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrpcCode(pub i32);

/// The codes' names in the order of their numbers.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

impl GrpcCode {
    const UNKNOWN: usize = 2;

    /// As the status codes of HTTP have it that stand for these. The only deadline that a call of this server can
    /// exceed is its caller's.
    fn class(self) -> ResponseClass {
        match CODES[self.index()] {
            "OK" => ResponseClass::Success,
            "Unknown" | "Unimplemented" | "Internal" | "Unavailable" | "DataLoss" => {
                ResponseClass::ServerError
            }
            _ => ResponseClass::ClientError,
        }
    }

    fn index(self) -> usize {
        usize::try_from(self.0)
            .ok()
            .filter(|index| *index < CODES.len())
            .unwrap_or(Self::UNKNOWN)
    }
}

/// Returns true for services that do work for callers; others administer, describe, measure or probe.
fn works(service: &str) -> bool {
    let name = service.rsplit('.').next().unwrap_or_default();
    ["Speech", "Conversation", "Chat", "Voice"]
        .iter()
        .any(|word| name.contains(word))
}

/// Records the calls of one method.
#[derive(Debug)]
pub struct GrpcInstruments {
    meter: Meter,
    labels: [String; 3],
    started: Counter,
    received: Counter,
    sent: Counter,
    handling: Histogram,
    /// Of calls for work.
    responses: Option<Responses>,
    /// A code's series begins with its first call, OK's at once.
    handled: [OnceLock<Counter>; CODES.len()],
}

impl GrpcInstruments {
    /// Instruments for `method` of `service` (`omni.v1.SpeechService`, `Speak`).
    pub fn new(meter: &Meter, kind: CallKind, service: &str, method: &str) -> Self {
        let labels = [kind.label(), service, method];
        let this = Self {
            meter: meter.clone(),
            labels: labels.map(str::to_owned),
            started: meter.counter(f::GRPC_SERVER_STARTED_TOTAL, labels),
            received: meter.counter(f::GRPC_SERVER_MSG_RECEIVED_TOTAL, labels),
            sent: meter.counter(f::GRPC_SERVER_MSG_SENT_TOTAL, labels),
            handling: meter.histogram(f::GRPC_SERVER_HANDLING_SECONDS, labels),
            responses: works(service).then(|| Responses::new(meter)),
            handled: std::array::from_fn(|_| OnceLock::new()),
        };
        this.of_code(GrpcCode(0)).increment(0);
        this
    }

    fn of_code(&self, code: GrpcCode) -> &Counter {
        let index = code.index();
        self.handled[index].get_or_init(|| {
            let [kind, service, method] = self.labels.each_ref().map(String::as_str);
            self.meter.counter(
                f::GRPC_SERVER_HANDLED_TOTAL,
                [kind, service, method, CODES[index]],
            )
        })
    }

    /// A call began.
    pub fn started(&self) {
        self.started.increment(1);
    }

    /// A message came.
    pub fn received(&self) {
        self.received.increment(1);
    }

    /// A message went out.
    pub fn sent(&self) {
        self.sent.increment(1);
    }

    /// A call ended, to the end of its stream.
    pub fn handled(&self, code: GrpcCode, after: Duration) {
        self.of_code(code).increment(1);
        self.handling.record(after);
        if let Some(responses) = &self.responses {
            responses.answered(code.class());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str) -> ResponseClass {
        let index = CODES
            .iter()
            .position(|code| *code == name)
            .expect("a code of gRPC");
        GrpcCode(index as i32).class()
    }

    #[test]
    fn a_deadline_that_a_caller_set_is_not_the_servers_fault() {
        assert!(matches!(class("DeadlineExceeded"), ResponseClass::ClientError));
        assert!(matches!(class("Internal"), ResponseClass::ServerError));
        assert!(matches!(class("OK"), ResponseClass::Success));
    }
}
