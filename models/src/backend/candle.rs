//! The operations composed from candle's: any float type, any device. The measure for the other backend.
//!
//! Norms, softmax and rotations are computed in f32 and cast back, as the reference implementation does.

mod signals;

use candle_core::{D, DType, Device, Tensor};

use super::host_ids::HostIds;
use super::ops::*;
use super::routed::{self, Routed};
use super::{AttentionShape, Batch, Params, Result, Routing, Span};
use crate::checkpoint::{self, HostTensor};
use crate::loader::Snake;
use crate::nn::Angles;
use crate::sampling::{Choice, chosen};

#[derive(Debug, Clone)]
pub(crate) struct Candle {
    device: Device,
    dtype: DType,
}

pub(crate) struct Matrix {
    /// `[in, out]`.
    weight: Tensor,
    bias: Option<Tensor>,
}

pub(crate) struct Kv {
    k: Tensor,
    v: Tensor,
}

impl Candle {
    pub(crate) fn new(device: Device, dtype: DType) -> Self {
        Self { device, dtype }
    }

    fn upload(&self, t: &HostTensor) -> Result<Tensor> {
        let dtype = match t.dtype {
            checkpoint::DType::Bf16 => DType::BF16,
            checkpoint::DType::F16 => DType::F16,
            _ => DType::F32,
        };
        Ok(Tensor::from_raw_buffer(&t.bytes(), dtype, &t.shape, &self.device)?.to_dtype(self.dtype)?)
    }

    fn indices(&self, index: &[u32]) -> Result<Tensor> {
        Ok(Tensor::from_slice(index, index.len(), &self.device)?)
    }

    fn rms(&self, w: &Tensor, eps: f32, x: &Tensor) -> Result<Tensor> {
        let wide = x.to_dtype(DType::F32)?;
        let mean = wide.sqr()?.mean_keepdim(D::Minus1)?;
        let normal = wide.broadcast_div(&(mean + f64::from(eps))?.sqrt()?)?;
        Ok(normal.to_dtype(self.dtype)?.broadcast_mul(w)?)
    }

    /// Rotates `x [rows, heads, head_dim]`.
    fn rotate(x: &Tensor, (cos, sin): &(Tensor, Tensor)) -> Result<Tensor> {
        let half = x.dim(2)? / 2;
        let (a, b) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
        let first = (a.broadcast_mul(cos)? - b.broadcast_mul(sin)?)?;
        let second = (b.broadcast_mul(cos)? + a.broadcast_mul(sin)?)?;
        Ok(Tensor::cat(&[first, second], 2)?)
    }

    /// One sequence: `q [len, heads, head_dim]` over its cached keys, to `[len, heads * head_dim]`.
    fn attend(
        &self,
        shape: &AttentionShape,
        q: &Tensor,
        span: &Span,
        slots: &[u32],
        kv: &Kv,
    ) -> Result<Tensor> {
        let index = self.indices(slots)?;
        let (keys, group) = (slots.len(), shape.heads / shape.kv_heads);
        let cached = |pool: &Tensor| -> Result<Tensor> {
            let rows = pool
                .index_select(&index, 0)?
                .reshape((keys, shape.kv_heads, 1, shape.head_dim))?;
            let rows = rows.expand((keys, shape.kv_heads, group, shape.head_dim))?;
            Ok(rows
                .reshape((keys, shape.heads, shape.head_dim))?
                .transpose(0, 1)?
                .contiguous()?)
        };
        let (k, v) = (cached(&kv.k)?, cached(&kv.v)?);
        let scale = 1.0 / (shape.head_dim as f64).sqrt();
        let q = q.transpose(0, 1)?.contiguous()?;
        let scores = (q.matmul(&k.transpose(1, 2)?.contiguous()?)? * scale)?.to_dtype(DType::F32)?;
        let scores = scores.broadcast_add(&self.mask(shape, span, keys)?)?;
        let max = scores.max_keepdim(D::Minus1)?;
        let exp = scores.broadcast_sub(&max)?.exp()?;
        let weights = exp
            .broadcast_div(&exp.sum_keepdim(D::Minus1)?)?
            .to_dtype(self.dtype)?;
        let heads = weights.matmul(&v)?.transpose(0, 1)?.contiguous()?;
        Ok(heads.reshape((span.len, shape.q_width()))?)
    }

