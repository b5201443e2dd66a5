//! gRPC: messages of `omni.v1` and of NVIDIA Riva to requests and commands, events and errors to messages.
//!
//! A sibling of `openai` over the same services; neither calls the other. Permits, deadlines and records live in the
//! session, for tonic's own layers stop at the response headers.

// Part of a program, and no library for others: items are documented where their names do not say enough.
#![allow(missing_docs)]

mod admin;
mod auth;
mod body_time;
mod buffered;
mod calls;
mod catalog;
mod chat;
mod commands;
mod delivery;
mod explained;
mod metrics;
mod outcome;
pub mod parsers;
mod reply;
mod riva;
mod serve;
mod settings;
mod speech;
mod status;
mod unpacked;
mod voices;
mod watch;

pub use admin::{Admin, AdminState, ServerInfo};
pub use calls::CountCalls;
pub use catalog::GrpcCatalog;
pub use chat::GrpcChat;
pub use metrics::Measurements;
pub use riva::Riva;
pub use serve::{
    ADMIN_SERVICE_NAME, Access, CHAT_SERVICE_NAME, METRICS_SERVICE_NAME, SERVICE_NAMES, Services,
    WATCH_SERVICE_NAME, serve, serve_admin,
};
pub use speech::GrpcSpeech;
pub use status::{rpc_status, status};
pub use voices::GrpcVoices;
pub use watch::Watch;
