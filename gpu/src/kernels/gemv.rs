//! Products of few rows with matrices: `kernels/gemv.cu`.

use super::{Linear, Typed, args, kernels, launch, of, wide};
use crate::launch::{Address, Float, Launch};

kernels! { "gemv":
    typed GEMV_1 = "gemv_1"("ppppppuuuuuu") 128;
    typed GEMV_2 = "gemv_2"("ppppppuuuuuu") 128;
    typed GEMV_4 = "gemv_4"("ppppppuuuuuu") 128;
    typed GEMV_8 = "gemv_8"("ppppppuuuuuu") 128;
    typed GATED_1 = "gated_1"("pppuuuuu") 128;
    typed GATED_2 = "gated_2"("pppuuuuu") 128;
    typed GATED_4 = "gated_4"("pppuuuuu") 128;
    typed GATED_8 = "gated_8"("pppuuuuu") 128;
}

/// Rows that one reading of a matrix serves.
pub const FEW_ROWS: u32 = 8;

/// Warps that share a row of a matrix with so many inputs: as many as have four vectors of 16 bytes each to read.
pub(super) fn splits(inputs: u32) -> u32 {
    match inputs {
        0..=1024 => 1,
        1025..=3072 => 2,
        _ => 4,
    }
}

/// The kernel for so many rows, and how many outputs a warp of it makes.
fn pick<'a>(rows: u32, kernels: &[(&'a Typed, u32); 4]) -> (&'a Typed, u32) {
    kernels[match rows {
        0 | 1 => 0,
        2 => 1,
        3 | 4 => 2,
        _ => 3,
    }]
}

/// As [`Linear`] for few rows; the matrix is read once.
pub(super) fn linear(linear: &Linear, float: Float) -> Launch {
    let (kernel, each) = pick(
        linear.rows,
        &[(&GEMV_1, 1), (&GEMV_2, 2), (&GEMV_4, 2), (&GEMV_8, 4)],
    );
    let splits = splits(linear.inputs);
    let wide = wide(linear.inputs, &[linear.x, linear.w]);
    let blocks = linear.outputs.div_ceil(each * 4 / splits);
    launch(
        of(kernel, float),
        [if linear.rows == 0 { 0 } else { blocks }, 1, 1],
        128,
        args![
            linear.out,
            linear.x,
            linear.w,
            linear.bias,
            linear.scale,
            linear.add,
            linear.rows,
            linear.outputs,
            linear.inputs,
            linear.activation.number(),
            splits,
            wide,
        ],
    )
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
    /// At most [`FEW_ROWS`].
    pub rows: u32,
    /// Elements of a row of `out`.
    pub half: u32,
    /// Elements of a row of `x`.
    pub inputs: u32,
}

impl Gated {
    /// The matrix is read once.
    #[must_use]
    pub fn launch(&self, float: Float) -> Launch {
        let (kernel, each) = pick(
            self.rows,
            &[(&GATED_1, 1), (&GATED_2, 1), (&GATED_4, 1), (&GATED_8, 2)],
        );
        let splits = splits(self.inputs);
        let wide = wide(self.inputs, &[self.x, self.w]);
        let blocks = self.half.div_ceil(each * 4 / splits);
        launch(
            of(kernel, float),
            [if self.rows == 0 { 0 } else { blocks }, 1, 1],
            128,
            args![
                self.out,
                self.x,
                self.w,
                self.rows,
                self.half,
                self.inputs,
                splits,
                wide
            ],
        )
    }
}
