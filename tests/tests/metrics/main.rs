//! The metrics of servers that work: everything they serve is fed, and says what their callers know.

mod callers;
mod counts;
mod encrypted_push;
mod engines;
mod families;
mod incidents;
mod items;
mod listening;
mod programs;
