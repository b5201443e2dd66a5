//! The Omni server: stages, orchestration, sessions, gRPC services and OpenAI's HTTP API.
//!
//! Imports run down one list only:
//!
//! | level | modules | |
//! |---|---|---|
//! | 8 | `app`, `main` | composition root: names concrete types, starts tasks |
//! | 7 | `grpc`, `openai`, `wyoming` | protocols: messages and JSON to domain types and back; none knows another |
//! | 6 | `transport` | HTTP below the protocols: connections, API keys, bounds of bodies |
//! | 5 | `service` | speech, chat, voices and catalogue, free of protocols |
//! | 4 | `session` | one call: text in, events out, every utterance accounted for |
//! | 3 | `orchestrator` | admission, and the life of a sequence over the stages |
//! | 2 | `connector`, `stage` | edges; threads that drive the engines |
//! | 1 | `caller`, `clock`, `compute`, `config`, `drain`, `error`, `id`, `reload`, `tasks` | |
//!
//! Commands go down bounded queues, events come up bounded queues. Cancellation is a flag that goes down.

// A program, and no library for others: its items are documented where their names do not say enough.
#![allow(missing_docs)]

pub mod app;
pub mod caller;
pub mod clock;
pub mod compute;
pub mod config;
pub mod connector;
pub mod drain;
pub mod error;
pub mod grpc;
pub mod id;
pub mod openai;
pub mod orchestrator;
pub mod reload;
pub mod service;
pub mod session;
pub mod stage;
pub mod tasks;
pub mod transport;
pub mod wyoming;
