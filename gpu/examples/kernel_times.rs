//! Kernel times on device 0, as a Markdown table: the products of a code predictor's layer, attention and the choice
//! of an id, for several batch sizes, in bf16.
//!
//! `CUDA_HOME=$(scripts/cuda-toolkit) cargo run --release -p omni-gpu --features cuda --example kernel_times`
//!
//! Every figure is a graph of many launches, replayed and waited for: the time per launch, gaps included. Matrices take turns, so
//! that they come from memory and not from the second-level cache.
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

use std::time::Instant;

use omni_gpu::kernels::{Attention, FEW_ROWS, Gated, Linear, RANGE, Sample, SampleRow, Scratch};
use omni_gpu::{
    Address, Allocate as _, Copies as _, Cuda, CudaMemory, Device as _, Float, Graphs as _, Launch, Memory,
    Result,
};

/// Bytes of matrices, more than any device's second-level cache.
const MATRICES: usize = 512 << 20;
/// Bytes for everything else that a launch reads or writes.
const ROOM: usize = 64 << 20;
const LAUNCHES: usize = 200;
const REPLAYS: usize = 20;

struct Bench {
    device: Cuda,
    matrices: CudaMemory,
    x: CudaMemory,
    out: CudaMemory,
}

impl Bench {
    /// Prints the time of a launch; `launch(i)` is the i-th, `bytes` its memory reads.
    fn row(&self, what: &str, bytes: usize, launch: impl Fn(usize) -> Vec<Launch>) -> Result<()> {
        self.device.record()?;
        let asked = (0..LAUNCHES)
            .flat_map(launch)
            .try_for_each(|launch| self.device.launch(&launch));
        let graph = self.device.recorded();
        asked?;
        let graph = graph?;
        self.device.replay(&graph)?;
        self.device.wait()?;
        let start = Instant::now();
        for _ in 0..REPLAYS {
            self.device.replay(&graph)?;
        }
        self.device.wait()?;
        let seconds = start.elapsed().as_secs_f64() / (LAUNCHES * REPLAYS) as f64;
        let rate = bytes as f64 / seconds / 1e9;
        println!("| {what} | {bytes} | {:.2} | {rate:.0} |", seconds * 1e6);
        Ok(())
    }

    /// The i-th matrix of `elements` elements.
    fn matrix(&self, i: usize, elements: usize) -> Address {
        let bytes = (elements * 2).next_multiple_of(256);
        self.matrices.address().offset(i % (MATRICES / bytes) * bytes)
    }

    fn products(&self, rows: u32) -> Result<()> {
        for (name, outputs, inputs) in [("qkv", 4096, 1024), ("o", 1024, 2048), ("down", 1024, 3072)] {
            let elements = outputs as usize * inputs as usize;
            self.row(
                &format!("{name} {inputs} to {outputs}, {rows} rows"),
                elements * 2,
                |i| {
                    let w = self.matrix(i, elements);
                    let out = self.out.address();
                    let x = self.x.address();
                    let linear = Linear::product(out, x, w, [rows, outputs, inputs]);
                    vec![linear.launch(Float::Bf16)]
                },
            )?;
        }
        if rows > FEW_ROWS {
            return Ok(());
        }
        let half = 3072;
        let inputs = 1024;
        let elements = 2 * half as usize * inputs as usize;
        self.row(
            &format!("gate and up {inputs} to {half}, {rows} rows"),
            elements * 2,
            |i| {
                let out = self.out.address();
                let x = self.x.address();
                let w = self.matrix(i, elements);
                vec![
                    Gated {
                        out,
                        x,
                        w,
                        norm: Address::NONE,
                        eps: 0.0,
                        scratch: Scratch::default(),
                        rows,
                        half,
                        inputs,
                    }
                    .launch(Float::Bf16),
                ]
            },
        )
    }

