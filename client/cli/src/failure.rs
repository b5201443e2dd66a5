//! Every way the program can fail: its message and its exit code. The one table of both.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use omni_bench::BenchError;
use omni_client::{ClientError, Code, Endpoint, FieldViolation, RpcError, TlsProblem, code_name};
use serde_json::{Value, json};

use super::diagnosis::Found;
use super::ui::Ui;

/// Exit code of a gRPC failure is this plus the gRPC code, as other gRPC tools do.
const RPC_BASE: u8 = 64;

/// Reasons for a failure of the program.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong usage.
    Usage(String),
    /// The server, or the way to it.
    Rpc(ClientError),
    /// The port is of a service that takes no calls of this kind.
    WrongPort { endpoint: Endpoint, found: Found },
    /// A file or a standard stream.
    Io {
        /// The operation.
        what: String,
        error: io::Error,
    },
    /// The reader of the output has gone.
    ReaderGone,
    /// Stopped by a signal with this number, after files were completed.
    Interrupted(u8),
    /// The server answered that it does not serve.
    NotServing(String),
    /// A check of `doctor` failed.
    CheckFailed(String),
    /// Some requests of a benchmark failed.
    SomeFailed(String),
    /// A failure that was already reported.
    Told(Box<Failure>),
}

impl Failure {
    pub(crate) fn io(what: impl Into<String>, error: io::Error) -> Self {
        Self::Io {
            what: what.into(),
            error,
        }
    }

    /// Failure of a write to `target`.
    pub(crate) fn write(target: &str, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::io(format!("cannot write {target}"), error),
        }
    }

    /// Reports the failure and returns the exit code.
    pub(crate) fn report(&self, ui: &Ui) -> ExitCode {
        self.tell(ui);
        ExitCode::from(self.code())
    }

    /// Reports the failure.
    pub(crate) fn tell(&self, ui: &Ui) {
        if let Some(text) = self.text() {
            ui.error(&text);
        }
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let (code, reason) = match self {
            Self::Rpc(ClientError::Rpc(rpc)) => (Some(code_name(rpc.code)), Some(rpc.reason.as_str())),
            Self::Rpc(error) => (Some(code_name(error.code())), None),
            Self::WrongPort { .. } => (Some(code_name(Code::Unavailable)), None),
            _ => (None, None),
        };
        let message = match self {
            Self::Interrupted(signal) => format!("interrupted by signal {signal}"),
            other => other.text().unwrap_or_default(),
        };
        json!({ "exit_code": self.code(), "message": message, "code": code, "reason": reason })
    }

    fn code(&self) -> u8 {
        match self {
            Self::ReaderGone => 0,
            Self::NotServing(_) | Self::CheckFailed(_) => 1,
            Self::Usage(_) => 2,
            Self::SomeFailed(_) => 3,
            Self::Io { .. } => 4,
            Self::Rpc(error) => RPC_BASE + error.code() as u8,
            Self::WrongPort { .. } => RPC_BASE + Code::Unavailable as u8,
            Self::Interrupted(signal) => 128 + signal,
            Self::Told(failure) => failure.code(),
        }
    }

    /// The error and its remedy; later lines are details.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::ReaderGone | Self::Interrupted(_) | Self::Told(_) => None,
            Self::Usage(text) | Self::NotServing(text) | Self::CheckFailed(text) | Self::SomeFailed(text) => {
                Some(text.clone())
            }
            Self::Io { what, error } => Some(format!("{what}: {error}")),
            Self::WrongPort { endpoint, found } => {
                let advice = match found {
                    Found::Tls => format!(
                        "name it {}",
                        endpoint.to_string().replacen("http://", "https://", 1)
                    ),
                    found => found.advice().to_owned(),
                };
                Some(format!("{endpoint} {}\n  {advice}", found.problem()))
            }
            Self::Rpc(error) => Some(rpc_text(error)),
        }
    }

    /// The remedy, for failures of the server or of the connection.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Rpc(error) => advice(error),
            Self::WrongPort { found, .. } => Some(found.advice()),
            _ => None,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Rpc(error)
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Client(error) => Self::Rpc(error),
            BenchError::Stream(error) => Self::io("a stream of the benchmark died", error.into()),
            BenchError::Write { path, error } => Self::write(&path.display().to_string(), error),
        }
    }
}

