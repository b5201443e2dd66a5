//! Rows times matrices.

use omni_gpu::kernels::{Activation, COUNTERS, FEW_ROWS, Gated, Linear, Scratch};
use omni_gpu::{Address, Device, Memory};

use super::command_stream::{CommandStream, Place};
use super::{Gpu, Matrix, Rows, Vector, small};
use crate::Result;
use crate::ops::*;

/// Memory shared by the blocks of a product that split its inputs. It is allocated before the launch.
pub(super) struct Shared<D: Device> {
    pub(super) scratch: Scratch,
    _partial: Option<Place<D>>,
}

impl<D: Device> CommandStream<D> {
    /// Zeros that launches leave as they find them.
    fn counters(&mut self) -> omni_gpu::Result<Address> {
        if let Some(counters) = &self.counters {
            return Ok(counters.address());
        }
        let counters = self.device.alloc(COUNTERS * 4)?;
        self.device.upload(counters.address(), &[0; COUNTERS * 4])?;
        Ok(self.counters.insert(counters).address())
    }
}

impl<D: Device> Gpu<D> {
    /// Allocates `bytes` of memory for a product.
    pub(super) fn share(&self, bytes: usize) -> Result<Shared<D>> {
        if bytes == 0 {
            return Ok(Shared {
                scratch: Scratch::default(),
                _partial: None,
            });
        }
        let mut commands = self.commands();
        let partial = commands.take(bytes)?;
        let scratch = Scratch {
            partial: partial.address(),
            counters: commands.counters()?,
        };
        Ok(Shared {
            scratch,
            _partial: Some(partial),
        })
    }

    /// `x W^T + bias`, to be launched.
    pub(super) fn times(out: &Rows<D>, w: &Matrix<D>, x: Address) -> Linear {
        let shape = [out.rows, w.outputs, w.inputs].map(small);
        Linear {
            bias: w.bias.as_ref().map_or(Address::NONE, Memory::address),
            ..Linear::product(out.address(), x, w.weight.address(), shape)
        }
    }

    pub(super) fn launch_linear(&self, mut linear: Linear) -> Result<()> {
        let shared = self.share(linear.scratch_bytes(self.float))?;
        linear.scratch = shared.scratch;
        self.launch(linear.launch(self.float))
    }

    /// Many rows are normalised before the product, once, and not on their way into each block of it.
    fn normalised(&self, x: &Rows<D>, norm: Option<Norm<'_, Self>>) -> Result<Option<Rows<D>>> {
        let ahead = norm.filter(|_| x.rows > FEW_ROWS as usize);
        ahead
            .map(|norm| self.rms_norm(norm.weight, norm.eps, x))
            .transpose()
    }

    pub(super) fn product(
        &self,
        w: &Matrix<D>,
        x: &Rows<D>,
        norm: Option<Norm<'_, Self>>,
    ) -> Result<Rows<D>> {
        if let Some(normal) = self.normalised(x, norm)? {
            return self.product(w, &normal, None);
        }
        let out = self.scratch(x.rows, w.outputs)?;
        let mut linear = Self::times(&out, w, x.address());
        if let Some(norm) = norm {
            linear.norm = norm.weight.values.address();
            linear.eps = norm.eps;
        }
        self.launch_linear(linear)?;
        Ok(out)
    }

    /// `x + scale * (y W^T + bias)`, where x is.
    pub(super) fn product_onto(
        &self,
        x: Rows<D>,
        scale: Option<&Vector<D>>,
        w: &Matrix<D>,
        y: &Rows<D>,
    ) -> Result<Rows<D>> {
        let mut linear = Self::times(&x, w, y.address());
        linear.add = x.address();
        linear.scale = scale.map_or(Address::NONE, |s| s.values.address());
        self.launch_linear(linear)?;
        Ok(x)
    }

    /// A function of the product.
    pub(super) fn activated_product(
        &self,
        w: &Matrix<D>,
        x: &Rows<D>,
        activation: Activation,
    ) -> Result<Rows<D>> {
        let out = self.scratch(x.rows, w.outputs)?;
        let mut linear = Self::times(&out, w, x.address());
        linear.activation = activation;
        self.launch_linear(linear)?;
        Ok(out)
    }

    pub(super) fn gated_product(
        &self,
        w: &Matrix<D>,
        x: &Rows<D>,
        norm: Option<Norm<'_, Self>>,
    ) -> Result<Rows<D>> {
        if let Some(normal) = self.normalised(x, norm)? {
            return self.gated_product(w, &normal, None);
        }
        let out = self.scratch(x.rows, w.outputs / 2)?;
        let mut gated = Gated {
            out: out.address(),
            x: x.address(),
            w: w.weight.address(),
            norm: norm.map_or(Address::NONE, |norm| norm.weight.values.address()),
            eps: norm.map_or(0.0, |norm| norm.eps),
            scratch: Scratch::default(),
            rows: small(x.rows),
            half: small(out.width),
            inputs: small(w.inputs),
        };
        let shared = self.share(gated.scratch_bytes(self.float))?;
        gated.scratch = shared.scratch;
        self.launch(gated.launch(self.float))?;
        Ok(out)
    }
}
