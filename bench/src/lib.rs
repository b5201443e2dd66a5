//! Load generator for Omni: latency, throughput and continuity of a server's speech and answers under many callers.
//!
//! A [`Plan`] describes the measurement and gives a [`Measurement`], which can be printed, written as JSON and drawn
//! as a page. [`pairs()`] compares servers request by request, [`compare()`] two written reports.
//!
//! Requests become records (`record`), records of one load become points (`level`), and all output is a function of
//! those, so that a written report can be read and shown again. The crate prints nothing.

mod caller;
mod capacity;
mod compare;
pub mod corpus;
mod error;
mod figures;
mod grid;
mod heard;
mod html;
mod level;
mod load;
mod measurement;
mod pairs;
mod plan;
mod random;
mod record;
mod report;
mod slo;
mod speaking;
mod stats;
mod table;
mod talking;

pub use caller::{Asking, CancelMix, Work};
pub use compare::{compare, compare_json};
pub use error::BenchError;
pub use grid::Style;
pub use level::Offered;
pub use load::Load;
pub use measurement::{Failures, Measurement};
pub use pairs::{Pairs, Sides, pairs};
pub use plan::{MaxStreams, Plan, Progress};
pub use report::day;
pub use slo::Slo;
pub use speaking::Manner;
