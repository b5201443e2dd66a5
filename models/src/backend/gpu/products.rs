//! Rows times matrices.

use omni_gpu::kernels::{Activation, FEW_ROWS, Gated, Linear};
use omni_gpu::{Address, Device, Memory};

use super::{Gpu, Matrix, Rows, small};
use crate::backend::Result;
use crate::backend::ops::*;

impl<D: Device> Gpu<D> {
    /// `x W^T + bias`, to be launched.
    pub(super) fn times(out: &Rows<D>, w: &Matrix<D>, x: Address) -> Linear {
        Linear {
            out: out.address(),
            x,
            w: w.weight.address(),
            bias: w.bias.as_ref().map_or(Address::NONE, Memory::address),
            scale: Address::NONE,
            add: Address::NONE,
            rows: small(out.rows),
            outputs: small(w.outputs),
            inputs: small(w.inputs),
            activation: Activation::None,
        }
    }

    pub(super) fn product(&self, w: &Matrix<D>, x: &Rows<D>) -> Result<Rows<D>> {
        let out = self.scratch(x.rows, w.outputs)?;
        self.launch(Self::times(&out, w, x.address()).launch(self.float))?;
        Ok(out)
    }

    pub(super) fn gated_product(&self, w: &Matrix<D>, x: &Rows<D>) -> Result<Rows<D>> {
        if x.rows > FEW_ROWS as usize {
            return self.swiglu(&self.product(w, x)?);
        }
        let out = self.scratch(x.rows, w.outputs / 2)?;
        let kernel = Gated {
            out: out.address(),
            x: x.address(),
            w: w.weight.address(),
            rows: small(x.rows),
            half: small(out.width),
            inputs: small(w.inputs),
        };
        self.launch(kernel.launch(self.float))?;
        Ok(out)
    }
}
