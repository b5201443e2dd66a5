//! Driving talker and code2wav as an engine would.

use omni_engine::{
    BlockId, ChunkModel, CodecFrame, Decoded, KvCache, KvSpec, ModelError, Sampled, SeqId, SeqStep,
    Sequences, StepExecutor,
};

use crate::{Code2Wav, KvOptions, Sampling, Talker, TalkerRequest, UserRow};

/// Sequences that [`kv`] has room for.
const FEW: u32 = 8;

/// A small cache, for up to eight sequences.
pub fn kv() -> KvOptions {
    KvOptions {
        block_size: 4,
        num_blocks: 400,
    }
}

/// Greedy, with the published repetition penalty.
pub fn greedy() -> Sampling {
    Sampling {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        repetition_penalty: 1.05,
        min_tokens: 0,
    }
}

/// A user turn of these tokens.
pub fn tokens(ids: &[u32]) -> Vec<UserRow> {
    ids.iter().map(|&id| UserRow::Token(id)).collect()
}

/// A greedy request.
pub fn request(user: Vec<UserRow>, voice: &str, max_frames: u32) -> TalkerRequest {
    let predictor = Sampling {
        repetition_penalty: 1.0,
        ..greedy()
    };
    TalkerRequest {
        user,
        voice: voice.into(),
        language: None,
        text: None,
        talker: greedy(),
        predictor,
        seed: 0,
        max_frames,
        prior_frames: Vec::new(),
    }
}

/// A request to the tiny checkpoint whose codes are drawn.
pub fn sampled(seed: u64, max_frames: u32) -> TalkerRequest {
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

/// The blocks of sequence `id` among `all`: scattered over the pool, apart from every other sequence's.
pub(super) fn scattered(spec: &KvSpec, id: u64, all: u32) -> Vec<BlockId> {
    // Block 0 is the model's own.
    let share = (spec.num_blocks - 1) / all;
    let index = u32::try_from(id).expect("a small id") % all;
    // 11 steps through every residue of a share that 11 does not divide.
    let share = share - u32::from(share.is_multiple_of(11));
    let block = |i| BlockId(1 + (i * 11 % share) * all + index);
    (0..share).map(block).collect()
}

/// One sequence as an engine keeps it.
#[derive(Debug)]
pub struct Run {
    /// Its name.
    pub seq: SeqId,
    /// Positions of its prompt.
    pub prompt: u32,
    /// Positions computed so far.
    pub computed: u32,
    /// Its blocks.
    pub blocks: Vec<BlockId>,
    /// Frames of the sequence so far.
    pub frames: Vec<Vec<u32>>,
    /// `true` once it has ended.
    pub done: bool,
}

impl Run {
    /// Opens a sequence with all its text, beside at most seven others.
    ///
    /// # Errors
    /// Those of the talker.
    pub fn open(
        talker: &mut Talker,
        id: u64,
        request: TalkerRequest,
        text: &[u32],
    ) -> Result<Self, ModelError> {
        Self::open_among(FEW, talker, id, request, text)
    }

    /// As above, for one of `all` sequences that share the cache.
    ///
    /// # Errors
    /// Those of the talker.
    pub fn open_among(
        all: u32,
        talker: &mut Talker,
        id: u64,
        request: TalkerRequest,
        text: &[u32],
    ) -> Result<Self, ModelError> {
        let blocks = scattered(&talker.kv_spec(), id, all);
        let prompt = talker.open(SeqId(id), request)?;
        talker.push(SeqId(id), text.to_vec(), true);
        Ok(Self {
            seq: SeqId(id),
            prompt,
            computed: 0,
            blocks,
            frames: Vec::new(),
            done: false,
        })
    }

    /// Positions that can be computed now.
    ///
    /// # Panics
    /// After four thousand million frames.
    pub fn known(&self) -> u32 {
        self.prompt + u32::try_from(self.frames.len()).expect("few frames")
    }

    /// A step of `len` positions.
    pub fn step(&self, len: u32) -> SeqStep<'_> {
        SeqStep {
            seq: self.seq,
            start: self.computed,
            len,
            blocks: &self.blocks,
        }
    }
}

