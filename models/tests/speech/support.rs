//! Drives talker and code2wav as an engine would; an unexpected error fails the test.

use omni_engine::CodecFrame;
use omni_models::{
    CheckpointSource, Code2Wav, DType, Kernels, LoadOptions, SpeechModel, Talker, TalkerRequest, testing,
};

pub(crate) use omni_models::testing::{frames, greedy, kv, request, sampled, tokens};

use crate::golden::tiny;

pub(crate) fn load(kernels: Kernels, dtype: DType) -> SpeechModel {
    SpeechModel::load(
        CheckpointSource::Dir(tiny()),
        LoadOptions {
            dtype,
            kernels,
            ..LoadOptions::default()
        },
    )
    .expect("the tiny checkpoint loads")
}

/// The two implementations in f32.
pub(crate) fn both() -> [(&'static str, SpeechModel); 2] {
    [
        ("own", load(Kernels::Auto, DType::F32)),
        ("candle", load(Kernels::Candle, DType::F32)),
    ]
}

/// And a GPU's kernels, steps that are alike as graphs. It is slow.
pub(crate) fn all() -> [(&'static str, SpeechModel); 3] {
    let [own, candle] = both();
    let gpu = load(Kernels::Emulated { graphs: true }, DType::F32);
    [own, candle, ("gpu", gpu)]
}

pub(crate) use omni_models::testing::Run;

/// A sequence with all its text, beside at most seven others.
pub(crate) fn open(talker: &mut Talker, id: u64, request: TalkerRequest, text: &[u32]) -> Run {
    Run::open(talker, id, request, text).expect("the request is served")
}

/// One engine step over `runs`: at most `chunk` positions each, then a sample of those that are up to date.
pub(crate) fn step(talker: &mut Talker, runs: &mut [&mut Run], chunk: u32) {
    testing::step(talker, runs, chunk).expect("the step computes");
}

/// The frames of one request on its own.
pub(crate) fn speak(talker: &mut Talker, id: u64, request: TalkerRequest, text: &[u32]) -> Vec<Vec<u32>> {
    testing::speak(talker, id, request, text).expect("it speaks")
}

/// Samples of a stream decoded in pieces of the given sizes (the last repeats).
pub(crate) fn decode(code2wav: &mut Code2Wav, id: u64, frames: &[CodecFrame], sizes: &[usize]) -> Vec<f32> {
    testing::decode(code2wav, id, frames, sizes).expect("frames decode")
}
