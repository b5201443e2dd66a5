//! HTTP below the protocols: connections, API keys, and what bodies may hold.

mod bodies;
mod buffered;
mod keys;
mod listener;
pub(crate) mod origin;
pub(crate) mod request_id;
mod websocket;

pub use bodies::BodyBudget;
pub(crate) use bodies::BodyHold;
pub use buffered::{BufferedResponse, BufferedResponses, ResponseSlot};
pub use keys::Keys;
pub(crate) use keys::tenant;
pub use listener::Tls;
pub(crate) use listener::{ConnectionLimiter, Listener};
pub(crate) use origin::ForeignOrigin;
pub(crate) use websocket::{Ended, Handshake, Message, WebSocket, WebSocketLimits, key_protocol};
