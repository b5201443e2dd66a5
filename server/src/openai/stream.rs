//! `GET /v1/audio/speech/stream`: text as it is written, audio as it is made, over a WebSocket and as vLLM-Omni has it.
//!
//! In: `session.config`, `input.text`, `input.done`, `session.close`. Out: for every utterance `audio.start`, frames of audio,
//! `audio.done` and `session.done`; `error` for what is refused, after which the connection goes on unless its session is over.

mod connection;
mod messages;
mod utterances;

use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use self::connection::{Call, Connection};
pub(super) use self::messages::take;
use super::OpenAi;
use super::error::ApiError;
use super::speech::named;
use super::voices::of_no_other_page;
use crate::config::Scope;
use crate::service::CallContext;
use crate::transport::{Handshake, WebSocketLimits, key_protocol};

pub(super) async fn open(State(openai): State<OpenAi>, mut head: Parts) -> Result<Response, ApiError> {
    if let Some(key) = key_protocol(&head.headers)
        && !head.headers.contains_key(header::AUTHORIZATION)
        && let Ok(bearer) = HeaderValue::try_from(format!("Bearer {key}"))
    {
        head.headers.insert(header::AUTHORIZATION, bearer);
    }
    let caller = openai.allow(&head, Some(Scope::Speech))?;
    // A browser lets any page open a WebSocket without asking first.
    of_no_other_page(&head)?;
    let handshake = Handshake::of(&mut head).map_err(|error| {
        let status = StatusCode::UPGRADE_REQUIRED;
        ApiError::unread(status, "websocket_expected", &error.to_string())
    })?;
    // Before anything is read: what a connection may hold is bounded by the number of sessions.
    let admitted = openai.speech.admit("AudioSpeech/Stream", caller.clone());
    let (info, permit) = admitted.map_err(|error| named(&error))?;
    let limits = WebSocketLimits {
        message_bytes: openai.limits.message_bytes,
        keepalive: openai.limits.keepalive,
        keepalive_timeout: openai.limits.keepalive_timeout,
        stall_timeout: openai.speech.limits().stall_timeout,
    };
    let call = Call {
        info,
        tenant: caller.tenant(),
        context: CallContext::from_headers(&head.headers),
    };
    Ok(handshake.accept(limits, move |socket| {
        Connection::new(socket, openai, call, permit).run()
    }))
}
