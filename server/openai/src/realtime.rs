//! `GET /v1/realtime`: conversations by voice and by text over a WebSocket, as of OpenAI's Realtime API.
//!
//! In: events of the client as JSON. Out: the events that clients of OpenAI expect, in their order; `error` for a
//! refused event, after which the connection goes on unless its session is over. The items of the conversation are
//! kept here, and every response passes them to the answering session as they are then.

mod connection;
mod conversation;
mod events;
mod formats;
mod hints;
mod ids;
mod input;
mod items;
mod response;
mod session;
mod settings;
mod told;
mod tools;
mod turn_detection;

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::Response;
use omni_config::Scope;
use omni_core::call::CallContext;
use percent_encoding::percent_decode_str;

use self::connection::Connection;
pub(super) use self::events::take;
use self::session::Session;
use self::settings::named;
use super::OpenAi;
use super::error::ApiError;
use super::websocket::{handshake, let_in, limits};

pub(super) async fn open(State(openai): State<OpenAi>, mut head: Parts) -> Result<Response, ApiError> {
    let caller = let_in(&openai, &mut head, Scope::Chat)?;
    // Before anything is read: the number of sessions bounds the memory of connections.
    let admitted = openai.chat.admit("Realtime", caller.clone());
    let (model, permit) = admitted.map_err(|error| named(&error))?;
    let session = Session::new(&named_model(&head), model).map_err(|error| named(&error))?;
    let handshake = handshake(&mut head)?;
    let limits = limits(&openai);
    let context = CallContext::from_headers(&head.headers);
    Ok(handshake.accept(limits, move |socket| {
        Connection::new(socket, openai, session, (caller, context, permit)).run()
    }))
}

/// Model named in the address; empty for any.
fn named_model(head: &Parts) -> String {
    let query = head.uri.query().unwrap_or_default();
    let model = query.split('&').find_map(|pair| pair.strip_prefix("model="));
    let model = model.unwrap_or_default().replace('+', " ");
    percent_decode_str(&model).decode_utf8_lossy().into_owned()
}
