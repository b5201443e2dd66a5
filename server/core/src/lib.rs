//! Shared by sessions, services and protocols: callers and their quotas, errors for callers, ids, a pool for CPU work,
//! the phases of a shutdown, the server's tasks, and the served model.

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
