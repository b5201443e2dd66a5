//! The parts that the networks share, written over [`omni_backend::Backend`].

mod ffn;
mod stack;

pub(crate) use ffn::Mlp;
pub(crate) use stack::{Stack, Tap};