    /// A decoding step's attention: 16 query heads of 128 over 2 key heads, every row with `keys` keys of its own.
    fn attention(&self, rows: u32, keys: u32) -> Result<()> {
        let heads = 16;
        let kv_heads = 2;
        let head_dim = 128;
        let ranges: Vec<u8> = (0..rows)
            .flat_map(|row| [row * keys, 0, keys])
            .flat_map(u32::to_le_bytes)
            .collect();
        assert_eq!(ranges.len(), rows as usize * RANGE * 4);
        let ranges_at = self.x.address().offset(ROOM / 2);
        self.device.upload(ranges_at, &ranges)?;
        let bytes = rows as usize * keys as usize * (kv_heads * head_dim) as usize * 4;
        let (splits, part) = Attention::parts(rows, kv_heads, keys);
        self.row(
            &format!("attention, {rows} rows of {keys} keys, {splits} splits"),
            bytes,
            |i| {
                let k = self.matrix(2 * i, bytes / 4);
                let attention = Attention {
                    out: self.out.address(),
                    partial: self.out.address().offset(ROOM / 2),
                    q: self.x.address(),
                    k,
                    v: self.matrix(2 * i + 1, bytes / 4),
                    table: Address::NONE,
                    ranges: ranges_at,
                    rows,
                    heads,
                    kv_heads,
                    head_dim,
                    q_stride: heads * head_dim,
                    kv_stride: kv_heads * head_dim,
                    shift: 0,
                    splits,
                    part,
                    scale: 1.0 / (head_dim as f32).sqrt(),
                };
                let (attend, merge) = attention.launches(Float::Bf16);
                [Some(attend), merge].into_iter().flatten().collect()
            },
        )
    }

    fn sample(&self, rows: u32) -> Result<()> {
        let row = SampleRow {
            temperature: 0.9,
            top_k: 50,
            top_p: 1.0,
            repetition_penalty: 1.0,
            min_tokens: 0,
            suppress_from: u32::MAX,
            end: u32::MAX,
            generated_from: 0,
            generated: 0,
            said: u32::MAX,
            seed: 1,
            step: 2,
            group: 3,
            logits: 0,
        };
        let settings: Vec<u8> = row
            .words()
            .repeat(rows as usize)
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect();
        let settings_at = self.x.address().offset(ROOM / 2);
        self.device.upload(settings_at, &settings)?;
        let vocab = 2048;
        self.row(
            &format!("sample of {vocab}, {rows} rows"),
            rows as usize * vocab as usize * 2,
            |_| {
                let sample = Sample {
                    out: self.out.address(),
                    logits: self.x.address(),
                    settings: settings_at,
                    generated: Address::NONE,
                    said: Address::NONE,
                    embedded: None,
                    rows,
                    vocab,
                    stride: 1,
                };
                vec![sample.launch(Float::Bf16)]
            },
        )
    }
}

fn main() -> Result<()> {
    let device = Cuda::open(0)?;
    let bench = Bench {
        matrices: device.alloc(MATRICES)?,
        x: device.alloc(ROOM)?,
        out: device.alloc(ROOM)?,
        device,
    };
    // Small numbers of both signs, as bf16.
    let numbers: Vec<u8> = (0..ROOM / 2)
        .flat_map(|i| ((i * 7919 % 61) as u16 | 0x3c00 | ((i % 2) as u16) << 15).to_le_bytes())
        .collect();
    bench.device.upload(bench.x.address(), &numbers)?;
    for at in (0..MATRICES).step_by(ROOM) {
        bench
            .device
            .upload(bench.matrices.address().offset(at), &numbers)?;
    }
    println!(
        "{}, bf16\n\n| kernel | bytes | µs | GB/s |\n|---|---|---|---|",
        bench.device.name()
    );
    for rows in [1, 2, 4, 8, 16, 32, 64] {
        bench.products(rows)?;
        bench.attention(rows, 1024)?;
        bench.sample(rows)?;
    }
    Ok(())
}
