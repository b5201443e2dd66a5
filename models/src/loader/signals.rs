//! Weights of operations on whole signals.

use omni_backend::host::HostTensor;
use omni_backend::{BiLstm, Conv, Depthwise, Params, Precision, Snake, Taps};

use super::{Loader, change, mapped};
use crate::checkpoint::LoadError;

impl<P: Params> Loader<'_, P> {
    /// As [`Loader::conv`] with the weights times `factor`, and `{name}.bias` times `bias` if that is given.
    pub(crate) fn conv_times(
        &self,
        name: &str,
        (out, inputs, k): (usize, usize, usize),
        factor: f32,
        bias: Option<f32>,
    ) -> Result<Conv<P>, LoadError> {
        let weight = self.tensor(&format!("{name}.weight"), &[out, inputs, k])?;
        let weight = change(weight, |t| mapped(&t.conv_as_matrix(), |v| v * factor), P::DRY);
        let bias = bias.map(|factor| {
            let bias = self.tensor(&format!("{name}.bias"), &[out])?;
            Ok(change(bias, |t| mapped(t, |v| v * factor), P::DRY))
        });
        let bias = bias.transpose()?;
        Ok(Conv {
            matrix: self.made(name, self.params.matrix(&[weight], bias.as_ref()))?,
            taps: Taps { taps: k, dilation: 1 },
        })
    }

    /// Recurrent layer `name` in both directions, as PyTorch stores it.
    pub(crate) fn bilstm(&self, name: &str, inputs: usize, units: usize) -> Result<BiLstm<P>, LoadError> {
        let tensor = |part: &str, suffix: &str, shape: &[usize]| {
            self.tensor(&format!("{name}.{part}_l0{suffix}"), shape)
        };
        let mut input = Vec::new();
        let mut biases = Vec::new();
        let mut hidden = |suffix: &str| {
            input.push(tensor("weight_ih", suffix, &[4 * units, inputs])?);
            let first = tensor("bias_ih", suffix, &[4 * units])?;
            let second = tensor("bias_hh", suffix, &[4 * units])?;
            if !P::DRY {
                biases.extend(
                    first
                        .to_f32()
                        .into_iter()
                        .zip(second.to_f32())
                        .map(|(a, b)| a + b),
                );
            }
            let hidden = tensor("weight_hh", suffix, &[4 * units, units])?;
            // What is fed back to itself is not rounded.
            self.made(
                name,
                self.params.with_least(Precision::Stored).matrix(&[hidden], None),
            )
        };
        let hidden = [hidden("")?, hidden("_reverse")?];
        let bias = HostTensor::from_f32(vec![biases.len()], &biases);
        Ok(BiLstm {
            input: self.made(name, self.params.matrix(&input, Some(&bias)))?,
            hidden,
            units,
        })
    }

    /// Depthwise transposed convolution `{name}.weight` of shape `[channels, 1, k]` with bias, as one that is centred on
    /// rows with zeros between them.
    pub(crate) fn depthwise_transpose(
        &self,
        name: &str,
        channels: usize,
        k: usize,
    ) -> Result<Depthwise<P>, LoadError> {
        let weight = self.tensor(&format!("{name}.weight"), &[channels, 1, k])?;
        let weight = change(weight, HostTensor::depthwise_transpose_as_matrix, P::DRY);
        Ok(Depthwise {
            weight: self.made(name, self.params.vector(&weight))?,
            bias: self.vector(&format!("{name}.bias"), channels)?,
            taps: Taps { taps: k, dilation: 1 },
        })
    }

    /// This number for every channel.
    pub(crate) fn constant(&self, channels: usize, value: f32) -> Result<P::Vector, LoadError> {
        self.made(
            "",
            self.params
                .vector(&HostTensor::from_f32(vec![channels], &vec![value; channels])),
        )
    }

    /// Snake activation `x + sin(alpha x)^2 / alpha`, `name` of shape `[1, channels, 1]` being alpha.
    pub(crate) fn snake_of(&self, name: &str, channels: usize) -> Result<Snake<P>, LoadError> {
        let alpha = self.tensor(name, &[1, channels, 1])?;
        let inverse = change(alpha.clone(), |t| mapped(t, f32::recip), P::DRY);
        Ok(Snake {
            a: self.made(name, self.params.vector(&alpha))?,
            b: self.made(name, self.params.vector(&inverse))?,
        })
    }
}