/// One engine step over `runs`: at most `chunk` positions each, then a sample of those that are up to date.
///
/// # Errors
/// Those of the talker, and that of a sequence that failed.
pub fn step(talker: &mut Talker, runs: &mut [&mut Run], chunk: u32) -> Result<(), ModelError> {
    let lens: Vec<u32> = runs.iter().map(|r| (r.known() - r.computed).min(chunk)).collect();
    let steps: Vec<SeqStep<'_>> = runs.iter().zip(&lens).map(|(r, &len)| r.step(len)).collect();
    talker.execute(&steps)?;
    runs.iter_mut().zip(&lens).for_each(|(r, len)| r.computed += len);
    let mut ready: Vec<&mut &mut Run> = runs.iter_mut().filter(|r| r.computed == r.known()).collect();
    let seqs: Vec<SeqId> = ready.iter().map(|r| r.seq).collect();
    let sampled = talker.sample(&seqs)?;
    for (run, sampled) in ready.iter_mut().zip(sampled) {
        match sampled {
            Sampled::Item(CodecFrame(codes)) => run.frames.push(codes.to_vec()),
            Sampled::End => run.done = true,
            Sampled::Failed(reason) => {
                return Err(ModelError::Compute(format!(
                    "sequence {} failed: {reason}",
                    run.seq.0
                )));
            }
        }
    }
    Ok(())
}

/// The frames of one request on its own.
///
/// # Errors
/// Those of the talker.
pub fn speak(
    talker: &mut Talker,
    id: u64,
    request: TalkerRequest,
    text: &[u32],
) -> Result<Vec<Vec<u32>>, ModelError> {
    let mut run = Run::open(talker, id, request, text)?;
    while !run.done {
        step(talker, &mut [&mut run], u32::MAX)?;
    }
    talker.close(run.seq);
    Ok(run.frames)
}

/// The frames of several requests, of which one more joins in every step; they leave as they end. The cache is shared
/// among them.
///
/// # Errors
/// Those of the talker.
pub fn speak_together(
    talker: &mut Talker,
    requests: &[(TalkerRequest, Vec<u32>)],
) -> Result<Vec<Vec<Vec<u32>>>, ModelError> {
    let all = u32::try_from(requests.len()).expect("few requests").max(FEW);
    let mut runs = Vec::new();
    for (id, (request, text)) in (0..).zip(requests) {
        runs.push(Run::open_among(all, talker, id, request.clone(), text)?);
    }
    for round in 1.. {
        let mut live: Vec<&mut Run> = runs.iter_mut().take(round).filter(|r| !r.done).collect();
        if live.is_empty() {
            break;
        }
        step(talker, &mut live, u32::MAX)?;
    }
    runs.iter().for_each(|run| talker.close(run.seq));
    Ok(runs.into_iter().map(|run| run.frames).collect())
}

/// Codes as code2wav takes them.
pub fn frames(codes: &[Vec<u32>]) -> Vec<CodecFrame> {
    codes.iter().map(|c| CodecFrame(c.clone().into())).collect()
}

/// Samples of a stream decoded in pieces of the given sizes (the last repeats).
///
/// # Errors
/// Those of code2wav.
pub fn decode(
    code2wav: &mut Code2Wav,
    id: u64,
    frames: &[CodecFrame],
    sizes: &[usize],
) -> Result<Vec<f32>, ModelError> {
    let seq = SeqId(id);
    code2wav.open(seq, (), 0)?;
    let mut samples = Vec::new();
    let mut rest = frames;
    let mut sizes = sizes.iter().copied().peekable();
    let mut size = 1;
    while !rest.is_empty() {
        size = sizes.next().unwrap_or(size);
        let (piece, others) = rest.split_at(size.min(rest.len()));
        rest = others;
        samples.extend(whole(code2wav.decode(&[(seq, piece)])?)?.remove(0));
    }
    code2wav.close(seq);
    Ok(samples)
}

/// Samples of every entry of a batch.
///
/// # Errors
/// The first failed stream's error.
fn whole(decoded: Vec<Decoded<f32>>) -> Result<Vec<Vec<f32>>, ModelError> {
    let samples: Result<_, _> = decoded.into_iter().collect();
    samples.map_err(ModelError::Compute)
}

/// Samples of several streams, `chunk` frames of each at a time in one batch.
///
/// # Errors
/// Those of code2wav.
pub fn decode_together(
    code2wav: &mut Code2Wav,
    streams: &[Vec<CodecFrame>],
    chunk: usize,
) -> Result<Vec<Vec<f32>>, ModelError> {
    let ids = || (0..streams.len() as u64).map(SeqId);
    let mut samples = vec![Vec::new(); streams.len()];
    ids().try_for_each(|id| code2wav.open(id, (), 0).map(drop))?;
    let longest = streams.iter().map(Vec::len).max().unwrap_or(0);
    for at in (0..longest).step_by(chunk) {
        let batch: Vec<_> = ids()
            .zip(streams)
            .filter(|(_, s)| s.len() > at)
            .map(|(id, s)| (id, &s[at..s.len().min(at + chunk)]))
            .collect();
        let out = whole(code2wav.decode(&batch)?)?;
        for ((id, _), out) in batch.iter().zip(out) {
            samples[id.0 as usize].extend(out);
        }
    }
    ids().for_each(|id| code2wav.close(id));
    Ok(samples)
}
