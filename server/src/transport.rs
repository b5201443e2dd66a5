//! HTTP below the protocols: connections, API keys, and what bodies may hold.

mod bodies;
mod buffered;
mod forwarded;
mod hosts;
mod keys;
mod listener;
pub(crate) mod origin;
mod refusal;
pub(crate) mod request_id;
mod websocket;

pub use bodies::BodyBudget;
pub(crate) use bodies::BodyHold;
pub use buffered::{BufferedResponse, BufferedResponses, ResponseSlot};
pub(crate) use forwarded::CalledAs;
pub use hosts::Hosts;
pub(crate) use hosts::{checked, is_probe, names_this_machine};
pub use keys::Keys;
pub(crate) use keys::tenant;
pub(crate) use listener::{ConnectionLimiter, Listener, keep_unsent_short, proxied_caller};
pub use listener::{Port, Tls};
pub(crate) use origin::ForeignOrigin;
pub(crate) use refusal::{is_grpc, refusal};
pub(crate) use websocket::{Ended, Handshake, Message, WebSocket, WebSocketLimits, key_protocol};
