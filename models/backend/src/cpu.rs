//! Backend for CPUs in f32, with kernels for the vector units found at run time.
//!
//! Weights stored as bf16 stay bf16 and are widened in registers: half the memory traffic for the same numbers. The
//! order of every sum is fixed, so a result is bit-identical in any batch.

#[macro_use]
mod isa;
mod arena;
mod attention;
mod gemm;
mod held;
mod padded;
mod pointwise;
mod rows;
mod whole;

use rayon::prelude::*;

use super::host_ids::{HostIdBackend, HostIds};
use super::ops::*;
use super::routed::{self, Routed};
use super::{AttentionShape, Batch, Matrices, Part, Pass, Precision, Result, Routing, Signals, Tables, Taps};
use crate::angles::Angles;
#[cfg(unix)]
use crate::host::FileRows;
use crate::host::HostTensor;
use crate::layers::{Conv, Depthwise, Snake};
use crate::sampling::Choice;
use crate::weights::Weights;

pub use gemm::threads::share_small_products;
use gemm::{Lhs, Matrix, Segment};
pub(crate) use held::Rope;
pub(crate) use held::{Kv, Past, Table};
use held::{Lists, Numbers};
use isa::Isa;
pub(crate) use rows::Rows;

/// Signals shorter than this are copied together before a convolution, so that they share the weights' way through
/// the caches.
const SHORT_SIGNAL: usize = 8;

/// Numbers from which on a sum is shared among threads.
const SHARED_SUM: usize = 1 << 18;

#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    isa: Isa,
    weights: Weights,
}

impl Cpu {
    pub fn new(weights: Weights) -> Self {
        let isa = Isa::best();
        Self { isa, weights }
    }
}

impl Matrices for Cpu {
    type Matrix = Matrix;
    type Experts = Vec<(Matrix, Matrix)>;

    fn with_least(&self, least: Precision) -> Self {
        let weights = match (self.weights, least) {
            (Weights::Int4, Precision::Int8) => Weights::Int8,
            (Weights::Int4 | Weights::Int8 | Weights::Bf16, Precision::Stored) => Weights::Stored,
            (weights, _) => weights,
        };
        Self { weights, ..*self }
    }

    fn matrix(&self, parts: &[HostTensor], bias: Option<&HostTensor>) -> Result<Matrix> {
        Ok(Matrix::pack(
            self.isa,
            self.weights,
            parts,
            bias.map(HostTensor::to_f32).as_deref(),
        ))
    }

    fn experts(&self, experts: Vec<(Matrix, Matrix)>) -> Result<Vec<(Matrix, Matrix)>> {
        Ok(experts)
    }
}

impl Tables for Cpu {
    type Vector = Vec<f32>;
    type Table = Table;

    fn vector(&self, values: &HostTensor) -> Result<Vec<f32>> {
        Ok(values.to_f32())
    }

    fn table(&self, values: HostTensor) -> Result<Table> {
        Ok(Table::of(values))
    }

    #[cfg(unix)]
    fn table_in_file(&self, rows: FileRows) -> Option<Table> {
        Table::in_file(rows)
    }
}

impl Routed for Cpu {
    fn scatter_weighted(&self, mut acc: Rows, index: &[u32], weight: &[f32], x: &Rows) -> Result<Rows> {
        let width = acc.width();
        for ((&row, &weight), x) in index.iter().zip(weight).zip(x.data().chunks(width)) {
            let row = &mut acc.data_mut()[row as usize * width..(row as usize + 1) * width];
            pointwise::axpy(self.isa, row, x, weight);
        }
        Ok(acc)
    }
}

impl ComputeDevice for Cpu {}

impl StepSizes for Cpu {}

impl Steps for Cpu {}

impl Activations for Cpu {
    type Rows = Rows;
    type Kept = ();

    fn rows(&self, width: usize, values: Vec<f32>) -> Result<Rows> {
        Ok(Rows::new(values, width))
    }

    fn zeros(&self, rows: usize, width: usize) -> Result<Rows> {
        Ok(Rows::zeros(rows, width))
    }

