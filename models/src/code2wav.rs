//! code2wav: codec frames in, samples out, as a [`ChunkModel`] over many streams.
//!
//! A stream carries everything that the causal network remembers (attention window, past rows of every convolution),
//! so frames may come in any pieces: the samples are those of the whole. With Qwen3-Omni the first frame of a stream
//! gives fewer samples than the following ones, because every transposed convolution drops its first `rate` outputs,
//! as the reference implementation does.
//!
//! What it remembers reaches back only so far: samples depend on the frames of the attention windows and convolutions
//! in a row ([`Code2WavNet::reach`]). A stream that is to go on behind a long lead begins that many frames before the
//! end of the lead, at the positions that these frames have, and gives the same samples to the bit. By the
//! convolutions they depend on a few frames only, which are nearly all of the work: what stands before those passes
//! the transformer alone.

mod core;
mod net;

use omni_engine::{ChunkBounds, ChunkModel, CodecFrame, Decoded, ModelError, SeqId, Skipped};

pub(crate) use self::core::Core;
pub(crate) use net::Code2WavNet;

pub(crate) trait AnyCode2Wav:
    ChunkModel<Request = (), Item = CodecFrame, Sample = f32> + Send
{
}

impl<T> AnyCode2Wav for T where T: ChunkModel<Request = (), Item = CodecFrame, Sample = f32> + Send {}

/// The vocoder with the state of its streams. Weights are shared between the vocoders of one model.
#[derive(derive_more::Debug)]
#[debug("Code2Wav {{ .. }}")]
pub struct Code2Wav(pub(crate) Box<dyn AnyCode2Wav>);

impl ChunkModel for Code2Wav {
    /// The frames say everything.
    type Request = ();
    type Item = CodecFrame;
    /// Mono, in [-1, 1].
    type Sample = f32;

    fn open(&mut self, seq: SeqId, (): (), lead: u32) -> Result<Skipped, ModelError> {
        self.0.open(seq, (), lead)
    }

    fn decode(&mut self, batch: &[(SeqId, &[CodecFrame])]) -> Result<Vec<Decoded<f32>>, ModelError> {
        self.0.decode(batch)
    }

    fn close(&mut self, seq: SeqId) {
        self.0.close(seq);
    }

    fn prepare(&mut self, nth: u32, bounds: ChunkBounds) -> Result<bool, ModelError> {
        self.0.prepare(nth, bounds)
    }
}
