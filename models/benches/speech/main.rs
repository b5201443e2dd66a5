//! Processor time of the parts of the speech path on this machine, one thread each.
//!
//! Times are those on the processor, so that what else runs on the machine does not count.
//!
//! Uses the embedded checkpoint, or the directory in `OMNI_BENCH_CHECKPOINT` with its matrices as stored.
//! `OMNI_BENCH_WEIGHTS` quantises them (`int8` or `int4`); the vocoder then rounds the factors of its products.

mod thinker;

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use omni_engine::{BlockId, ChunkModel, CodecFrame, SeqId, SeqStep, Sequences, StepExecutor};
use omni_models::{
    CheckpointSource, KvOptions, LoadOptions, SpeechModel, Talker, TalkerRequest, UserRow, Weights,
};

/// Time that the measuring thread spends on the processor, in nanoseconds.
struct ProcessorTime(WallTime);

impl Measurement for ProcessorTime {
    type Intermediate = u64;
    type Value = u64;

    fn start(&self) -> u64 {
        now()
    }

    fn end(&self, start: u64) -> u64 {
        now() - start
    }

    fn add(&self, a: &u64, b: &u64) -> u64 {
        a + b
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, value: &u64) -> f64 {
        *value as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        self.0.formatter()
    }
}

fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("time runs forwards")
}

fn checkpoint() -> PathBuf {
    let named = std::env::var_os("OMNI_BENCH_CHECKPOINT").map(PathBuf::from);
    named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("embedded/checkpoint"))
}

/// As in the server: the vocoder is never quantised.
fn model(vocoder: bool) -> SpeechModel {
    let weights = match std::env::var("OMNI_BENCH_WEIGHTS").as_deref() {
        Ok("int8" | "int4") if vocoder => Weights::RoundedProducts,
        Ok("int8") => Weights::Int8,
        Ok("int4") => Weights::Int4,
        Ok(other) => panic!("OMNI_BENCH_WEIGHTS is {other}, expected int8 or int4"),
        Err(_) => Weights::Stored,
    };
    let options = LoadOptions {
        weights,
        ..LoadOptions::default()
    };
    SpeechModel::load(CheckpointSource::Dir(checkpoint()), options).expect("the checkpoint loads")
}

const BLOCK: u32 = 16;
const BLOCKS_PER_SEQUENCE: u32 = 24;

/// A talker in the middle of a number of sentences.
struct Speakers {
    talker: Talker,
    blocks: Vec<Vec<BlockId>>,
    position: u32,
}

impl Speakers {
    fn new(model: &SpeechModel, sequences: u32) -> Self {
        let kv = KvOptions {
            block_size: BLOCK,
            num_blocks: sequences * BLOCKS_PER_SEQUENCE,
        };
        let mut talker = model.talker(kv).expect("a talker");
        let text = model
            .tokenizer()
            .encode(&"speech out of text, all the time ".repeat(6))
            .expect("text");
        let mut prompt = 0;
        for id in 0..sequences {
            prompt = talker.open(SeqId(id.into()), request(model)).expect("served");
            talker.push(SeqId(id.into()), text.clone(), true);
        }
        let blocks = |id| {
            (id * BLOCKS_PER_SEQUENCE..(id + 1) * BLOCKS_PER_SEQUENCE)
                .map(BlockId)
                .collect()
        };
        let mut this = Self {
            talker,
            blocks: (0..sequences).map(blocks).collect(),
            position: 0,
        };
        this.execute(prompt);
        for _ in 0..100 {
            this.sample();
            this.execute(1);
        }
        this
    }

    fn execute(&mut self, len: u32) {
        let start = self.position;
        let step = |(id, blocks)| SeqStep {
            seq: SeqId(id),
            start,
            len,
            blocks,
        };
        let steps: Vec<SeqStep<'_>> = (0..)
            .zip(self.blocks.iter().map(Vec::as_slice))
            .map(step)
            .collect();
        self.talker.execute(&steps).expect("the step computes");
        self.position += len;
    }

