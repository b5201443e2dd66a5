//! Conversations over real sockets, with a scripted model.

mod bad_input;
mod checkpoint;
mod closing;
mod completions;
mod embedded;
mod failures;
mod hearing;
mod interruption;
mod speech;
mod turns;
