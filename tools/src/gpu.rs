//! `omni-gpu`: whether an NVIDIA device computes what it should, and how fast; in Markdown, from one program that needs
//! nothing beside it.
//!
//! Machines with devices are often rented for minutes and have nothing installed. So all that is compared with is compiled in, a
//! time is given beforehand, what does not fit it is named, and what is known is written at once. With feature `emulator`
//! everything but the speed can be tried without a device.

mod bench;
mod budget;
mod check;
mod clocks;
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