    fn again(&mut self) {
        self.position -= 1;
        self.execute(1);
    }

    fn sample(&mut self) {
        let seqs: Vec<SeqId> = (0..self.blocks.len() as u64).map(SeqId).collect();
        black_box(self.talker.sample(&seqs).expect("the step samples"));
    }
}

fn request(model: &SpeechModel) -> TalkerRequest {
    let user = model.user_turn("").expect("text");
    // A low probability of the end lets untrained weights speak on.
    let talker = omni_models::Sampling {
        min_tokens: 100_000,
        ..model.defaults().talker
    };
    TalkerRequest {
        user: user.into_iter().map(UserRow::Token).collect(),
        voice: model.limits().voices[0].as_str().into(),
        language: None,
        text: None,
        talker,
        predictor: model.defaults().predictor,
        seed: 1,
        max_frames: u32::MAX,
        prior_frames: Vec::new(),
    }
}

fn talker(c: &mut Criterion<ProcessorTime>) {
    omni_models::share_small_products();
    let model = model(false);
    let mut group = c.benchmark_group("talker");
    for sequences in [1, 4, 16] {
        // Only the chosen benchmarks make them.
        let mut made = None;
        group.bench_function(BenchmarkId::new("step", sequences), |b| {
            let speakers = made.get_or_insert_with(|| Speakers::new(&model, sequences));
            b.iter(|| speakers.again());
        });
        // Sampling grows the sequence; computing again does not.
        group.bench_function(BenchmarkId::new("frame", sequences), |b| {
            let speakers = made.get_or_insert_with(|| Speakers::new(&model, sequences));
            b.iter(|| speakers.sample());
        });
    }
    group.bench_function("prefill", |b| {
        b.iter_batched(
            || {
                let mut talker = model
                    .talker(KvOptions {
                        block_size: BLOCK,
                        num_blocks: 8,
                    })
                    .expect("a talker");
                let prompt = talker.open(SeqId(0), request(&model)).expect("served");
                talker.push(SeqId(0), vec![65], true);
                (talker, prompt)
            },
            |(mut talker, prompt)| {
                let blocks: Vec<BlockId> = (0..8).map(BlockId).collect();
                let step = SeqStep {
                    seq: SeqId(0),
                    start: 0,
                    len: prompt,
                    blocks: &blocks,
                };
                talker.execute(&[step]).expect("the step computes");
                talker
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn code2wav(c: &mut Criterion<ProcessorTime>) {
    let model = model(true);
    let limits = model.limits();
    let frame = |t: u32| {
        CodecFrame(
            (0..limits.code_groups)
                .map(|q| (t * 31 + q * 17) % limits.codebook_size)
                .collect(),
        )
    };
    let frames: Vec<CodecFrame> = (0..64).map(frame).collect();
    let mut group = c.benchmark_group("code2wav");
    for streams in [1_u64, 4, 16] {
        for chunk in [1, 2, 4, 8] {
            let batch: Vec<_> = (0..streams).map(|id| (SeqId(id), &frames[..chunk])).collect();
            let mut made = None;
            let id = BenchmarkId::new(format!("{streams} streams"), format!("{chunk} frames"));
            group.bench_function(id, |b| {
                let code2wav = made.get_or_insert_with(|| {
                    let mut code2wav = model.code2wav().expect("a vocoder");
                    for id in 0..streams {
                        code2wav.open(SeqId(id), (), 0).expect("a stream opens");
                    }
                    for _ in 0..8 {
                        code2wav.decode(&batch).expect("frames decode");
                    }
                    code2wav
                });
                b.iter(|| black_box(code2wav.decode(&batch).expect("frames decode")));
            });
        }
    }
    group.finish();
}

fn load(c: &mut Criterion<ProcessorTime>) {
    c.bench_function("load", |b| b.iter(|| model(false)));
}

criterion_group!(
    name = benches;
    config = Criterion::default().with_measurement(ProcessorTime(WallTime));
    targets = thinker::thinker, talker, code2wav, load
);
criterion_main!(benches);