    fn host(&self, x: &Rows) -> Result<Vec<f32>> {
        Ok(x.data().to_vec())
    }

    fn reshape(&self, x: Rows, width: usize) -> Result<Rows> {
        Ok(x.reshaped(width))
    }
}

impl RowIndexing for Cpu {
    fn gather(&self, x: &Rows, index: &[u32]) -> Result<Rows> {
        let mut out = Rows::with_capacity(index.len() * x.width(), x.width());
        for &row in index {
            out.buffer()
                .extend_from_slice(x.range(row as usize, row as usize + 1));
        }
        Ok(out)
    }

    fn scatter_add(&self, mut acc: Rows, index: &[u32], x: &Rows) -> Result<Rows> {
        let width = acc.width();
        for (&row, x) in index.iter().zip(x.data().chunks(width)) {
            let row = &mut acc.data_mut()[row as usize * width..(row as usize + 1) * width];
            pointwise::axpy(self.isa, row, x, 1.0);
        }
        Ok(acc)
    }
}

impl HostIdBackend for Cpu {}

impl Embedding for Cpu {
    fn lookup(&self, table: &Table, ids: &HostIds, column: usize) -> Result<Rows> {
        let ids = ids.column(column);
        let mut out = Rows::with_capacity(ids.len() * table.width, table.width);
        for id in ids {
            table.row(id, out.buffer())?;
        }
        Ok(out)
    }

    fn lookup_mean(&self, table: &Table, ids: &HostIds) -> Result<Rows> {
        let group = ids.columns;
        let width = table.width;
        let mut rows = Rows::with_capacity(ids.values.len() * width, width);
        for &id in &ids.values {
            table.row(id, rows.buffer())?;
        }
        let mut means = Rows::zeros(ids.values.len() / group, width);
        let groups = rows.data().chunks(group * width);
        for (mean, rows) in means.data_mut().chunks_mut(width).zip(groups) {
            for row in rows.chunks(width) {
                pointwise::axpy(self.isa, mean, row, 1.0);
            }
            mean.iter_mut().for_each(|v| *v /= group as f32);
        }
        Ok(means)
    }
}

impl Sampler for Cpu {
    fn sample(
        &self,
        logits: &Rows,
        choices: &[Choice<'_>],
        _: Option<&HostIds>,
        ids: &mut HostIds,
        column: usize,
    ) -> Result<()> {
        let mut scratch = Vec::with_capacity(logits.width());
        let rows = logits.data().chunks(logits.width()).zip(choices);
        for ((logits, choice), ids) in rows.zip(ids.values.chunks_mut(ids.columns)) {
            scratch.clear();
            scratch.extend_from_slice(logits);
            ids[column] = choice.make(&mut scratch, column);
        }
        Ok(())
    }
}

impl Products for Cpu {
    fn linear(&self, w: &Matrix, x: &Rows) -> Result<Rows> {
        let mut out = Rows::scratch(x.rows(), w.outputs());
        let lhs = Lhs {
            data: x.data(),
            row_stride: x.width(),
            taps: 1,
            tap_stride: 0,
            depth: x.width(),
        };
        let all = Segment {
            src: 0,
            dst: 0,
            rows: x.rows(),
        };
        gemm::multiply(self.isa, w, &lhs, &[all], out.data_mut());
        Ok(out)
    }

    fn mixture(
        &self,
        experts: &Vec<(Matrix, Matrix)>,
        routing: Routing,
        scores: &Rows,
        x: &Rows,
        shared: Option<&Rows>,
    ) -> Result<Rows> {
        routed::mixture(self, experts, routing, scores.data(), x, shared, x.width())
    }
}

impl StreamMemory for Cpu {
    type Past = Past;
    type Layout = ();

    /// Signals of more do not stay in a core's cache between two layers.
    const SIGNAL: Pass = Pass {
        per_stream: 4,
        in_all: 16,
    };

    fn signals(&self, parts: Vec<Part>) -> Result<Signals<Self>> {
        Ok(Signals::new(parts, ()))
    }

