//! The operations in f32 on the processor's vector units, with kernels chosen at run time by what the machine has.
//!
//! Weights stored as bf16 stay so and are widened in registers: half the memory traffic, and the same numbers as if
//! they had been widened at load. The order of every sum is fixed, so a result does not depend, to the last bit, on
//! what it is batched with.

#[macro_use]
mod isa;
mod attention;
mod gemm;
mod pointwise;
mod rows;

use super::{AttentionShape, Backend, Batch, ComputeError, Params, Pass, Result, Taps};
use crate::checkpoint::HostTensor;
use crate::loader::{Conv, Snake};

use gemm::{Lhs, Matrix, Segment};
use isa::Isa;
pub(crate) use rows::Rows;

/// Signals shorter than this are copied together before a convolution, so that they share the weights' way through
/// the caches.
const SHORT_SIGNAL: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cpu {
    isa: Isa,
}

impl Cpu {
    pub(crate) fn new() -> Self {
        Self { isa: Isa::best() }
    }
}

/// `[rows, width]` as stored in the checkpoint, widened when looked up.
pub(crate) struct Table {
    values: HostTensor,
    width: usize,
}

impl Table {
    /// Appends row `id` to `out`.
    fn row(&self, id: u32, out: &mut Vec<f32>) -> Result<()> {
        if id as usize >= self.values.shape[0] {
            let shape = &self.values.shape;
            return Err(ComputeError(format!("id {id} is outside a table of {shape:?}")));
        }
        self.values.widen(id as usize * self.width, self.width, out);
        Ok(())
    }
}

pub(crate) struct Kv {
    /// In groups, see [`attention::KEY_GROUP`].
    k: Vec<f32>,
    v: Vec<f32>,
    width: usize,
}

/// Cosines and sines `[rows, head_dim / 2]`.
pub(crate) struct Rope {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Params for Cpu {
    type Matrix = Matrix;
    type Vector = Vec<f32>;
    type Table = Table;

    fn matrix(&self, parts: &[HostTensor], bias: Option<&HostTensor>) -> Result<Matrix> {
        Ok(Matrix::pack(
            self.isa,
            parts,
            bias.map(HostTensor::to_f32).as_deref(),
        ))
    }

    fn vector(&self, values: &HostTensor) -> Result<Vec<f32>> {
        Ok(values.to_f32())
    }

    fn table(&self, values: HostTensor) -> Result<Table> {
        Ok(Table {
            width: values.shape[1],
            values,
        })
    }
}

/// Signals one after another with their past in front of each.
struct Padded {
    rows: Rows,
    /// Row at which each signal's past begins.
    starts: Vec<usize>,
}

impl Cpu {
    /// Lays out `[past | x]` per signal, `x` through `act`, and keeps the last rows as the new past.
    fn pad(
        &self,
        taps: Taps,
        act: Option<&Snake<Self>>,
        x: &Rows,
        lens: &[usize],
        past: &mut [&mut Rows],
    ) -> Padded {
        let (width, keep) = (x.width(), taps.past());
        let mut rows = Rows::scratch(x.rows() + lens.len() * keep, width);
        let (mut starts, mut from) = (Vec::with_capacity(lens.len()), 0);
        let mut rest = rows.data_mut();
        for (i, (&len, past)) in lens.iter().zip(past).enumerate() {
            starts.push(from + i * keep);
            let (signal, others) = rest.split_at_mut((keep + len) * width);
            rest = others;
            let (before, now) = signal.split_at_mut(keep * width);
            before.copy_from_slice(past.data());
            let x = x.range(from, from + len);
            match act {
                Some(snake) => pointwise::snake(self.isa, now, x, &snake.a, &snake.b),
                None => now.copy_from_slice(x),
            }
            past.data_mut().copy_from_slice(&signal[len * width..]);
            from += len;
        }
        Padded { rows, starts }
    }
}

impl Padded {
    /// The windows of all rows, copied to lie one after another.
    fn windows(&self, taps: Taps, lens: &[usize]) -> Rows {
        let width = taps.taps * self.rows.width();
        let mut windows = Rows::with_capacity(lens.iter().sum::<usize>() * width, width);
        let out = windows.buffer();
        for (&start, &len) in self.starts.iter().zip(lens) {
            for row in start..start + len {
                for tap in 0..taps.taps {
                    let at = row + tap * taps.dilation;
                    out.extend_from_slice(self.rows.range(at, at + 1));
                }
            }
        }
        windows
    }
}

impl Backend for Cpu {
    type Rows = Rows;
    type Kv = Kv;
    type Rope = Rope;

    /// Signals of more do not stay in a core's cache between two layers.
    const SIGNAL: Pass = Pass {
        per_stream: 4,
        in_all: 16,
    };

    fn rows(&self, width: usize, values: Vec<f32>) -> Result<Rows> {
        Ok(Rows::new(values, width))
    }

    fn zeros(&self, rows: usize, width: usize) -> Result<Rows> {
        Ok(Rows::zeros(rows, width))
    }

    fn lasting(&self, rows: usize, width: usize) -> Result<Rows> {
        Ok(Rows::lasting(rows, width))
    }

    fn host(&self, x: &Rows) -> Result<Vec<f32>> {
        Ok(x.data().to_vec())
    }

    fn reshape(&self, x: Rows, width: usize) -> Result<Rows> {
        Ok(x.reshaped(width))
    }

    fn gather(&self, x: &Rows, index: &[u32]) -> Result<Rows> {
        let mut out = Rows::with_capacity(index.len() * x.width(), x.width());
        for &row in index {
            out.buffer()
                .extend_from_slice(x.range(row as usize, row as usize + 1));
        }
        Ok(out)
    }

