//! Metrics of servers under work: every metric is fed, and agrees with its callers' view.

mod callers;
mod counts;
mod encrypted_push;
mod engines;
mod families;
mod incidents;
mod items;
mod listening;
mod programs;
