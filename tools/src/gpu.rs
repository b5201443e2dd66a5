//! `omni-gpu`: checks the results of an NVIDIA device and measures its speed, as Markdown, in one self-contained
//! program.
//!
//! Machines with devices are often rented for minutes and have nothing installed. So all references are compiled in,
//! the time is limited beforehand, work that does not fit is named, and results are written at once. With feature
//! `emulator` everything but the speed can be tried without a device.

mod bench;
mod budget;
mod check;
mod judge;
mod machine;
mod models;
mod report;
mod verdict;

pub use bench::{Bench, PUBLISHED, bench};
pub use budget::Budget;
pub use check::{References, check};
pub use judge::Judge;
pub use machine::describe;
pub use models::{Embedded, Place};
pub use report::Report;
pub use verdict::Verdict;
