//! Conversations over real sockets, with a scripted model.

mod bad_input;
mod checkpoint;
mod closing;
mod embedded;
mod failures;
mod hearing;
mod interruption;
mod speech;
mod turns;

/// Samples of what is heard where there is nothing to speak: 200 ms at the 16 kHz that these tests ask for.
const SILENCE: usize = 3_200;
