//! Attention over a cache whose rows lie anywhere.

use candle_core::{DType, Tensor};
use candle_nn::ops::softmax_last_dim;
use candle_nn::rotary_emb::rope;

use super::Candle;
use crate::angles::Angles;
use crate::ops::*;
use crate::{AttentionShape, Batch, Result, Span};

/// `[slots, kv_width]` each.
pub struct Kv {
    k: Tensor,
    v: Tensor,
}

/// Cosines and sines `[rows, head_dim / 2]`.
pub struct Rotations {
    cos: Tensor,
    sin: Tensor,
}

impl Rotations {
    /// Rotates `x [heads, rows, head_dim]`, the halves of a head against each other.
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        Ok(rope(&x.unsqueeze(0)?, &self.cos, &self.sin)?.squeeze(0)?)
    }
}

/// Columns of `rows` from `from` on as `[heads, rows, head_dim]`.
fn heads(rows: &Tensor, from: usize, heads: usize, head_dim: usize) -> Result<Tensor> {
    let columns = rows.narrow(1, from, heads * head_dim)?;
    let split = columns.reshape((rows.dim(0)?, heads, head_dim))?;
    Ok(split.transpose(0, 1)?.contiguous()?)
}

/// `[heads, rows, head_dim]` as rows.
fn rows(heads: &Tensor) -> Result<Tensor> {
    Ok(heads.transpose(0, 1)?.flatten_from(1)?)
}

impl Candle {
    /// `q [heads, len, head_dim]` over `k` and `v`, `[kv_heads, keys, head_dim]`, to `[len, q_width]`.
    fn attend(
        &self,
        shape: &AttentionShape,
        q: &Tensor,
        (k, v): (&Tensor, &Tensor),
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let len = q.dim(1)?;
        let keys = k.dim(1)?;
        let group = shape.heads / shape.kv_heads;
        let scale = 1.0 / (shape.head_dim as f64).sqrt();
        // The queries of a group share their keys, so that they are rows of one product.
        let q = q.reshape((shape.kv_heads, group * len, shape.head_dim))?;
        let scores = (q.matmul(&k.transpose(1, 2)?)? * scale)?.to_dtype(DType::F32)?;
        let scores = scores.reshape((shape.heads, len, keys))?;
        let scores = match mask {
            Some(mask) => scores.broadcast_add(mask)?,
            None => scores,
        };
        let weights = softmax_last_dim(&scores)?.to_dtype(self.dtype)?;
        let weights = weights.reshape((shape.kv_heads, group * len, keys))?;
        rows(&weights.matmul(v)?.reshape((shape.heads, len, shape.head_dim))?)
    }

    /// One sequence: `q [heads, len, head_dim]` over its cached keys, to `[len, q_width]`.
    fn attend_cached(
        &self,
        shape: &AttentionShape,
        q: &Tensor,
        span: &Span,
        slots: &[u32],
        kv: &Kv,
    ) -> Result<Tensor> {
        let index = self.indices(slots)?;
        let cached = |pool: &Tensor| heads(&pool.index_select(&index, 0)?, 0, shape.kv_heads, shape.head_dim);
        let k = cached(&kv.k)?;
        let v = cached(&kv.v)?;
        let mask = self.mask(shape, span, slots.len())?;
        self.attend(shape, q, (&k, &v), Some(&mask))
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

    /// Stores rows `[rows, kv_width]` of the positions that `batch` computes.
    fn store(&self, batch: &Batch, kv: &Kv, k: &Tensor, v: &Tensor) -> Result<()> {
        let new: Vec<u32> = batch.spans().iter().flat_map(|s| batch.new_slots(s)).collect();
        let index = self
            .indices(&new)?
            .unsqueeze(1)?
            .expand(k.shape())?
            .contiguous()?;
        kv.k.scatter_set(&index, &k.contiguous()?, 0)?;
        kv.v.scatter_set(&index, &v.contiguous()?, 0)?;
        Ok(())
    }
}

impl Attention for Candle {
    type Kv = Kv;
    type Places = Rotations;

    fn places(&self, batch: &Batch, angles: &Angles, shape: &AttentionShape) -> Result<Rotations> {
        let angles = angles.of(batch);
        let size = (2 * angles.len() / shape.head_dim, shape.head_dim / 2);
        let angles = Tensor::from_vec(angles, size, &self.device)?;
        Ok(Rotations {
            cos: angles.cos()?.to_dtype(self.dtype)?,
            sin: angles.sin()?.to_dtype(self.dtype)?,
        })
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
        rotations: &Rotations,
        batch: &Batch,
        kv: &mut Kv,
    ) -> Result<Tensor> {
        let q_width = shape.q_width();
        let kv_width = shape.kv_width();
        let mut q = heads(&qkv, 0, shape.heads, shape.head_dim)?;
        let mut k = heads(&qkv, q_width, shape.kv_heads, shape.head_dim)?;
        if let Some((q_norm, k_norm)) = norms {
            q = self.rms_norm(q_norm, shape.eps, &q)?;
            k = self.rms_norm(k_norm, shape.eps, &k)?;
        }
        let q = rotations.apply(&q)?;
        let k = rotations.apply(&k)?;
        let v = qkv.narrow(1, q_width + kv_width, kv_width)?;
        self.store(batch, kv, &rows(&k)?, &v)?;
        let mut row = 0;
        let mut outputs = Vec::new();
        for span in batch.spans() {
            let q = q.narrow(1, row, span.len)?;
            row += span.len;
            outputs.push(self.attend_cached(shape, &q, span, batch.slots(span), kv)?);
        }
        Ok(Tensor::cat(&outputs, 0)?)
    }

    fn attention_within(&self, shape: &AttentionShape, qkv: &Tensor, lens: &[usize]) -> Result<Tensor> {
        let mut row = 0;
        let mut outputs = Vec::new();
        for &len in lens {
            let block = qkv.narrow(0, row, len)?;
            row += len;
            let q_width = shape.q_width();
            let kv_width = shape.kv_width();
            let q = heads(&block, 0, shape.heads, shape.head_dim)?;
            let k = heads(&block, q_width, shape.kv_heads, shape.head_dim)?;
            let v = heads(&block, q_width + kv_width, shape.kv_heads, shape.head_dim)?;
            outputs.push(self.attend(shape, &q, (&k, &v), None)?);
        }
        Ok(Tensor::cat(&outputs, 0)?)
    }
}
