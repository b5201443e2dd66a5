//! Layers from the tensors of a checkpoint.

use candle_core::{DType, Device, Error, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, Linear, VarBuilder, embedding, linear_b};

use super::Candle;
use crate::host::{self, HostTensor};
use crate::{Matrices, Result, Tables};

/// The tensors of one layer, by the names that candle's layers ask for.
struct LayerTensors<'a> {
    /// Stacked along the first dimension.
    weight: &'a [HostTensor],
    bias: Option<&'a HostTensor>,
}

impl LayerTensors<'_> {
    fn parts(&self, name: &str) -> candle_core::Result<&[HostTensor]> {
        let parts = match name {
            "weight" => Some(self.weight),
            "bias" => self.bias.map(std::slice::from_ref),
            _ => None,
        };
        parts.ok_or_else(|| Error::CannotFindTensor { path: name.into() })
    }
}

impl SimpleBackend for LayerTensors<'_> {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        self.get_unchecked(name, dtype, device)?.reshape(shape)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> candle_core::Result<Tensor> {
        let upload = |part: &HostTensor| {
            let tensor = Tensor::from_raw_buffer(&part.bytes(), stored(part), &part.shape, device)?;
            tensor.to_dtype(dtype)
        };
        let parts = self.parts(name)?.iter().map(upload);
        Tensor::cat(&parts.collect::<candle_core::Result<Vec<_>>>()?, 0)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.parts(name).is_ok()
    }
}

/// The type that a tensor's bytes have.
fn stored(tensor: &HostTensor) -> DType {
    match tensor.dtype {
        host::DType::Bf16 => DType::BF16,
        host::DType::F16 => DType::F16,
        _ => DType::F32,
    }
}

impl Candle {
    fn var_builder<'a>(&self, weight: &'a [HostTensor], bias: Option<&'a HostTensor>) -> VarBuilder<'a> {
        let tensors = LayerTensors { weight, bias };
        VarBuilder::from_backend(Box::new(tensors), self.dtype, self.device.clone())
    }
}

impl Matrices for Candle {
    type Matrix = Linear;
    type Experts = Vec<(Linear, Linear)>;

    fn matrix(&self, parts: &[HostTensor], bias: Option<&HostTensor>) -> Result<Linear> {
        let outputs = parts.iter().map(|part| part.shape[0]).sum();
        let inputs = parts.first().map_or(0, |part| part.shape[1]);
        let weights = self.var_builder(parts, bias);
        let layer = linear_b(inputs, outputs, bias.is_some(), weights)?;
        // The layer multiplies by the transpose. If that is contiguous, a row is summed in the same order for any
        // number of rows.
        let weight = layer.weight().t()?.contiguous()?.t()?;
        Ok(Linear::new(weight, layer.bias().cloned()))
    }

    fn experts(&self, experts: Vec<(Linear, Linear)>) -> Result<Vec<(Linear, Linear)>> {
        Ok(experts)
    }
}

impl Tables for Candle {
    type Vector = Tensor;
    type Table = candle_nn::Embedding;

    fn vector(&self, values: &HostTensor) -> Result<Tensor> {
        let weights = self.var_builder(std::slice::from_ref(values), None);
        Ok(weights.get(values.elements(), "weight")?)
    }

    fn table(&self, values: HostTensor) -> Result<candle_nn::Embedding> {
        let weights = self.var_builder(std::slice::from_ref(&values), None);
        Ok(embedding(values.shape[0], values.shape[1], weights)?)
    }
}
