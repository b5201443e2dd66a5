//! The Omni server on many machines: stages and front ends that find each other by Dynamo's runtime.
//!
//! | module | |
//! |---|---|
//! | `args`, `settings` | what was typed, and a part that can be run |
//! | `frontend`, `members` | serves callers; its pools follow discovery |
//! | `worker` | runs one replica of a stage, and registers it |
//! | `probes` | its probes and figures over HTTP |
//! | `card` | what a stage tells of itself, and what two parts must have in common |
//! | `tunnel` | a connection of `omni.stage.v1` through a stream of Dynamo's runtime |
//! | `runtime`, `signals` | the runtime of a part, and what ends it |

pub mod args;
pub mod card;
pub mod frontend;
pub mod members;
pub mod probes;
pub mod runtime;
pub mod settings;
pub mod signals;
pub mod tunnel;
pub mod worker;
