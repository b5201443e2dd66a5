//! The Omni server: configuration, sessions, services, and the protocols gRPC and OpenAI's HTTP API.
//!
//! Imports run down one list only:
//!
//! | level | modules | |
//! |---|---|---|
//! | 7 | `app`, `main` | composition root: names concrete types, starts tasks |
//! | 6 | `grpc`, `openai`, `studio`, `wyoming` | protocols: messages and JSON to domain types and back, and the page for browsers; none knows another |
//! | 5 | `transport` | HTTP below the protocols: connections, API keys, bounds of bodies |
//! | 4 | `service` | speech, chat, voices and catalogue, free of protocols |
//! | 3 | `session` | one call: text in, events out, every utterance accounted for |
//! | 2 | `orchestrator` | admission by tenant, the model that is served, its pipeline |
//! | 1 | `caller`, `compute`, `config`, `drain`, `error`, `id`, `json`, `reload`, `seldom`, `tasks` | |
//!
//! What a model is to its callers, and the model of each stage, are in `omni-family`; what runs the stages is `omni-pipeline`.
//!
//! Commands go down bounded queues, events come up bounded queues. Cancellation is a flag that goes down.

// A program, and no library for others: its items are documented where their names do not say enough.
#![allow(missing_docs)]

pub mod app;
pub mod caller;
pub mod compute;
pub mod config;
pub mod drain;
pub mod error;
pub mod grpc;
pub mod id;
mod json;
pub mod openai;
pub mod orchestrator;
pub mod reload;
pub mod seldom;
pub mod service;
pub mod session;
pub mod studio;
pub mod tasks;
pub mod transport;
pub mod wyoming;
