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

use super::{AttentionShape, Backend, Batch, ComputeError, Params, Result, Taps};
use crate::checkpoint::{DType, HostTensor};

use gemm::{Lhs, Matrix, Segment};
use isa::Isa;

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

/// `[rows, width]`, row major.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    data: Vec<f32>,
    width: usize,
}

impl Rows {
    fn new(data: Vec<f32>, width: usize) -> Self {
        Self { data, width }
    }

    fn len(&self) -> usize {
        self.data.len() / self.width.max(1)
    }
}

/// `[rows, width]` as stored in the checkpoint, widened when looked up.
pub(crate) struct Table {
    values: HostTensor,
    width: usize,
}

impl Table {
    fn row(&self, id: u32) -> Result<HostTensor> {
        let size = if self.values.dtype == DType::F32 { 4 } else { 2 } * self.width;
        let at = id as usize * size;
        let bytes = self.values.bytes.get(at..at + size);
        let bytes = bytes
            .ok_or_else(|| ComputeError(format!("id {id} is outside a table of {:?}", self.values.shape)))?;
        Ok(HostTensor {
            dtype: self.values.dtype.clone(),
            shape: vec![self.width],
            bytes: bytes.to_vec().into(),
        })
    }
}

pub(crate) struct Kv {
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
    data: Vec<f32>,
    /// Row at which each signal's past begins.
    starts: Vec<usize>,
}

/// Lays out `[past | x]` per signal and keeps the last rows as the new past.
fn pad(taps: Taps, x: &Rows, lens: &[usize], past: &mut [&mut Rows]) -> Padded {
    let (width, keep) = (x.width, taps.past());
    let mut data = Vec::with_capacity(x.data.len() + lens.len() * keep * width);
    let (mut starts, mut row) = (Vec::with_capacity(lens.len()), 0);
    for (&len, past) in lens.iter().zip(past) {
        starts.push(data.len() / width);
        data.extend_from_slice(&past.data);
        data.extend_from_slice(&x.data[row * width..(row + len) * width]);
        row += len;
        let end = data.len();
        past.data.copy_from_slice(&data[end - keep * width..]);
    }
    Padded { data, starts }
}

