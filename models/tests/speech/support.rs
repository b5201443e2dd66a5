//! Driving talker and code2wav as an engine would.

use omni_engine::{ArModel, BlockId, ChunkModel, CodecFrame, Sampled, SeqId, SeqStep};
use omni_models::{
    CheckpointSource, Code2Wav, DType, Kernels, KvOptions, LoadOptions, Sampling, SpeechModel, Talker,
    TalkerRequest, UserRow,
};

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

pub(crate) fn kv() -> KvOptions {
    KvOptions {
        block_size: 4,
        num_blocks: 400,
    }
}

/// Greedy, with the published repetition penalty.
pub(crate) fn greedy() -> Sampling {
    Sampling {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        repetition_penalty: 1.05,
        min_tokens: 0,
    }
}

pub(crate) fn tokens(ids: &[u32]) -> Vec<UserRow> {
    ids.iter().map(|&id| UserRow::Token(id)).collect()
}

pub(crate) fn request(user: Vec<UserRow>, speaker: &str, max_frames: u32) -> TalkerRequest {
    let predictor = Sampling {
        repetition_penalty: 1.0,
        ..greedy()
    };
    TalkerRequest {
        user,
        speaker: speaker.into(),
        talker: greedy(),
        predictor,
        seed: 0,
        max_frames,
    }
}

/// One sequence as an engine keeps it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) seq: SeqId,
    pub(crate) prompt: u32,
    pub(crate) computed: u32,
    pub(crate) blocks: Vec<BlockId>,
    pub(crate) frames: Vec<Vec<u32>>,
    pub(crate) done: bool,
}

impl Run {
    /// Opens a sequence with all its text. Its blocks lie scattered over the pool, apart from every other sequence's.
    pub(crate) fn open(talker: &mut Talker, id: u64, request: TalkerRequest, text: &[u32]) -> Self {
        let spec = talker.kv_spec();
        let prompt = talker.open(SeqId(id), request).expect("the request is served");
        talker.push(SeqId(id), text.to_vec(), true);
        // Block 0 is the model's own.
        let share = (spec.num_blocks - 1) / 8;
        let index = u32::try_from(id).expect("a small id") % 8;
        // 11 steps through every residue of a share that 11 does not divide.
        let block = |i| BlockId(1 + (i * 11 % share) * 8 + index);
        let blocks = (0..share).map(block).collect();
        Self {
            seq: SeqId(id),
            prompt,
            computed: 0,
            blocks,
            frames: Vec::new(),
            done: false,
        }
    }

    /// Positions that can be computed now.
    pub(crate) fn known(&self) -> u32 {
        self.prompt + u32::try_from(self.frames.len()).expect("few frames")
    }

    pub(crate) fn step(&self, len: u32) -> SeqStep<'_> {
        SeqStep {
            seq: self.seq,
            start: self.computed,
            len,
            blocks: &self.blocks,
        }
    }
}

/// One engine step over `runs`: at most `chunk` positions each, then a sample of those that are up to date.
pub(crate) fn step(talker: &mut Talker, runs: &mut [&mut Run], chunk: u32) {
    let lens: Vec<u32> = runs.iter().map(|r| (r.known() - r.computed).min(chunk)).collect();
    let steps: Vec<SeqStep<'_>> = runs.iter().zip(&lens).map(|(r, &len)| r.step(len)).collect();
    talker.execute(&steps).expect("the step computes");
    runs.iter_mut().zip(&lens).for_each(|(r, len)| r.computed += len);
    let ready: Vec<SeqId> = runs
        .iter()
        .filter(|r| r.computed == r.known())
        .map(|r| r.seq)
        .collect();
    let sampled = talker.sample(&ready).expect("the step samples");
    for (seq, sampled) in ready.into_iter().zip(sampled) {
        let run = runs
            .iter_mut()
            .find(|r| r.seq == seq)
            .expect("only these were asked for");
        match sampled {
            Sampled::Item(CodecFrame(codes)) => run.frames.push(codes.to_vec()),
            Sampled::End => run.done = true,
            Sampled::Failed(reason) => panic!("sequence {} failed: {reason}", seq.0),
        }
    }
}

/// The frames of one request on its own.
pub(crate) fn speak(talker: &mut Talker, id: u64, request: TalkerRequest, text: &[u32]) -> Vec<Vec<u32>> {
    let mut run = Run::open(talker, id, request, text);
    while !run.done {
        step(talker, &mut [&mut run], u32::MAX);
    }
    talker.close(run.seq);
    run.frames
}

pub(crate) fn frames(codes: &[Vec<u32>]) -> Vec<CodecFrame> {
    codes.iter().map(|c| CodecFrame(c.clone().into())).collect()
}

/// Samples of a stream decoded in pieces of the given sizes (the last repeats).
pub(crate) fn decode(code2wav: &mut Code2Wav, id: u64, frames: &[CodecFrame], sizes: &[usize]) -> Vec<f32> {
    let seq = SeqId(id);
    code2wav.open(seq).expect("a stream opens");
    let (mut samples, mut rest, mut sizes) = (Vec::new(), frames, sizes.iter().copied().peekable());
    let mut size = 1;
    while !rest.is_empty() {
        size = sizes.next().unwrap_or(size);
        let (piece, others) = rest.split_at(size.min(rest.len()));
        rest = others;
        let out = code2wav.decode(&[(seq, piece)]).expect("frames decode");
        samples.extend(&out[0]);
    }
    code2wav.close(seq);
    samples
}

/// A request whose codes are drawn.
pub(crate) fn sampled(seed: u64, max_frames: u32) -> TalkerRequest {
    let mut r = request(tokens(&[276, 263, 10, 65, 277, 10]), "ethan", max_frames);
    r.talker = Sampling {
        temperature: 0.9,
        top_k: 50,
        ..r.talker
    };
    r.predictor = Sampling {
        temperature: 1.0,
        top_k: 50,
        top_p: 0.8,
        ..r.predictor
    };
    r.seed = seed;
    r
}
