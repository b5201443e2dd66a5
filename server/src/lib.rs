//! The Omni server: reads the configuration, loads the model, starts what the crates below offer, and ends it in order.
//!
//! | crate | |
//! |---|---|
//! | `omni-server` | composition root: names concrete types, starts tasks |
//! | `omni-grpc`, `omni-openai`, `omni-wyoming`, `omni-studio` | protocols: messages and JSON to domain types and back, and the page for browsers; none knows another |
//! | `omni-transport` | below the protocols: connections, API keys, bounds of bodies |
//! | `omni-services` | speech, chat, voices and catalogue, free of protocols |
//! | `omni-session` | one call: text in, events out, every utterance accounted for |
//! | `omni-core` | callers, errors, ids, compute threads, shutdown, the model that is served |
//! | `omni-config`, `omni-json` | settings; JSON as callers write it |
//!
//! A model as its callers see it, and the model of each stage, are in `omni-family`; `omni-pipeline` runs the stages.
//!
//! Commands go down bounded queues, events come up bounded queues. Cancellation is a flag that goes down.

// A program, and no library for others: its items are documented where their names do not say enough.
#![allow(missing_docs)]

pub mod app;
