//! Cluster of Omni servers: stages and front ends on many machines, which find each other by Dynamo's runtime.

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
