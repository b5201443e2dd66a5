//! Cost of the scheduler itself per step: [`ArEngine`] over a model that computes nothing.

use std::hint::black_box;
use std::ops::Range;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use omni_engine::{
    AddOptions, ArConfig, ArEngine, AsyncExecutor, ContentKey, KvCache, KvSpec, ModelError, Sampled,
    SeqEvent, SeqId, SeqStep, Sequences, Stamp, StepExecutor, Warmup,
};

const SEQUENCES: u64 = 64;
const PROMPT: u32 = 256;

/// A model that gives the number 0 for ever; names the content of its positions if `shares`.
#[derive(Debug)]
struct Null {
    shares: bool,
}

impl Sequences for Null {
    type Request = ();
    type Row = ();

    fn open(&mut self, _seq: SeqId, (): ()) -> Result<u32, ModelError> {
        Ok(PROMPT)
    }

    fn push(&mut self, _seq: SeqId, _rows: Vec<()>, _last: bool) {}

    fn close(&mut self, _seq: SeqId) {}
}

impl StepExecutor for Null {
    type Output = u32;

    fn execute(&mut self, batch: &[SeqStep<'_>]) -> Result<(), ModelError> {
        black_box(batch);
        Ok(())
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<u32>>, ModelError> {
        Ok(seqs.iter().map(|_| Sampled::Item(0)).collect())
    }

    fn token(&self, output: &u32) -> Option<u32> {
        Some(*output)
    }
}

impl AsyncExecutor for Null {}

impl KvCache for Null {
    fn kv_spec(&self) -> KvSpec {
        KvSpec {
            block_size: 16,
            num_blocks: 1 << 15,
            max_len: 1 << 20,
        }
    }

    fn content_keys(&self, seq: SeqId, positions: Range<u32>) -> Option<Vec<ContentKey>> {
        // Half of every prompt is the same in all sequences.
        let key = |p| {
            if p < PROMPT / 2 {
                ContentKey::token(p)
            } else {
                ContentKey::token(seq.0 as u32 ^ p << 16)
            }
        };
        self.shares.then(|| positions.map(key).collect())
    }
}

impl Warmup for Null {}

/// Keeps an engine at 64 sequences of `outputs` outputs each: another sequence replaces one that ends.
struct Crowd {
    engine: ArEngine<Null>,
    options: AddOptions,
    next: u64,
}

impl Crowd {
    fn new(shares: bool, outputs: u32, paused: u64) -> Self {
        let options = AddOptions {
            max_outputs: outputs,
            ..AddOptions::default()
        };
        let engine = ArEngine::new(Null { shares }, ArConfig::default());
        let mut crowd = Self {
            engine,
            options,
            next: 0,
        };
        for _ in 0..SEQUENCES {
            crowd.add();
        }
        for _ in 0..2 * SEQUENCES {
            crowd.step();
        }
        for seq in 0..paused {
            crowd.engine.set_paused(SeqId(seq), true);
        }
        crowd
    }

    fn add(&mut self) {
        let seq = SeqId(self.next);
        self.next += 1;
        self.engine
            .add(seq, (), self.options, Stamp::default())
            .expect("there is room");
    }

    fn step(&mut self) {
        let report = self.engine.step(Stamp(Duration::from_millis(self.next)));
        let ended = |event: &&SeqEvent<u32>| matches!(event, SeqEvent::Finished { .. });
        for _ in 0..report.events.iter().filter(ended).count() {
            self.add();
        }
        black_box(report);
    }
}

fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("step of 64 sequences");
    // Few ends: what a step costs that only decodes.
    for (name, shares, outputs, paused) in [
        ("decodes", false, 4096, 0),
        ("decodes, shared prefixes", true, 4096, 0),
        ("half of them paused", false, 4096, 32),
        // A sequence ends and another begins in every step.
        ("one arrival a step", false, 64, 0),
        ("one arrival a step, shared prefixes", true, 64, 0),
    ] {
        let mut crowd = Crowd::new(shares, outputs, paused);
        group.bench_function(name, |b| b.iter(|| crowd.step()));
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
