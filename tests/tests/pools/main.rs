//! Replicas that are added, removed, die and hang.

mod graphs;
mod hung_replicas;
mod overlap;
mod replicas;
mod stage_failures;
mod stages;
