//! The parts that the networks share, written over [`crate::backend::Backend`].

mod angles;
mod ffn;
mod stack;

pub(crate) use angles::Angles;
pub(crate) use ffn::Mlp;
pub(crate) use stack::{Stack, Tap};