    fn past(&self, taps: Taps, width: usize) -> Result<Past> {
        Ok(Past {
            values: Vec::new(),
            each: taps.past() * width,
        })
    }

    fn grow_past(&self, past: &mut Past, streams: usize) -> Result<()> {
        let size = streams * past.each;
        past.values.resize(size.max(past.values.len()), 0.0);
        Ok(())
    }

    fn clear_past(&self, past: &mut Past, stream: u32) -> Result<()> {
        past.of(stream).fill(0.0);
        Ok(())
    }
}

impl Convolutions for Cpu {
    type PendingSamples = Vec<Vec<f32>>;

    fn conv(
        &self,
        conv: &Conv<Self>,
        act: Option<&Snake<Self>>,
        x: &Rows,
        signals: &Signals<Self>,
        past: &mut Past,
    ) -> Result<Rows> {
        let w = &conv.matrix;
        let taps = conv.taps;
        let lens = signals.lens();
        let padded = self.pad(taps, act, x, signals, past);
        let short = lens.len() > 1 && lens.iter().any(|&len| len < SHORT_SIGNAL);
        if short || w.needs_groups() && !x.width().is_multiple_of(gemm::GROUP_OF_INPUTS) {
            return self.linear(w, &padded.windows(taps, lens));
        }
        let width = x.width();
        let mut dst = 0;
        let mut segments = Vec::with_capacity(lens.len());
        for (&start, &rows) in padded.starts.iter().zip(lens) {
            segments.push(Segment {
                src: start * width,
                dst,
                rows,
            });
            dst += rows;
        }
        // Neighbouring taps are one long run of numbers.
        let (count, depth) = if taps.dilation == 1 {
            (1, taps.taps * width)
        } else {
            (taps.taps, width)
        };
        let tap_stride = taps.dilation * width;
        let lhs = Lhs {
            data: padded.rows.data(),
            row_stride: width,
            taps: count,
            tap_stride,
            depth,
        };
        let mut out = Rows::scratch(x.rows(), w.outputs());
        gemm::multiply(self.isa, w, &lhs, &segments, out.data_mut());
        Ok(out)
    }

    fn depthwise(
        &self,
        conv: &Depthwise<Self>,
        x: &Rows,
        signals: &Signals<Self>,
        past: &mut Past,
    ) -> Result<Rows> {
        let taps = conv.taps;
        let lens = signals.lens();
        let padded = self.pad(taps, None, x, signals, past);
        let width = x.width();
        let mut out = Rows::with_capacity(x.data().len(), width);
        for (&start, &len) in padded.starts.iter().zip(lens) {
            for row in start..start + len {
                let at = out.data().len();
                out.buffer().extend_from_slice(&conv.bias);
                for (tap, w) in conv.weight.chunks(width).enumerate() {
                    let from = row + tap * taps.dilation;
                    let tap = padded.rows.range(from, from + 1);
                    pointwise::multiply_add(self.isa, &mut out.data_mut()[at..], tap, w);
                }
            }
        }
        Ok(out)
    }

    fn trim(&self, x: Rows, signals: &Signals<Self>, dropped: usize) -> Result<Rows> {
        match signals.kept(dropped) {
            Some(kept) => self.gather(&x, &kept),
            None => Ok(x),
        }
    }

    fn download_samples(&self, x: &Rows, signals: &Signals<Self>) -> Result<Vec<Vec<f32>>> {
        Ok(signals.cut(x.data()))
    }

    fn wait_samples(&self, pending: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>> {
        Ok(pending)
    }
}

impl Normalisation for Cpu {
    fn rms_norm(&self, w: &Vec<f32>, eps: f32, x: &Rows) -> Result<Rows> {
        let mut out = Rows::scratch(x.rows(), x.width());
        pointwise::rms_norm(self.isa, out.data_mut(), x.data(), w, eps);
        Ok(out)
    }

