//! Services of the server, free of protocols: speech, chat, voices and the catalogue.
//!
//! In: requests in domain types, checked here against the model. Out: events of sessions, or descriptions. Each
//! protocol (gRPC, OpenAI's HTTP API, Riva) converts its messages to these and back, and none calls another. A
//! handler checks that work can be accepted, starts a session as a task of its own and returns the event stream at
//! once, before the first command: callers that open a call and only then send would otherwise wait for ever.

// Part of a program, and no library for others: items are documented where their names do not say enough.
#![allow(missing_docs)]

mod aliases;
mod catalog;
pub mod chat;
pub mod delivery;
mod gate;
mod language;
mod limiter;
pub mod settings;
mod speech;
pub mod voices;

pub use catalog::{Catalog, ModelDescription, VoiceDescription};
pub use chat::{ChatModel, ChatRequest, ChatService, MessageRequest, OtherPart, PartRequest};
pub use gate::{CallGate, CallPermit};
pub use speech::{SpeechRequest, SpeechService};
pub use voices::Voices;
