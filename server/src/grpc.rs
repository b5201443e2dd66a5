//! Wire and domain: services, conversions, status codes.
//!
//! The only modules, with `openai` above them, that name protobuf types. A handler checks that work can be taken, starts a session as a task of its own
//! and returns the response stream at once, before the first request message: callers that open the call and only then send
//! would wait for ever otherwise. Permits, deadlines and records live in the session, for tonic's own layers stop at the
//! response headers.

mod admin;
mod aliases;
mod bodies;
mod body_time;
mod calls;
mod catalog;
mod chat;
mod commands;
mod deadline;
mod delivery;
mod door;
mod keys;
mod listener;
mod metrics;
mod outcome;
mod parcel;
pub mod parsers;
mod reply;
mod request_id;
mod riva;
mod serve;
mod settings;
mod shares;
mod speech;
mod status;

pub use admin::{About, Admin, Sights};
pub(crate) use bodies::Hold;
pub use calls::CountCalls;
pub use catalog::Catalog;
pub use chat::Chat;
pub use door::Door;
pub use keys::Keys;
pub(crate) use keys::party;
pub use listener::Tls;
pub use metrics::Measurements;
pub use parcel::Parcels;
pub use riva::Riva;
pub use serve::{
    ADMIN_SERVICE_NAME, Access, CHAT_SERVICE_NAME, METRICS_SERVICE_NAME, SERVICE_NAMES, Services, serve,
    serve_admin,
};
pub use speech::Speech;
pub use status::{rpc_status, status};
