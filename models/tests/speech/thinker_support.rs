//! Drives a thinker as an engine would; an unexpected error fails the test.

use omni_models::testing;
use omni_models::{Thinker, ThinkerRequest};

pub(crate) use omni_models::testing::{Reply, ask, audio_prompt, text_tokens as tokens};

pub(crate) const IM_END: u32 = 277;
pub(crate) const AUDIO_PAD: u32 = 289;
pub(crate) const HIDDEN: usize = 48;

/// A sequence that says at most `most` tokens.
pub(crate) fn open(thinker: &mut Thinker, id: u64, request: ThinkerRequest, most: usize) -> Reply {
    Reply::open(thinker, id, request, most).expect("the request is served")
}

/// One engine step: at most `chunk` positions of each reply, then a sample of those that are up to date.
pub(crate) fn step(thinker: &mut Thinker, replies: &mut [&mut Reply], chunk: u32) {
    Reply::advance(thinker, replies, chunk).expect("the step computes");
}

/// The whole of one reply on its own, its prompt in pieces of `chunk`.
pub(crate) fn say(thinker: &mut Thinker, id: u64, request: ThinkerRequest, most: usize, chunk: u32) -> Reply {
    testing::say(thinker, id, request, most, chunk).expect("it answers")
}
