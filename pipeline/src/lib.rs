//! Runs the stages of a model: a stage graph, its pools of replicas, the edges between them, and the requests that pass them.
//!
//! A model family gives a [`StageGraph`](omni_engine::StageGraph) and the model of each of its stages ([`StageFamily`](stage::StageFamily)); what is
//! done with both is decided here, by the kinds of the stages and the payloads of the edges. No stage has a name here.
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
//! Not in this crate: gRPC, HTTP, JSON, configuration files, and what a model is to its callers (voices, languages, templates).

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
