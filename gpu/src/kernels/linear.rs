//! Products with matrices, whatever the number of rows.

use super::{Activation, FEW_ROWS, gemm, gemv};
use crate::launch::{Address, Float, Launch};

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
    /// `[rows, outputs]`, or none.
    pub add: Address,
    /// Up to [`FEW_ROWS`] a row's result does not depend on their number.
    pub rows: u32,
    /// Elements of a row of `out`.
    pub outputs: u32,
    /// Elements of a row of `x`.
    pub inputs: u32,
    /// What comes before `scale`.
    pub activation: Activation,
}

impl Linear {
    /// Few rows are bound by reading the matrix, which happens once; many go to the tensor cores (bf16).
    #[must_use]
    pub fn launch(&self, float: Float) -> Launch {
        if self.rows <= FEW_ROWS {
            gemv::linear(self, float)
        } else {
            gemm::linear(self, float)
        }
    }
}
