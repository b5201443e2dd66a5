//! Weights on their way to a GPU.

use half::bf16;
use omni_gpu::kernels::{Copy, Fill, Uniform};
use omni_gpu::{Address, Device, Float, Memory};

use super::{Experts, Gpu, Matrix, Table, Vector, small};
use crate::backend::{ComputeError, Params, Result};
use crate::checkpoint::{self, DType, HostTensor, Recipe};

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
        let device = &self.lane().device;
        let memory = device.alloc(bytes.len())?;
        device.upload(memory.address(), &bytes)?;
        Ok(memory)
    }

    /// One tensor behind the other. What is random is made where it is to be: it never lies in the host's memory.
    fn stack(&self, parts: &[&HostTensor]) -> Result<D::Memory> {
        let each = |t: &HostTensor| t.elements() * self.float.bytes();
        let memory = self.lane().device.alloc(parts.iter().map(|t| each(t)).sum())?;
        let mut at = memory.address();
        for part in parts {
            match part.recipe() {
                Some(Recipe::Uniform(uniform)) => self.make(at, part.elements(), &uniform)?,
                _ => self.lane().device.upload(at, &self.elements(part))?,
            }
            at = at.offset(each(part));
        }
        Ok(memory)
    }

    fn make(&self, out: Address, count: usize, uniform: &checkpoint::Uniform) -> Result<()> {
        let kernel = Uniform {
            out,
            count: small(count),
            seed: uniform.seed,
            tensor: uniform.tensor,
            step: uniform.step(),
        };
        self.launch(kernel.launch(self.float))
    }

    /// Zeroed memory for so many of the backend's floats, and `keep` bytes of what was there before.
    pub(super) fn zeroed(&self, elements: usize, before: Option<(&D::Memory, usize)>) -> Result<D::Memory> {
        let bytes = (elements * self.float.bytes()).next_multiple_of(4).max(4);
        let memory = self.lane().device.alloc(bytes)?;
        self.fill(memory.address(), bytes)?;
        if let Some((before, keep)) = before {
            self.copy(memory.address(), before.address(), keep)?;
            // The old memory is given back.
            self.lane().device.wait()?;
        }
        Ok(memory)
    }

    /// Zeros.
    pub(super) fn fill(&self, to: Address, bytes: usize) -> Result<()> {
        let words = small(bytes.div_ceil(4));
        self.launch(Fill { to, word: 0, words }.launch())
    }

    pub(super) fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<()> {
        let words = small(bytes.div_ceil(4));
        self.launch(Copy { to, from, words }.launch())
    }
}

impl<D: Device> Params for Gpu<D> {
    type Matrix = Matrix<D>;
    type Vector = Vector<D>;
    type Table = Table<D>;
    type Experts = Experts<D>;

    fn matrix(&self, parts: &[HostTensor], bias: Option<&HostTensor>) -> Result<Matrix<D>> {
        Ok(Matrix {
            weight: self.stack(&parts.iter().collect::<Vec<_>>())?,
            bias: bias.map(|t| self.upload_f32(t)).transpose()?,
            outputs: parts.iter().map(|t| t.shape[0]).sum(),
            inputs: parts.first().map_or(0, |t| t.shape[1]),
        })
    }

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

    fn experts(&self, experts: Vec<(Matrix<D>, Matrix<D>)>) -> Result<Experts<D>> {
        let Some((first, _)) = experts.first() else {
            return Err(ComputeError("a mixture without experts".into()));
        };
        let each = first.outputs * first.inputs * self.float.bytes();
        let inner = first.outputs / 2;
        if !each.is_multiple_of(8) {
            return Err(ComputeError(format!("experts of {each} bytes")));
        }
        let (gate_up, down) = {
            let device = &self.lane().device;
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
        self.lane().device.wait()?;
        Ok(Experts { gate_up, down, inner })
    }
}
