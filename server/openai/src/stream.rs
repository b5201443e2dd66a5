//! `GET /v1/audio/speech/stream`: text as it is written, audio as it is made, over a WebSocket, in vLLM-Omni's
//! protocol.
//!
//! In: `session.config`, `input.text`, `input.done`, `session.close`. Out: for every utterance `audio.start`, frames
//! of audio, `audio.done` and `session.done`; `error` for a refused message, after which the connection goes on
//! unless its session is over.

mod connection;
mod messages;
mod utterances;

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::Response;
use omni_config::Scope;
use omni_core::call::CallContext;

use self::connection::{Call, Connection};
pub(super) use self::messages::take;
use super::OpenAi;
use super::error::ApiError;
use super::speech::named;
use super::websocket::{handshake, let_in, limits};

pub(super) async fn open(State(openai): State<OpenAi>, mut head: Parts) -> Result<Response, ApiError> {
    let caller = let_in(&openai, &mut head, Scope::Speech)?;
    // Before anything is read: the number of sessions bounds the memory of connections.
    let admitted = openai.speech.admit("AudioSpeech/Stream", caller.clone());
    let (info, permit) = admitted.map_err(|error| named(&error))?;
    let handshake = handshake(&mut head)?;
    let limits = limits(&openai);
    let call = Call {
        info,
        tenant: caller.tenant(),
        context: CallContext::from_headers(&head.headers),
    };
    Ok(handshake.accept(limits, move |socket| {
        Connection::new(socket, openai, call, permit).run()
    }))
}