fn rpc_text(error: &ClientError) -> String {
    let mut text = match error {
        // The server's message names headers; here the key is an argument.
        ClientError::Rpc(rpc) if rpc.reason == "API_KEY_MISSING" => {
            let message = "the server asks for an API key, and none is sent".to_owned();
            RpcError {
                message,
                ..RpcError::clone(rpc)
            }
            .to_string()
        }
        error => error.to_string(),
    };
    if let ClientError::Rpc(rpc) = error {
        add_details(&mut text, rpc);
    }
    if let Some(advice) = advice(error) {
        let _ = write!(text, "\n  {advice}");
    }
    text
}

fn add_details(text: &mut String, error: &RpcError) {
    // A violation that only repeats the message is left out.
    let said = |violation: &&FieldViolation| error.message.contains(&violation.description);
    for violation in error.violations.iter().filter(|violation| !said(violation)) {
        let _ = write!(text, "\n  {}: {}", violation.field, violation.description);
    }
    for (key, value) in &error.metadata {
        let _ = write!(text, "\n  {key}: {value}");
    }
    if let Some(delay) = error.retry_after {
        let _ = write!(text, "\n  try again in {:.1} s", delay.as_secs_f64());
    }
    if !error.request_id.is_empty() {
        let _ = write!(text, "\n  request id: {}", error.request_id);
    }
}

/// The remedy for a failed encryption.
pub(crate) fn tls_advice(problem: TlsProblem) -> &'static str {
    match problem {
        TlsProblem::UnknownAuthority => {
            "if you trust it, name the authority's certificate with --tls-ca or OMNI_TLS_CA"
        }
        TlsProblem::WrongName => {
            "name the server as its certificate does; if it is the right one, --tls-server-name says what to expect"
        }
        TlsProblem::Expired => "the server needs a new certificate; is this machine's clock right?",
        TlsProblem::NotYetValid => "is this machine's clock right?",
        TlsProblem::NotTls => "without encryption its address begins with http://; is it the right port?",
        TlsProblem::TlsExpected => "write its address with https://",
        TlsProblem::CertificateRequired => "name yours and its key with --tls-cert and --tls-key",
        TlsProblem::CertificateRefused => {
            "--tls-cert must name one that the server's --tls-client-ca has signed, and that has not expired"
        }
        TlsProblem::NoHttp2 => "is it an Omni server, or a proxy that passes gRPC on?",
        _ => "see the server's log, with --log-level debug",
    }
}

/// The remedy.
fn advice(error: &ClientError) -> Option<&'static str> {
    let rpc = match error {
        ClientError::Unreachable { .. } => {
            return Some(
                "start a server with `omni-server`, or name another with --endpoint or OMNI_ENDPOINT",
            );
        }
        ClientError::Tls { problem, .. } => return Some(tls_advice(*problem)),
        ClientError::Lost { .. } => return Some("the server went away; see its log"),
        ClientError::Protocol { .. } => return Some("do client and server have the same version?"),
        ClientError::Rpc(rpc) => rpc,
    };
    match (rpc.reason.as_str(), rpc.code) {
        ("VOICE_NOT_FOUND", _) => Some("`omni-client voices` lists the voices"),
        ("MODEL_NOT_FOUND", _) => Some("`omni-client models` lists the models"),
        ("TEXT_TOO_LONG", _) => Some("speak it in several parts"),
        ("CONTEXT_TOO_LONG", _) => Some("begin a new conversation: in a script or at the prompt with /clear"),
        ("DRAINING" | "STOPPED", _) => {
            Some("`omni-client health --wait` waits until a server is ready there")
        }
        ("MODEL_LOADING", _) => Some("`omni-client health --wait` waits until the server is ready"),
        ("HTTP2_NEEDED", _) => Some("docs/proxy.md of the server has a configuration for each usual proxy"),
        ("HOST_NOT_ALLOWED", _) => Some("the server's --allowed-hosts must list this name"),
        ("SESSION_NOT_FOUND" | "STAGE_NOT_FOUND" | "REPLICA_NOT_FOUND", _) => {
            Some("`omni-client stats` shows what there is")
        }
        (_, Code::Unauthenticated) => Some(
            "--api-key-file names a file with the key, or OMNI_API_KEY holds the key itself; `omni-server new-key` makes one",
        ),
        ("SCOPE_MISSING", _) => Some("another key opens this; `omni-server new-key` makes keys"),
        (_, Code::DeadlineExceeded) => Some("--timeout gives it more time"),
        (_, Code::ResourceExhausted) if rpc.retry_after.is_none() => Some("try again later"),
        ("", Code::Unimplemented) => Some("is this an Omni server, and of this client's version?"),
        (_, Code::Internal | Code::Unknown | Code::DataLoss) => Some("a fault of the server; see its log"),
        _ => None,
    }
}
