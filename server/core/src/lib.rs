//! What sessions, services and protocols share: callers and their quotas, errors as callers are told them, ids, threads for
//! computing, the phases of a shutdown, the tasks of the server, and the model that is served.

// Part of a program, and no library for others: items are documented where their names do not say enough.
#![allow(missing_docs, missing_debug_implementations)]

pub mod call;
pub mod caller;
pub mod compute;
pub mod drain;
pub mod error;
pub mod id;
pub mod orchestrator;
pub mod tasks;