    /// `[len, keys]`: 0 where a query sees a key, minus infinity elsewhere.
    fn mask(&self, shape: &AttentionShape, span: &Span, keys: usize) -> Result<Tensor> {
        let sees = |query: usize, key: usize| key <= query && shape.window.is_none_or(|w| key + w > query);
        let cell = |query: usize, key: usize| if sees(query, key) { 0.0 } else { f32::NEG_INFINITY };
        let mask: Vec<f32> = (span.start..span.start + span.len)
            .flat_map(|query| (span.first_key..span.first_key + keys).map(move |key| cell(query, key)))
            .collect();
        Ok(Tensor::from_vec(mask, (span.len, keys), &self.device)?)
    }
}

impl Params for Candle {
    type Matrix = Matrix;
    type Vector = Tensor;
    type Table = Tensor;
    type Experts = Vec<(Matrix, Matrix)>;

    fn matrix(&self, parts: &[HostTensor], bias: Option<&HostTensor>) -> Result<Matrix> {
        let parts = parts.iter().map(|t| self.upload(t)).collect::<Result<Vec<_>>>()?;
        let weight = Tensor::cat(&parts, 0)?.t()?.contiguous()?;
        Ok(Matrix {
            weight,
            bias: bias.map(|t| self.upload(t)).transpose()?,
        })
    }

    fn vector(&self, values: &HostTensor) -> Result<Tensor> {
        Ok(self.upload(values)?.flatten_all()?)
    }

    fn table(&self, values: HostTensor) -> Result<Tensor> {
        self.upload(&values)
    }

    fn experts(&self, experts: Vec<(Matrix, Matrix)>) -> Result<Vec<(Matrix, Matrix)>> {
        Ok(experts)
    }
}

impl Routed for Candle {
    fn scatter_weighted(&self, acc: Tensor, index: &[u32], weight: &[f32], x: &Tensor) -> Result<Tensor> {
        let weight = Tensor::from_slice(weight, (weight.len(), 1), &self.device)?.to_dtype(self.dtype)?;
        self.scatter_add(acc, index, &x.broadcast_mul(&weight)?)
    }
}

impl ComputeDevice for Candle {}

impl StepSizes for Candle {}

impl Steps for Candle {}

impl Activations for Candle {
    type Rows = Tensor;
    type Kept = ();

    fn rows(&self, width: usize, values: Vec<f32>) -> Result<Tensor> {
        let rows = values.len() / width;
        Ok(Tensor::from_vec(values, (rows, width), &self.device)?.to_dtype(self.dtype)?)
    }

    fn zeros(&self, rows: usize, width: usize) -> Result<Tensor> {
        Ok(Tensor::zeros((rows, width), self.dtype, &self.device)?)
    }

    fn host(&self, x: &Tensor) -> Result<Vec<f32>> {
        Ok(x.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
    }

    fn keep(&self, x: Tensor, (): &mut ()) -> Result<Tensor> {
        Ok(x)
    }

    fn reshape(&self, x: Tensor, width: usize) -> Result<Tensor> {
        Ok(x.reshape((x.elem_count() / width, width))?)
    }
}

impl RowIndexing for Candle {
    fn gather(&self, x: &Tensor, index: &[u32]) -> Result<Tensor> {
        if index.is_empty() {
            self.zeros(0, x.dim(1)?)
        } else {
            Ok(x.index_select(&self.indices(index)?, 0)?)
        }
    }

    fn scatter_add(&self, acc: Tensor, index: &[u32], x: &Tensor) -> Result<Tensor> {
        Ok(acc.index_add(&self.indices(index)?, x, 0)?)
    }
}

impl IdTransfer for Candle {
    type Ids = HostIds;
    type Coming = Vec<u32>;

    fn ids(&self, columns: usize, ids: Vec<u32>) -> Result<HostIds> {
        Ok(HostIds { values: ids, columns })
    }

    fn host_ids(&self, ids: &HostIds) -> Result<Vec<u32>> {
        Ok(ids.values.clone())
    }

    fn known<'a>(&self, ids: &'a HostIds) -> Option<&'a [u32]> {
        Some(&ids.values)
    }

    fn order_ids(&self, ids: &HostIds) -> Result<Vec<u32>> {
        self.host_ids(ids)
    }

    fn come(&self, coming: Vec<u32>) -> Result<Vec<u32>> {
        Ok(coming)
    }
}

