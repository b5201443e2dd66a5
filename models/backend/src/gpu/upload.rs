//! Weights on their way to a GPU.

use half::bf16;
use omni_gpu::kernels::{Copy, Fill, Uniform};
use omni_gpu::{Address, Device, Float, Memory};

use super::{Experts, Gpu, Matrix, Table, Vector, small};
use crate::host::{self, DType, HostTensor, Recipe};
use crate::{ComputeError, Matrices, Result, Tables};

impl<D: Device> Gpu<D> {
    /// The tensor's elements as the backend's floats.
    fn elements<'a>(&self, tensor: &'a HostTensor) -> std::borrow::Cow<'a, [u8]> {
        match (self.float, &tensor.dtype) {
            (Float::F32, DType::F32) | (Float::Bf16, DType::Bf16) => tensor.bytes(),
            _ => self.floats(&tensor.to_f32()).into(),
        }
    }

    /// Numbers as the backend's floats.
    pub(super) fn floats(&self, values: &[f32]) -> Vec<u8> {
        match self.float {
            Float::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Float::Bf16 => values
                .iter()
                .flat_map(|v| bf16::from_f32(*v).to_le_bytes())
                .collect(),
        }
    }

    fn upload_f32(&self, tensor: &HostTensor) -> Result<D::Memory> {
        let bytes: Vec<u8> = tensor.to_f32().iter().flat_map(|v| v.to_le_bytes()).collect();
        let device = &self.commands().device;
        let memory = device.alloc(bytes.len())?;
        device.upload(memory.address(), &bytes)?;
        Ok(memory)
    }

    /// Concatenates tensors. Random ones are generated on the device and never lie in host memory.
    fn stack(&self, parts: &[&HostTensor]) -> Result<D::Memory> {
        let each = |t: &HostTensor| t.elements() * self.float.bytes();
        let memory = self
            .commands()
            .device
            .alloc(parts.iter().map(|t| each(t)).sum())?;
        let mut at = memory.address();
        for part in parts {
            match part.recipe() {
                Some(Recipe::Uniform(uniform)) => self.make(at, part.elements(), &uniform)?,
                _ => self.commands().device.upload(at, &self.elements(part))?,
            }
            at = at.offset(each(part));
        }
        Ok(memory)
    }

    fn make(&self, out: Address, count: usize, uniform: &host::Uniform) -> Result<()> {
        let kernel = Uniform {
            out,
            count: u32::try_from(count).map_err(|_| {
                ComputeError::Failed(format!("a tensor of {count} elements, the limit is {}", u32::MAX))
            })?,
            seed: uniform.seed,
            tensor: uniform.tensor,
            step: uniform.step(),
        };
        self.launch(kernel.launch(self.float))
    }

    /// Zeroed memory for `elements` of the backend's floats, with `keep` bytes of the previous content.
    pub(super) fn zeroed(&self, elements: usize, before: Option<(&D::Memory, usize)>) -> Result<D::Memory> {
        let bytes = (elements * self.float.bytes()).next_multiple_of(4).max(4);
        let memory = self.commands().device.alloc(bytes)?;
        self.fill(memory.address(), bytes)?;
        if let Some((before, keep)) = before {
            self.copy(memory.address(), before.address(), keep)?;
            // The old memory is given back.
            self.commands().device.wait()?;
        }
        Ok(memory)
    }

    /// Zeros.
    pub(super) fn fill(&self, to: Address, bytes: usize) -> Result<()> {
        for (at, words) in pieces(bytes) {
            let to = to.offset(at);
            self.launch(Fill { to, word: 0, words }.launch())?;
        }
        Ok(())
    }

    pub(super) fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<()> {
        for (at, words) in pieces(bytes) {
            let to = to.offset(at);
            let from = from.offset(at);
            self.launch(Copy { to, from, words }.launch())?;
        }
        Ok(())
    }
}

/// Most words per clear or copy launch, because a cache may exceed 2^32 words.
const PIECE: usize = 1 << 31;

/// Launches that cover `bytes`, by their first byte and number of words.
fn pieces(bytes: usize) -> impl Iterator<Item = (usize, u32)> {
    let words = bytes.div_ceil(4);
    (0..words)
        .step_by(PIECE)
        .map(move |at| (4 * at, small((words - at).min(PIECE))))
}

impl<D: Device> Matrices for Gpu<D> {
    type Matrix = Matrix<D>;
    type Experts = Experts<D>;

    fn matrix(&self, parts: &[HostTensor], bias: Option<&HostTensor>) -> Result<Matrix<D>> {
        Ok(Matrix {
            weight: self.stack(&parts.iter().collect::<Vec<_>>())?,
            bias: bias.map(|t| self.upload_f32(t)).transpose()?,
            outputs: parts.iter().map(|t| t.shape[0]).sum(),
            inputs: parts.first().map_or(0, |t| t.shape[1]),
        })
    }

    fn experts(&self, experts: Vec<(Matrix<D>, Matrix<D>)>) -> Result<Experts<D>> {
        let Some((first, _)) = experts.first() else {
            return Err(ComputeError::Failed("a mixture without experts".into()));
        };
        let each = first.outputs * first.inputs * self.float.bytes();
        let inner = first.outputs / 2;
        if !each.is_multiple_of(8) {
            return Err(ComputeError::Failed(format!("experts of {each} bytes")));
        }
        let (gate_up, down) = {
            let device = &self.commands().device;
            (
                device.alloc(experts.len() * each)?,
                device.alloc(experts.len() * each / 2)?,
            )
        };
        for (i, (up, back)) in experts.iter().enumerate() {
            self.copy(gate_up.address().offset(i * each), up.weight.address(), each)?;
            self.copy(
                down.address().offset(i * each / 2),
                back.weight.address(),
                each / 2,
            )?;
        }
        // The experts' own memory is given back.
        self.commands().device.wait()?;
        Ok(Experts { gate_up, down, inner })
    }
}

impl<D: Device> Tables for Gpu<D> {
    type Vector = Vector<D>;
    type Table = Table<D>;

    fn vector(&self, values: &HostTensor) -> Result<Vector<D>> {
        Ok(Vector {
            values: self.upload_f32(values)?,
        })
    }

    fn table(&self, values: HostTensor) -> Result<Table<D>> {
        Ok(Table {
            values: self.stack(&[&values])?,
            rows: values.shape[0],
            width: values.shape[1],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_buffer_of_more_words_than_a_launch_takes_is_covered_once() {
        for bytes in [0, 1, 4, 4 * PIECE - 1, 4 * PIECE, 4 * PIECE + 4, 11 * PIECE] {
            let mut end = 0;
            for (at, words) in pieces(bytes) {
                assert!(at == end && words > 0 && words as usize <= PIECE);
                end = at + 4 * words as usize;
            }
            assert_eq!(end, bytes.next_multiple_of(4));
        }
    }
}