    fn scatter_add(&self, mut acc: Rows, index: &[u32], weight: Option<&[f32]>, x: &Rows) -> Result<Rows> {
        let width = acc.width();
        for (i, (&row, x)) in index.iter().zip(x.data().chunks(width)).enumerate() {
            let row = &mut acc.data_mut()[row as usize * width..(row as usize + 1) * width];
            pointwise::axpy(self.isa, row, x, weight.map_or(1.0, |w| w[i]));
        }
        Ok(acc)
    }

    fn lookup(&self, table: &Table, ids: &[u32]) -> Result<Rows> {
        let mut out = Rows::with_capacity(ids.len() * table.width, table.width);
        for &id in ids {
            table.row(id, out.buffer())?;
        }
        Ok(out)
    }

    fn lookup_mean(&self, table: &Table, ids: &[u32], group: usize) -> Result<Rows> {
        let (rows, width) = (self.lookup(table, ids)?, table.width);
        let mut means = Rows::zeros(ids.len() / group, width);
        let groups = rows.data().chunks(group * width);
        for (mean, rows) in means.data_mut().chunks_mut(width).zip(groups) {
            for row in rows.chunks(width) {
                pointwise::axpy(self.isa, mean, row, 1.0);
            }
            mean.iter_mut().for_each(|v| *v /= group as f32);
        }
        Ok(means)
    }

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

    fn conv(
        &self,
        conv: &Conv<Self>,
        act: Option<&Snake<Self>>,
        x: &Rows,
        lens: &[usize],
        past: &mut [&mut Rows],
    ) -> Result<Rows> {
        let (w, taps) = (&conv.matrix, conv.taps);
        let padded = self.pad(taps, act, x, lens, past);
        if lens.len() > 1 && lens.iter().any(|&len| len < SHORT_SIGNAL) {
            return self.linear(w, &padded.windows(taps, lens));
        }
        let (width, mut dst) = (x.width(), 0);
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
        w: &Vec<f32>,
        bias: &Vec<f32>,
        taps: Taps,
        x: &Rows,
        lens: &[usize],
        past: &mut [&mut Rows],
    ) -> Result<Rows> {
        let padded = self.pad(taps, None, x, lens, past);
        let width = x.width();
        let mut out = Rows::with_capacity(x.data().len(), width);
        for (&start, &len) in padded.starts.iter().zip(lens) {
            for row in start..start + len {
                let at = out.data().len();
                out.buffer().extend_from_slice(bias);
                for (tap, w) in w.chunks(width).enumerate() {
                    let from = row + tap * taps.dilation;
                    let tap = padded.rows.range(from, from + 1);
                    pointwise::multiply_add(self.isa, &mut out.data_mut()[at..], tap, w);
                }
            }
        }
        Ok(out)
    }

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

    fn rope(&self, angles: Vec<f32>, _: usize) -> Result<Rope> {
        let (sin, cos) = angles.into_iter().map(f32::sin_cos).unzip();
        Ok(Rope { cos, sin })
    }

    fn kv(&self, slots: usize, width: usize) -> Result<Kv> {
        Ok(Kv {
            k: vec![0.0; attention::keys_size(slots, width)],
            v: vec![0.0; slots * width],
            width,
        })
    }

    fn grow(&self, kv: &mut Kv, slots: usize) -> Result<()> {
        let (keys, values) = (attention::keys_size(slots, kv.width), slots * kv.width);
        kv.k.resize(keys.max(kv.k.len()), 0.0);
        kv.v.resize(values.max(kv.v.len()), 0.0);
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
        attention::store(qkv.data(), shape, batch, &mut kv.k, &mut kv.v);
        let width = shape.q_width();
        let mut out = Rows::scratch(qkv.rows(), width);
        let (mut row, mut scratch) = (0, attention::Scratch::default());
        for span in batch.spans() {
            let seen = attention::Seen {
                k: &kv.k,
                v: &kv.v,
                v_stride: kv.width,
                kv_width: kv.width,
                head_dim: shape.head_dim,
                slots: batch.slots(span),
            };
            let end = row + span.len;
            let heads = &mut out.data_mut()[row * width..end * width];
            let order = attention::Order::of(span, shape);
            attention::attend(
                self.isa,
                heads,
                qkv.range(row, end),
                shape,
                order,
                &seen,
                &mut scratch,
            );
            row = end;
        }
        Ok(out)
    }

    fn attention_within(&self, shape: &AttentionShape, qkv: &Rows, lens: &[usize]) -> Result<Rows> {
        let (q_width, kv_width) = (shape.q_width(), shape.kv_width());
        let mut out = Rows::scratch(qkv.rows(), q_width);
        let longest = lens.iter().copied().max().unwrap_or(0);
        let mut k = vec![0.0; attention::keys_size(longest, kv_width)];
        let slots: Vec<u32> = (0..).take(longest).collect();
        let (mut row, mut scratch) = (0, attention::Scratch::default());
        for &len in lens {
            let block = qkv.range(row, row + len);
            for (slot, row) in block.chunks_exact(attention::row_width(shape)).enumerate() {
                attention::store_key(&row[q_width..q_width + kv_width], slot, &mut k);
            }
            let seen = attention::Seen {
                k: &k,
                v: &block[q_width + kv_width..],
                v_stride: attention::row_width(shape),
                kv_width,
                head_dim: shape.head_dim,
                slots: &slots[..len],
            };
            let heads = &mut out.data_mut()[row * q_width..(row + len) * q_width];
            attention::attend(
                self.isa,
                heads,
                block,
                shape,
                attention::Order::Any,
                &seen,
                &mut scratch,
            );
            row += len;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
