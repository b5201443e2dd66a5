//! Shared parts of these protocols' WebSockets: keys of pages, bounds, and ends.

use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use omni_config::Scope;
use omni_core::caller::Caller;
use omni_core::error::{ErrorKind, ServeError};
use omni_transport::{Ended, Handshake, WebSocketLimits, key_protocol};
use tokio::sync::mpsc;

use super::OpenAi;
use super::error::ApiError;
use super::voices::of_no_other_page;

/// Admits a request for a WebSocket by a caller whose key has `scope`; pages send theirs as a subprotocol.
///
/// A page cannot read why its WebSocket was refused. It asks again by a plain `GET`, so every other refusal comes
/// before that of a missing [`handshake`].
pub(super) fn let_in(openai: &OpenAi, head: &mut Parts, scope: Scope) -> Result<Caller, ApiError> {
    if let Some(key) = key_protocol(&head.headers)
        && !head.headers.contains_key(header::AUTHORIZATION)
        && let Ok(bearer) = HeaderValue::try_from(format!("Bearer {key}"))
    {
        head.headers.insert(header::AUTHORIZATION, bearer);
    }
    let caller = openai.allow(head, Some(scope))?;
    // A browser lets any page open a WebSocket without asking first.
    of_no_other_page(head)?;
    Ok(caller)
}

/// The handshake that this head asks for.
pub(super) fn handshake(head: &mut Parts) -> Result<Handshake, ApiError> {
    Handshake::of(head).map_err(|error| {
        let status = StatusCode::UPGRADE_REQUIRED;
        ApiError::unread(status, "websocket_expected", &error.to_string())
    })
}

/// The bounds of every WebSocket.
pub(super) fn limits(openai: &OpenAi) -> WebSocketLimits {
    WebSocketLimits {
        message_bytes: openai.limits.message_bytes,
        keepalive: openai.limits.keepalive,
        keepalive_timeout: openai.limits.keepalive_timeout,
        stall_timeout: openai.speech.limits().stall_timeout,
    }
}

/// Codes of RFC 6455, section 7.4.1.
pub(super) mod code {
    pub(crate) const NORMAL: u16 = 1000;
    pub(crate) const GOING_AWAY: u16 = 1001;
    pub(crate) const INVALID: u16 = 1007;
    pub(crate) const POLICY: u16 = 1008;
    pub(crate) const TOO_LONG: u16 = 1009;
    pub(crate) const INTERNAL: u16 = 1011;
    pub(crate) const TRY_AGAIN: u16 = 1013;
}

/// End of a connection.
#[derive(Debug)]
pub(super) enum End {
    /// The peer is gone.
    Gone,
    /// Nothing more will be sent.
    Done,
    /// The port closes.
    Closing,
    /// Refused; the peer is told the reason.
    Refused(ApiError, u16),
}

impl From<Ended> for End {
    fn from(ended: Ended) -> Self {
        let refused = |problem: &str, code| Self::Refused(ApiError::invalid(None, problem), code);
        match ended {
            Ended::Gone => Self::Gone,
            Ended::TooLong => refused("a message is larger than is allowed", code::TOO_LONG),
            Ended::Invalid => refused("the bytes are not a WebSocket message", code::INVALID),
        }
    }
}

/// End of a connection by an error of its session; the peer is told by `told`.
pub(super) fn over(error: &ServeError, told: ApiError) -> End {
    use ErrorKind as K;
    let code = match error.kind() {
        K::CallerGone => return End::Gone,
        K::ShuttingDown => code::GOING_AWAY,
        K::OverQuota | K::TooManySessions | K::QueueFull | K::Overloaded | K::Loading | K::Unavailable => {
            code::TRY_AGAIN
        }
        K::Internal => code::INTERNAL,
        _ => code::POLICY,
    };
    End::Refused(told, code)
}

/// Waits until `commands` more fit; never resolves if the session has ended, which reports the reason itself.
pub(super) async fn room<T>(commands: &mpsc::Sender<T>, count: usize) {
    match commands.reserve_many(count).await {
        Ok(room) => drop(room),
        Err(_) => std::future::pending().await,
    }
}
