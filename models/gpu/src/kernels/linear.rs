//! Matrix products for any number of rows.

use super::{Activation, FEW_ROWS, gemm, gemv};
use crate::launch::{Address, Float, Launch};

/// Words of [`Scratch::counters`].
pub const COUNTERS: usize = gemm::MOST_TILES as usize;

/// Device memory with which blocks share the inputs of a product, where there are few blocks otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scratch {
    /// Any content, as many bytes as the product asks for (`scratch_bytes`); without it inputs are not shared.
    pub partial: Address,
    /// [`COUNTERS`] of `u32`: zeros before and after each launch. Launches of one queue may share them.
    pub counters: Address,
}

/// `out = add + scale * activation(x W^T + bias)`.
#[derive(Debug, Clone, Copy)]
pub struct Linear {
    /// `[rows, outputs]`; may be `add`.
    pub out: Address,
    /// `[rows, inputs]`.
    pub x: Address,
    /// `[outputs, inputs]`.
    pub w: Address,
    /// `[outputs]` of f32, or none.
    pub bias: Address,
    /// `[outputs]` of f32, or none for 1.
    pub scale: Address,
    /// `[outputs]` of f32: for [`Activation::Snake`], which `scale` then belongs to. Or none.
    pub shift: Address,
    /// `[rows, outputs]`, or none.
    pub add: Address,
    /// `[inputs]` of f32: x's rows are normalised on their way, `x / sqrt(mean(x^2) + eps) * norm`. Or none. For at
    /// most [`FEW_ROWS`].
    pub norm: Address,
    /// Added to the mean of the squares.
    pub eps: f32,
    /// For more than [`FEW_ROWS`].
    pub scratch: Scratch,
    /// Up to [`FEW_ROWS`] a row's result does not depend on their number.
    pub rows: u32,
    /// Elements of a row of `out`.
    pub outputs: u32,
    /// Elements of a row of `x`.
    pub inputs: u32,
    /// Applied before `scale`.
    pub activation: Activation,
}

impl Linear {
    /// A product and nothing else, of `[rows, outputs, inputs]`.
    pub fn product(out: Address, x: Address, w: Address, [rows, outputs, inputs]: [u32; 3]) -> Self {
        Self {
            out,
            x,
            w,
            bias: Address::NONE,
            scale: Address::NONE,
            shift: Address::NONE,
            add: Address::NONE,
            norm: Address::NONE,
            eps: 0.0,
            scratch: Scratch::default(),
            rows,
            outputs,
            inputs,
            activation: Activation::None,
        }
    }

    /// Few rows are bound by reading the matrix, which happens once; many go to the tensor cores (bf16).
    pub fn launch(&self, float: Float) -> Launch {
        if self.rows <= FEW_ROWS {
            gemv::linear(self, float)
        } else {
            debug_assert!(
                !self.norm.is_some(),
                "{} rows are not normalised on their way",
                self.rows
            );
            gemm::linear(self, 0, float)
        }
    }

    /// Bytes of [`Scratch::partial`] that it has use for; 0 for none.
    pub fn scratch_bytes(&self, float: Float) -> usize {
        if self.rows <= FEW_ROWS {
            return 0;
        }
        gemm::scratch_bytes(float, self.rows, self.outputs, self.inputs)
    }
}

/// `out = silu(x G^T) * (x U^T)` for `W = [G | U]`.
#[derive(Debug, Clone, Copy)]
pub struct Gated {
    /// `[rows, half]`.
    pub out: Address,
    /// `[rows, inputs]`.
    pub x: Address,
    /// `[2 * half, inputs]`.
    pub w: Address,
    /// As [`Linear::norm`].
    pub norm: Address,
    /// As [`Linear::eps`].
    pub eps: f32,
    /// For more than [`FEW_ROWS`].
    pub scratch: Scratch,
    /// Up to [`FEW_ROWS`] a row's result does not depend on their number.
    pub rows: u32,
    /// Elements of a row of `out`.
    pub half: u32,
    /// Elements of a row of `x`.
    pub inputs: u32,
}

impl Gated {
    /// The product of which it is a half.
    fn linear(&self) -> Linear {
        let shape = [self.rows, 2 * self.half, self.inputs];
        Linear {
            norm: self.norm,
            eps: self.eps,
            scratch: self.scratch,
            ..Linear::product(self.out, self.x, self.w, shape)
        }
    }

    /// As [`Linear::launch`].
    pub fn launch(&self, float: Float) -> Launch {
        if self.rows <= FEW_ROWS {
            gemv::gated(self, float)
        } else {
            debug_assert!(
                !self.norm.is_some(),
                "{} rows are not normalised on their way",
                self.rows
            );
            gemm::linear(&self.linear(), self.half, float)
        }
    }

    /// As [`Linear::scratch_bytes`].
    pub fn scratch_bytes(&self, float: Float) -> usize {
        self.linear().scratch_bytes(float)
    }
}

/// [`Gated`] and [`Linear`] of the same normalised rows in one launch, for at most [`FEW_ROWS`] rows, without bias or
/// epilogue. Results equal those of the two.
#[derive(Debug, Clone, Copy)]
pub struct GatedBeside {
    /// Must have a norm.
    pub gated: Gated,
    /// `[rows, outputs]`.
    pub out: Address,
    /// `[outputs, inputs]`.
    pub w: Address,
    /// Elements of a row of `out`.
    pub outputs: u32,
}

impl GatedBeside {
    /// Both matrices are read once.
    pub fn launch(&self, float: Float) -> Launch {
        let Gated { rows, norm, .. } = self.gated;
        debug_assert!(
            rows <= FEW_ROWS && norm.is_some(),
            "{rows} rows, or rows without a norm"
        );
        gemv::gated_beside(self, float)
    }
}
