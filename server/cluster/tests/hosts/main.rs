//! Parts of a cluster on hosts of their own: each in a network namespace, with a network between them that delays,
//! loses and cuts.
#![cfg(target_os = "linux")]

#[path = "../parts/certificates.rs"]
mod certificates;
mod conditions;
mod cut;
mod hosts;
#[path = "../parts/part.rs"]
#[expect(dead_code, reason = "the tests of one host use all of it")]
mod part;
mod relay;
