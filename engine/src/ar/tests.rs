//! The engine against a model whose KV rows are hashes of everything before them, and which checks every call it gets.

mod admission;
mod life;
mod overlap;
mod places;
mod prefix;
mod prior;
mod steps;
mod support;
mod traffic;