impl IdStore for Candle {
    fn grow_ids(&self, ids: &mut HostIds, rows: usize) -> Result<()> {
        ids.grow(rows);
        Ok(())
    }

    fn put_ids(&self, to: &mut HostIds, rows: &[u32], from: &HostIds) -> Result<()> {
        to.put(rows, from);
        Ok(())
    }

    fn take_ids(&self, from: &HostIds, rows: &[u32]) -> Result<HostIds> {
        Ok(from.take(rows))
    }
}

impl Embedding for Candle {
    fn lookup(&self, table: &Tensor, ids: &HostIds, column: usize) -> Result<Tensor> {
        let ids = ids.values.iter().skip(column).step_by(ids.columns);
        let ids: Vec<u32> = ids.map(|&id| chosen(id).unwrap_or(0)).collect();
        self.gather(table, &ids)
    }

    fn lookup_mean(&self, table: &Tensor, ids: &HostIds) -> Result<Tensor> {
        let rows = self.gather(table, &ids.values)?;
        let shape = (ids.values.len() / ids.columns, ids.columns, table.dim(1)?);
        Ok(rows.reshape(shape)?.mean(1)?)
    }
}

impl Sampler for Candle {
    fn sample(
        &self,
        logits: &Tensor,
        choices: &[Choice<'_>],
        _: Option<&HostIds>,
        ids: &mut HostIds,
        column: usize,
    ) -> Result<()> {
        let (width, mut logits) = (logits.dim(1)?, self.host(logits)?);
        let rows = logits.chunks_mut(width).zip(choices);
        for ((logits, choice), ids) in rows.zip(ids.values.chunks_mut(ids.columns)) {
            ids[column] = choice.make(logits, column);
        }
        Ok(())
    }
}

impl Products for Candle {
    fn linear(&self, w: &Matrix, x: &Tensor) -> Result<Tensor> {
        if x.dim(0)? == 0 {
            return self.zeros(0, w.weight.dim(1)?);
        }
        let y = x.matmul(&w.weight)?;
        Ok(match &w.bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        })
    }

    fn mixture(
        &self,
        experts: &Vec<(Matrix, Matrix)>,
        routing: Routing,
        scores: &Tensor,
        x: &Tensor,
        shared: Option<&Tensor>,
    ) -> Result<Tensor> {
        routed::mixture(self, experts, routing, &self.host(scores)?, x, shared, x.dim(1)?)
    }
}

impl Normalisation for Candle {
    fn rms_norm(&self, w: &Tensor, eps: f32, x: &Tensor) -> Result<Tensor> {
        self.rms(w, eps, x)
    }

    fn layer_norm(&self, w: &Tensor, bias: &Tensor, eps: f32, x: &Tensor) -> Result<Tensor> {
        let wide = x.to_dtype(DType::F32)?;
        let centred = wide.broadcast_sub(&wide.mean_keepdim(D::Minus1)?)?;
        let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
        let normal = centred.broadcast_div(&(variance + f64::from(eps))?.sqrt()?)?;
        Ok(normal
            .to_dtype(self.dtype)?
            .broadcast_mul(w)?
            .broadcast_add(bias)?)
    }
}

impl Pointwise for Candle {
    fn add(&self, x: Tensor, y: &Tensor, scale: Option<&Tensor>) -> Result<Tensor> {
        Ok(match scale {
            Some(scale) => (x + y.broadcast_mul(scale)?)?,
            None => (x + y)?,
        })
    }

    fn silu(&self, x: Tensor) -> Result<Tensor> {
        Ok(x.silu()?)
    }

    fn gelu(&self, x: Tensor) -> Result<Tensor> {
        Ok(x.gelu_erf()?)
    }

    fn swiglu(&self, x: &Tensor) -> Result<Tensor> {
        let half = x.dim(1)? / 2;
        Ok((x.narrow(1, 0, half)?.contiguous()?.silu()? * x.narrow(1, half, half)?)?)
    }

    fn snake(&self, snake: &Snake<Self>, x: Tensor) -> Result<Tensor> {
        let bend = x.broadcast_mul(&snake.a)?.sin()?.sqr()?.broadcast_mul(&snake.b)?;
        Ok((x + bend)?)
    }
}

impl Attention for Candle {
    type Kv = Kv;
    type Places = (Tensor, Tensor);

