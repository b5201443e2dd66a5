//! Pipeline of a model's stages: stage graph, pools of replicas, edges, and the requests that pass them.
//!
//! A model family provides a [`StageGraph`](omni_engine::StageGraph) and the model of each stage
//! ([`StageFamily`](stage::StageFamily)). This crate runs them by the kinds of the stages and the payloads of the
//! edges, and names no stage.
//!
//! Imports run down one list only:
//!
//! | level | modules | |
//! |---|---|---|
//! | 4 | `orchestrator` | admission, and the life of a request over the graph: bindings, edges, retries |
//! | 3 | `connector` | edges within a process and to another one |
//! | 2 | `stage` | pools, replicas, threads that drive the engines |
//! | 1 | `clock`, `item`, `request`, `seq_ids`, `settings`, `tenant`, `trace` | plain values |
//!
//! Not in this crate: gRPC, HTTP, JSON, configuration files, and the model's public side (voices, languages,
//! templates).

pub mod clock;
pub mod connector;
pub mod item;
pub mod orchestrator;
pub mod request;
pub mod seq_ids;
pub mod settings;
pub mod stage;
pub mod tenant;
pub mod trace;