impl Padded {
    /// The windows of all rows, copied to lie one after another.
    fn windows(&self, taps: Taps, lens: &[usize], width: usize) -> Vec<f32> {
        let mut windows = Vec::with_capacity(lens.iter().sum::<usize>() * taps.taps * width);
        for (&start, &len) in self.starts.iter().zip(lens) {
            for row in start..start + len {
                for tap in 0..taps.taps {
                    let at = (row + tap * taps.dilation) * width;
                    windows.extend_from_slice(&self.data[at..at + width]);
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

    fn rows(&self, width: usize, values: Vec<f32>) -> Result<Rows> {
        Ok(Rows::new(values, width))
    }

    fn zeros(&self, rows: usize, width: usize) -> Result<Rows> {
        Ok(Rows::new(vec![0.0; rows * width], width))
    }

    fn host(&self, x: &Rows) -> Result<Vec<f32>> {
        Ok(x.data.clone())
    }

    fn reshape(&self, x: Rows, width: usize) -> Result<Rows> {
        Ok(Rows::new(x.data, width))
    }

    fn gather(&self, x: &Rows, index: &[u32]) -> Result<Rows> {
        let mut data = Vec::with_capacity(index.len() * x.width);
        for &row in index {
            data.extend_from_slice(&x.data[row as usize * x.width..(row as usize + 1) * x.width]);
        }
        Ok(Rows::new(data, x.width))
    }

    fn scatter_add(&self, mut acc: Rows, index: &[u32], weight: Option<&[f32]>, x: &Rows) -> Result<Rows> {
        let width = acc.width;
        for (i, (&row, x)) in index.iter().zip(x.data.chunks(width)).enumerate() {
            let row = &mut acc.data[row as usize * width..(row as usize + 1) * width];
            pointwise::axpy(self.isa, row, x, weight.map_or(1.0, |w| w[i]));
        }
        Ok(acc)
    }

    fn lookup(&self, table: &Table, ids: &[u32]) -> Result<Rows> {
        let mut data = Vec::with_capacity(ids.len() * table.width);
        for &id in ids {
            data.extend(table.row(id)?.to_f32());
        }
        Ok(Rows::new(data, table.width))
    }

    fn lookup_mean(&self, table: &Table, ids: &[u32], group: usize) -> Result<Rows> {
        let mut means = self.zeros(ids.len() / group, table.width)?;
        for (mean, ids) in means.data.chunks_mut(table.width).zip(ids.chunks(group)) {
            for &id in ids {
                pointwise::axpy(self.isa, mean, &table.row(id)?.to_f32(), 1.0);
            }
            mean.iter_mut().for_each(|v| *v /= group as f32);
        }
        Ok(means)
    }

    fn linear(&self, w: &Matrix, x: &Rows) -> Result<Rows> {
        let mut out = vec![0.0; x.len() * w.outputs()];
        let lhs = Lhs {
            data: &x.data,
            row_stride: x.width,
            taps: 1,
            tap_stride: 0,
            depth: x.width,
        };
        gemm::multiply(
            self.isa,
            w,
            &lhs,
            &[Segment {
                src: 0,
                dst: 0,
                rows: x.len(),
            }],
            &mut out,
        );
        Ok(Rows::new(out, w.outputs()))
    }

    fn conv(&self, w: &Matrix, taps: Taps, x: &Rows, lens: &[usize], past: &mut [&mut Rows]) -> Result<Rows> {
        let padded = pad(taps, x, lens, past);
        let width = x.width;
        if lens.len() > 1 && lens.iter().any(|&len| len < SHORT_SIGNAL) {
            return self.linear(
                w,
                &Rows::new(padded.windows(taps, lens, width), taps.taps * width),
            );
        }
        let mut out = vec![0.0; x.len() * w.outputs()];
        let (mut segments, mut dst) = (Vec::with_capacity(lens.len()), 0);
        for (&start, &rows) in padded.starts.iter().zip(lens) {
            segments.push(Segment {
                src: start * width,
                dst,
                rows,
            });
            dst += rows;
        }
        // Neighbouring taps are one long run of numbers.
        let (taps, depth) = if taps.dilation == 1 {
            (Taps { taps: 1, dilation: 1 }, taps.taps * width)
        } else {
            (taps, width)
        };
        let tap_stride = taps.dilation * width;
        let lhs = Lhs {
            data: &padded.data,
            row_stride: width,
            taps: taps.taps,
            tap_stride,
            depth,
        };
        gemm::multiply(self.isa, w, &lhs, &segments, &mut out);
        Ok(Rows::new(out, w.outputs()))
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
        let padded = pad(taps, x, lens, past);
        let (width, mut out) = (x.width, Vec::with_capacity(x.data.len()));
        for (&start, &len) in padded.starts.iter().zip(lens) {
            for row in start..start + len {
                let at = out.len();
                out.extend_from_slice(bias);
                for (tap, w) in w.chunks(width).enumerate() {
                    let from = (row + tap * taps.dilation) * width;
                    pointwise::multiply_add(self.isa, &mut out[at..], &padded.data[from..from + width], w);
                }
            }
        }
        Ok(Rows::new(out, width))
    }

    fn rms_norm(&self, w: &Vec<f32>, eps: f32, x: &Rows) -> Result<Rows> {
        let mut data = vec![0.0; x.data.len()];
        pointwise::rms_norm(self.isa, &mut data, &x.data, w, eps);
        Ok(Rows::new(data, x.width))
    }

    fn layer_norm(&self, w: &Vec<f32>, bias: &Vec<f32>, eps: f32, x: &Rows) -> Result<Rows> {
        let mut data = x.data.clone();
        pointwise::layer_norm(self.isa, &mut data, w, bias, eps);
        Ok(Rows::new(data, x.width))
    }

    fn add(&self, mut x: Rows, y: &Rows, scale: Option<&Vec<f32>>) -> Result<Rows> {
        match scale {
            Some(scale) => {
                for (x, y) in x.data.chunks_mut(scale.len()).zip(y.data.chunks(scale.len())) {
                    pointwise::multiply_add(self.isa, x, y, scale);
                }
            }
            None => pointwise::axpy(self.isa, &mut x.data, &y.data, 1.0),
        }
        Ok(x)
    }

    fn silu(&self, mut x: Rows) -> Result<Rows> {
        pointwise::silu(self.isa, &mut x.data);
        Ok(x)
    }

    fn gelu(&self, mut x: Rows) -> Result<Rows> {
        pointwise::gelu(self.isa, &mut x.data);
        Ok(x)
    }

    fn swiglu(&self, x: &Rows) -> Result<Rows> {
        let half = x.width / 2;
        let mut data = vec![0.0; x.len() * half];
        for (y, x) in data.chunks_mut(half).zip(x.data.chunks(x.width)) {
            let (gate, up) = x.split_at(half);
            pointwise::gated(self.isa, y, gate, up);
        }
        Ok(Rows::new(data, half))
    }

    fn snake(&self, a: &Vec<f32>, b: &Vec<f32>, x: &Rows) -> Result<Rows> {
        let mut data = vec![0.0; x.data.len()];
        pointwise::snake(self.isa, &mut data, &x.data, a, b);
        Ok(Rows::new(data, x.width))
    }

    fn rope(&self, batch: &Batch, head_dim: usize, theta: f32) -> Result<Rope> {
        let (sin, cos) = super::angles(batch, head_dim, theta)
            .into_iter()
            .map(f32::sin_cos)
            .unzip();
        Ok(Rope { cos, sin })
    }

    fn kv(&self, slots: usize, width: usize) -> Result<Kv> {
        Ok(Kv {
            k: vec![0.0; slots * width],
            v: vec![0.0; slots * width],
            width,
        })
    }

    fn grow(&self, kv: &mut Kv, slots: usize) -> Result<()> {
        let size = kv.k.len().max(slots * kv.width);
        kv.k.resize(size, 0.0);
        kv.v.resize(size, 0.0);
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
        attention::rotate_heads(self.isa, &mut qkv.data, shape, norms, &rope.cos, &rope.sin);
        attention::store(&qkv.data, shape, batch, &mut kv.k, &mut kv.v);
        let mut out = vec![0.0; qkv.len() * shape.q_width()];
        let (mut row, mut scores) = (0, Vec::new());
        for span in batch.spans() {
            let seen = attention::Seen {
                k: &kv.k,
                v: &kv.v,
                slots: batch.slots(span),
            };
            let q = &qkv.data[row * qkv.width..(row + span.len) * qkv.width];
            let heads = &mut out[row * shape.q_width()..(row + span.len) * shape.q_width()];
            attention::attend(self.isa, heads, q, shape, span, &seen, &mut scores);
            row += span.len;
        }
        Ok(Rows::new(out, shape.q_width()))
    }
}
