//! HTTP below the protocols: connections, API keys, and what bodies may hold.

// Part of a program, and no library for others: items are documented where their names do not say enough.
#![allow(missing_docs, missing_debug_implementations)]

mod bodies;
mod buffered;
mod forwarded;
mod hosts;
mod keys;
mod listener;
pub mod origin;
mod refusal;
mod reload;
pub mod request_id;
mod seldom;
mod websocket;

pub use bodies::{BodyBudget, BodyHold};
pub use buffered::{BufferedResponse, BufferedResponses, ResponseSlot};
pub use forwarded::CalledAs;
pub use hosts::{Hosts, checked, is_probe, names_this_machine};
pub use keys::{Keys, tenant};
pub use listener::{ConnectionLimiter, Listener, Port, Tls, keep_unsent_short, proxied_caller};
pub use origin::ForeignOrigin;
pub use refusal::{is_grpc, refusal};
pub use seldom::Seldom;
pub use websocket::{Ended, Handshake, Message, WebSocket, WebSocketLimits, key_protocol};
