//! Load generator for Omni: latency, throughput and continuity of a server's speech and answers under many callers.
//!
//! A [`Plan`] says what to measure, and gives a [`Measurement`] to print, to write as JSON and to draw as a page.
//! [`pairs()`] compares servers request by request.
//!
//! Requests become records (`record`), records of one load become points (`level`), and everything that is shown is a
//! function of those. The crate prints nothing.

mod caller;
mod capacity;
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
