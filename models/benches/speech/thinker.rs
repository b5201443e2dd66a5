//! The thinker's steps: a token of a conversation under way, and a long prompt in pieces.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use omni_engine::{BlockId, SeqId, SeqStep, Sequences, StepExecutor};
use omni_models::{KvOptions, PromptPiece, TextSampling, Thinker, ThinkerModel, ThinkerRequest};

use crate::{ProcessorTime, model};

const BLOCK: u32 = 16;
const PROMPT: u32 = 2000;
/// Positions per step, as the engine cuts prompts by default.
const CHUNK: u32 = 256;

/// Sequences in the middle of their replies.
struct Talks {
    thinker: Thinker,
    blocks: Vec<Vec<BlockId>>,
    position: u32,
}

impl Talks {
    fn new(weights: &ThinkerModel, sequences: u32, positions: u32) -> Self {
        let share = positions.div_ceil(BLOCK) + 1;
        let kv = KvOptions {
            block_size: BLOCK,
            num_blocks: sequences * share,
        };
        let mut thinker = weights.thinker(kv).expect("a thinker");
        for id in 0..sequences {
            thinker
                .open(SeqId(id.into()), request(positions))
                .expect("served");
        }
        let blocks = |id| (id * share..(id + 1) * share).map(BlockId).collect();
        Self {
            thinker,
            blocks: (0..sequences).map(blocks).collect(),
            position: 0,
        }
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
        self.thinker.execute(&steps).expect("the step computes");
        self.position += len;
    }

    /// The whole prompt.
    fn prefill(&mut self, positions: u32) {
        while self.position < positions {
            self.execute(CHUNK.min(positions - self.position));
        }
    }

    /// The last position again, and a token from it.
    fn token(&mut self) {
        self.position -= 1;
        self.execute(1);
        let seqs: Vec<SeqId> = (0..self.blocks.len() as u64).map(SeqId).collect();
        black_box(self.thinker.sample(&seqs).expect("the step samples"));
    }
}

fn request(positions: u32) -> ThinkerRequest {
    ThinkerRequest {
        prompt: (0..positions)
            .map(|p| PromptPiece::Token(32 + p * 7 % 90))
            .collect(),
        axes: None,
        sampling: TextSampling::default(),
        seed: 0,
        stop: Vec::new(),
        max_tokens: u32::MAX,
        logprobs: false,
        export_hidden: false,
    }
}

pub(crate) fn thinker(c: &mut Criterion<ProcessorTime>) {
    // Qwen3-TTS has none.
    let Ok(weights) = model(false).load_thinker() else {
        return;
    };
    let mut group = c.benchmark_group("thinker");
    for (sequences, context) in [(1, 200), (1, 1000), (16, 200)] {
        let mut talks = Talks::new(&weights, sequences, context);
        talks.prefill(context);
        group.throughput(Throughput::Elements(sequences.into()));
        let id = BenchmarkId::new(format!("token at {context}"), sequences);
        group.bench_function(id, |b| b.iter(|| talks.token()));
    }
    group.sample_size(10);
    for positions in [CHUNK, PROMPT] {
        group.throughput(Throughput::Elements(positions.into()));
        group.bench_function(BenchmarkId::new("prefill", positions), |b| {
            b.iter_batched(
                || Talks::new(&weights, 1, positions),
                |mut talks| {
                    talks.prefill(positions);
                    talks
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}