    fn places(&self, batch: &Batch, angles: &Angles, shape: &AttentionShape) -> Result<(Tensor, Tensor)> {
        let (angles, head_dim) = (angles.of(batch), shape.head_dim);
        let shape = (angles.len() * 2 / head_dim, 1, head_dim / 2);
        let angles = Tensor::from_vec(angles, shape, &self.device)?;
        Ok((
            angles.cos()?.to_dtype(self.dtype)?,
            angles.sin()?.to_dtype(self.dtype)?,
        ))
    }

    fn kv(&self, slots: usize, width: usize) -> Result<Kv> {
        Ok(Kv {
            k: self.zeros(slots, width)?,
            v: self.zeros(slots, width)?,
        })
    }

    fn grow(&self, kv: &mut Kv, slots: usize) -> Result<()> {
        let (have, width) = kv.k.dims2()?;
        if slots > have {
            let more = self.zeros(slots - have, width)?;
            kv.k = Tensor::cat(&[&kv.k, &more], 0)?;
            kv.v = Tensor::cat(&[&kv.v, &more], 0)?;
        }
        Ok(())
    }

    fn attention(
        &self,
        shape: &AttentionShape,
        norms: Option<(&Tensor, &Tensor)>,
        qkv: Tensor,
        rope: &(Tensor, Tensor),
        batch: &Batch,
        kv: &mut Kv,
    ) -> Result<Tensor> {
        let rows = qkv.dim(0)?;
        let (q_width, kv_width) = (shape.q_width(), shape.kv_width());
        let heads = |from: usize, heads: usize| {
            let part = qkv.narrow(1, from, heads * shape.head_dim)?.contiguous()?;
            part.reshape((rows, heads, shape.head_dim))
        };
        let (mut q, mut k) = (heads(0, shape.heads)?, heads(q_width, shape.kv_heads)?);
        if let Some((q_norm, k_norm)) = norms {
            q = self.rms(q_norm, shape.eps, &q)?;
            k = self.rms(k_norm, shape.eps, &k)?;
        }
        let (q, k) = (Self::rotate(&q, rope)?, Self::rotate(&k, rope)?);
        let v = qkv.narrow(1, q_width + kv_width, kv_width)?.contiguous()?;
        let new: Vec<u32> = batch.spans().iter().flat_map(|s| batch.new_slots(s)).collect();
        let new = self
            .indices(&new)?
            .unsqueeze(1)?
            .expand((rows, kv_width))?
            .contiguous()?;
        kv.k.scatter_set(&new, &k.reshape((rows, kv_width))?.contiguous()?, 0)?;
        kv.v.scatter_set(&new, &v, 0)?;
        let (mut row, mut outputs) = (0, Vec::new());
        for span in batch.spans() {
            let q = q.narrow(0, row, span.len)?;
            row += span.len;
            outputs.push(self.attend(shape, &q, span, batch.slots(span), kv)?);
        }
        Ok(Tensor::cat(&outputs, 0)?)
    }

    fn attention_within(&self, shape: &AttentionShape, qkv: &Tensor, lens: &[usize]) -> Result<Tensor> {
        let (dim, scale) = (shape.head_dim, 1.0 / (shape.head_dim as f64).sqrt());
        let (mut row, mut outputs) = (0, Vec::new());
        for &len in lens {
            let heads = |from: usize, count: usize| -> Result<Tensor> {
                let part = qkv.narrow(0, row, len)?.narrow(1, from, count * dim)?;
                let part = part.contiguous()?.reshape((len, count, dim))?;
                // [heads, len, dim]
                Ok(part.transpose(0, 1)?.contiguous()?)
            };
            let q = heads(0, shape.heads)?;
            let k = heads(shape.q_width(), shape.heads)?;
            let v = heads(shape.q_width() + shape.kv_width(), shape.heads)?;
            let scores = (q.matmul(&k.transpose(1, 2)?.contiguous()?)? * scale)?.to_dtype(DType::F32)?;
            let exp = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
            let weights = exp
                .broadcast_div(&exp.sum_keepdim(D::Minus1)?)?
                .to_dtype(self.dtype)?;
            let out = weights.matmul(&v)?.transpose(0, 1)?.contiguous()?;
            outputs.push(out.reshape((len, shape.q_width()))?);
            row += len;
        }
        Ok(Tensor::cat(&outputs, 0)?)
    }
}
