//! Names of sessions, utterances and messages.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use omni_telemetry::TraceParent;

use crate::caller::CallerAddress;
use crate::error::log::Refusal;

tokio::task_local! {
    static REQUEST: Arc<RequestName>;
}

/// The name of a request, and how it came.
#[derive(Debug)]
pub struct RequestName {
    /// Its id, as its caller knows it.
    pub id: String,
    /// `grpc`, `http` ...
    pub protocol: &'static str,
    /// The method and path, or the path of a gRPC method.
    pub route: String,
    /// The address that it comes from, if that is known.
    pub caller: Option<CallerAddress>,
    /// The span that it is called from, if its caller says so.
    pub parent: Option<TraceParent>,
    pub arrived: Instant,
    /// A span tells of it, or will.
    pub traced: AtomicBool,
    /// Called if it is refused or fails and nothing else tells of it.
    pub on_refused: OnRefused,
}

/// The protocol of a request that became a WebSocket.
pub const WEBSOCKET: &str = "websocket";

/// Called with the request's name and why it was refused.
type Refused = dyn Fn(&RequestName, &Refusal<'_>) + Send + Sync;

/// Takes a request that was refused before anything of it began, once.
#[derive(Clone, derive_more::Debug)]
#[debug("OnRefused {{ .. }}")]
pub struct OnRefused(Arc<Refused>);

impl OnRefused {
    pub fn new(take: impl Fn(&RequestName, &Refusal<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl RequestName {
    /// Something of it began, whose record will tell of it.
    pub fn begins(&self) {
        self.traced.store(true, Ordering::Relaxed);
    }

    /// It was refused or failed.
    pub fn refused(&self, refusal: &Refusal<'_>) {
        if !self.traced.swap(true, Ordering::Relaxed) {
            (self.on_refused.0)(self, refusal);
        }
    }
}

/// Runs `work` as a part of that request.
pub fn in_request<F: Future>(name: Arc<RequestName>, work: F) -> impl Future<Output = F::Output> {
    REQUEST.scope(name, work)
}

/// Does `work` as a part of that request, if there is one.
pub fn as_request<T>(name: Option<Arc<RequestName>>, work: impl FnOnce() -> T) -> T {
    match name {
        Some(name) => REQUEST.sync_scope(name, work),
        None => work(),
    }
}

/// The request that the current task is a part of.
pub fn current_request() -> Option<Arc<RequestName>> {
    REQUEST.try_with(Arc::clone).ok()
}

/// Names one call in the log and towards its caller. Random, so that it is unique across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(u64);

impl SessionId {
    /// A new one.
    pub fn random() -> Self {
        Self(random_u64())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Names one utterance within its session; chosen by the caller or by the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UtteranceId(Arc<str>);

/// The beginning of names that the server makes, and callers may not.
pub const OWN: char = '~';

impl UtteranceId {
    /// The server's own name for the `n`-th utterance of a session.
    pub fn numbered(n: u64) -> Self {
        Self(format!("{OWN}{n}").into())
    }

    /// As it goes over the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for UtteranceId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for UtteranceId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for UtteranceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names one message of a conversation, and the answer that it is; chosen by the caller or by the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessageId(Arc<str>);

impl MessageId {
    /// The server's own name for the `n`-th message it names.
    pub fn numbered(n: u64) -> Self {
        Self(format!("{OWN}{n}").into())
    }

    /// As it goes over the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for MessageId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for MessageId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A random seed below 2^53, exact even in programs whose numbers are all floating point, such as JavaScript's.
pub fn random_seed() -> u64 {
    random_u64() >> 11
}

/// A random number from the system.
///
/// # Panics
/// If the system has none.
pub fn random_u64() -> u64 {
    getrandom::u64().expect("the system gives random bytes")
}
