//! Backend over candle's layers, for any float type and device of candle. The reference for the other backends.
//!
//! Norms, softmax and rotations are computed in f32 and cast back, as in the reference implementation.

mod attention;
mod signals;
mod weights;
mod whole;

use candle_core::{DType, Device, Tensor};
use candle_nn::ops::{layer_norm_slow, rms_norm_slow, silu, swiglu};
use candle_nn::{Linear, Module};

use super::host_ids::{HostIdBackend, HostIds};
use super::ops::*;
use super::routed::{self, Routed};
use super::{Result, Routing};
use crate::layers::Snake;
use crate::sampling::{Choice, chosen};

#[derive(Debug, Clone)]
pub struct Candle {
    device: Device,
    dtype: DType,
}

impl Candle {
    pub fn new(device: Device, dtype: DType) -> Self {
        Self { device, dtype }
    }

    fn indices(&self, index: &[u32]) -> Result<Tensor> {
        Ok(Tensor::from_slice(index, index.len(), &self.device)?)
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

impl HostIdBackend for Candle {}

impl Embedding for Candle {
    fn lookup(&self, table: &candle_nn::Embedding, ids: &HostIds, column: usize) -> Result<Tensor> {
        let ids: Vec<u32> = ids.column(column).map(|id| chosen(id).unwrap_or(0)).collect();
        Ok(table.forward(&self.indices(&ids)?)?)
    }

    fn lookup_mean(&self, table: &candle_nn::Embedding, ids: &HostIds) -> Result<Tensor> {
        let rows = ids.values.len() / ids.columns;
        let ids = self.indices(&ids.values)?.reshape((rows, ids.columns))?;
        Ok(table.forward(&ids)?.mean(1)?)
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
        let width = logits.dim(1)?;
        let mut logits = self.host(logits)?;
        let rows = logits.chunks_mut(width).zip(choices);
        for ((logits, choice), ids) in rows.zip(ids.values.chunks_mut(ids.columns)) {
            ids[column] = choice.make(logits, column);
        }
        Ok(())
    }
}

impl Products for Candle {
    fn linear(&self, w: &Linear, x: &Tensor) -> Result<Tensor> {
        if x.dim(0)? == 0 {
            return self.zeros(0, w.weight().dim(0)?);
        }
        Ok(w.forward(x)?)
    }

    fn mixture(
        &self,
        experts: &Vec<(Linear, Linear)>,
        routing: Routing,
        scores: &Tensor,
        x: &Tensor,
        shared: Option<&Tensor>,
    ) -> Result<Tensor> {
        routed::mixture(self, experts, routing, &self.host(scores)?, x, shared, x.dim(1)?)
    }
}

// Not the layers `RmsNorm` and `LayerNorm`: see docs/dev/decisions.md.
impl Normalisation for Candle {
    fn rms_norm(&self, w: &Tensor, eps: f32, x: &Tensor) -> Result<Tensor> {
        Ok(rms_norm_slow(x, w, eps)?)
    }

    fn layer_norm(&self, w: &Tensor, bias: &Tensor, eps: f32, x: &Tensor) -> Result<Tensor> {
        Ok(layer_norm_slow(x, w, bias, eps)?)
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
        Ok(silu(&x)?)
    }

    fn gelu(&self, x: Tensor) -> Result<Tensor> {
        Ok(x.gelu_erf()?)
    }

    fn swiglu(&self, x: &Tensor) -> Result<Tensor> {
        Ok(swiglu(x)?)
    }

    fn snake(&self, snake: &Snake<Self>, x: Tensor) -> Result<Tensor> {
        let bend = x.broadcast_mul(&snake.a)?.sin()?.sqr()?.broadcast_mul(&snake.b)?;
        Ok((x + bend)?)
    }
}