    fn layer_norm(&self, w: &Vec<f32>, bias: &Vec<f32>, eps: f32, x: &Rows) -> Result<Rows> {
        let mut out = x.clone();
        pointwise::layer_norm(self.isa, out.data_mut(), w, bias, eps);
        Ok(out)
    }
}

impl Pointwise for Cpu {
    fn add(&self, mut x: Rows, y: &Rows, scale: Option<&Vec<f32>>) -> Result<Rows> {
        match scale {
            Some(scale) => {
                let rows = x
                    .data_mut()
                    .chunks_mut(scale.len())
                    .zip(y.data().chunks(scale.len()));
                for (x, y) in rows {
                    pointwise::multiply_add(self.isa, x, y, scale);
                }
            }
            None if x.data().len() >= SHARED_SUM => {
                let blocks = x.data_mut().par_chunks_mut(SHARED_SUM / 4);
                let blocks = blocks.zip(y.data().par_chunks(SHARED_SUM / 4));
                blocks.for_each(|(x, y)| pointwise::axpy(self.isa, x, y, 1.0));
            }
            None => pointwise::axpy(self.isa, x.data_mut(), y.data(), 1.0),
        }
        Ok(x)
    }

    fn silu(&self, mut x: Rows) -> Result<Rows> {
        pointwise::silu(self.isa, x.data_mut());
        Ok(x)
    }

    fn gelu(&self, mut x: Rows) -> Result<Rows> {
        pointwise::gelu(self.isa, x.data_mut());
        Ok(x)
    }

    fn swiglu(&self, x: &Rows) -> Result<Rows> {
        let half = x.width() / 2;
        let mut out = Rows::scratch(x.rows(), half);
        for (y, x) in out.data_mut().chunks_mut(half).zip(x.data().chunks(2 * half)) {
            let (gate, up) = x.split_at(half);
            pointwise::gated(self.isa, y, gate, up);
        }
        Ok(out)
    }

    fn snake(&self, snake: &Snake<Self>, mut x: Rows) -> Result<Rows> {
        pointwise::snake_in_place(self.isa, x.data_mut(), &snake.a, &snake.b);
        Ok(x)
    }
}

impl Attention for Cpu {
    type Kv = Kv;
    type Places = Rope;

    fn places(&self, batch: &Batch, angles: &Angles, _: &AttentionShape) -> Result<Rope> {
        let (sin, cos) = angles.of(batch).into_iter().map(f32::sin_cos).unzip();
        Ok(Rope { cos, sin })
    }

    fn kv(&self, slots: usize, width: usize) -> Result<Kv> {
        let numbers = if self.weights.caches_halves() {
            Numbers::F16(Lists::of(slots, width))
        } else {
            Numbers::F32(Lists::of(slots, width))
        };
        Ok(Kv { width, numbers })
    }

    fn grow(&self, kv: &mut Kv, slots: usize) -> Result<()> {
        match &mut kv.numbers {
            Numbers::F32(lists) => lists.grow(slots, kv.width),
            Numbers::F16(lists) => lists.grow(slots, kv.width),
        }
        Ok(())
    }

    fn attention(
        &self,
        shape: &AttentionShape,
        norms: Option<(&Vec<f32>, &Vec<f32>)>,
        mut qkv: Rows,
        rope: &Rope,
        batch: &Batch,
        kv: &mut Kv,
    ) -> Result<Rows> {
        let norms = norms.map(|(q, k)| (q.as_slice(), k.as_slice()));
        attention::rotate_heads(self.isa, qkv.data_mut(), shape, norms, &rope.cos, &rope.sin);
        Ok(match &mut kv.numbers {
            Numbers::F32(lists) => attention::attend_cached(self.isa, shape, &qkv, batch, lists),
            Numbers::F16(lists) => attention::attend_cached(self.isa, shape, &qkv, batch, lists),
        })
    }

    fn attention_within(&self, shape: &AttentionShape, qkv: &Rows, lens: &[usize]) -> Result<Rows> {
        Ok(attention::attend_within(self.isa, shape, qkv, lens))
    }
}

#[cfg(test)]
mod tests;
