//! Products of few rows with matrices: `kernels/gemv.cu`. With a norm, rows are normalised on their way.

use super::{Gated, GatedBeside, Linear, Typed, args, kernels, launch, of, wide};
use crate::launch::{Float, Launch};

kernels! { "gemv":
    typed GEMV_1 = "gemv_1"("pppppppuuuuuuf") 128;
    typed GEMV_2 = "gemv_2"("pppppppuuuuuuf") 128;
    typed GEMV_4 = "gemv_4"("pppppppuuuuuuf") 128;
    typed GEMV_8 = "gemv_8"("pppppppuuuuuuf") 128;
    typed NORMED_GEMV_1 = "normed_gemv_1"("pppppppuuuuuuf") 128;
    typed NORMED_GEMV_2 = "normed_gemv_2"("pppppppuuuuuuf") 128;
    typed NORMED_GEMV_4 = "normed_gemv_4"("pppppppuuuuuuf") 128;
    typed NORMED_GEMV_8 = "normed_gemv_8"("pppppppuuuuuuf") 128;
    typed GATED_1 = "gated_1"("ppppuuuuuf") 128;
    typed GATED_2 = "gated_2"("ppppuuuuuf") 128;
    typed GATED_4 = "gated_4"("ppppuuuuuf") 128;
    typed GATED_8 = "gated_8"("ppppuuuuuf") 128;
    typed NORMED_GATED_1 = "normed_gated_1"("ppppuuuuuf") 128;
    typed NORMED_GATED_2 = "normed_gated_2"("ppppuuuuuf") 128;
    typed NORMED_GATED_4 = "normed_gated_4"("ppppuuuuuf") 128;
    typed NORMED_GATED_8 = "normed_gated_8"("ppppuuuuuf") 128;
    typed GATED_BESIDE_1 = "gated_beside_1"("ppppppuuuuuufu") 128;
    typed GATED_BESIDE_2 = "gated_beside_2"("ppppppuuuuuufu") 128;
    typed GATED_BESIDE_4 = "gated_beside_4"("ppppppuuuuuufu") 128;
    typed GATED_BESIDE_8 = "gated_beside_8"("ppppppuuuuuufu") 128;
}

/// Rows that one reading of a matrix serves.
pub const FEW_ROWS: u32 = 8;

/// Warps that share a row of a matrix: enough that each reads four vectors of 16 bytes.
pub(super) fn splits(inputs: u32) -> u32 {
    match inputs {
        0..=1024 => 1,
        1025..=3072 => 2,
        _ => 4,
    }
}

/// Kernel for a number of rows, and its outputs per warp.
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
    let kernels = if linear.norm.is_some() {
        [
            (&NORMED_GEMV_1, 1),
            (&NORMED_GEMV_2, 2),
            (&NORMED_GEMV_4, 2),
            (&NORMED_GEMV_8, 4),
        ]
    } else {
        [(&GEMV_1, 1), (&GEMV_2, 2), (&GEMV_4, 2), (&GEMV_8, 4)]
    };
    let (kernel, each) = pick(linear.rows, &kernels);
    let splits = splits(linear.inputs);
    let wide = wide(linear.inputs, &[linear.x, linear.w, linear.norm]);
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
            linear.norm,
            linear.rows,
            linear.outputs,
            linear.inputs,
            linear.activation.number(),
            splits,
            wide,
            linear.eps,
        ],
    )
}

/// As [`Gated`] for few rows; the matrix is read once.
pub(super) fn gated(gated: &Gated, float: Float) -> Launch {
    let kernels = if gated.norm.is_some() {
        [
            (&NORMED_GATED_1, 1),
            (&NORMED_GATED_2, 1),
            (&NORMED_GATED_4, 1),
            (&NORMED_GATED_8, 2),
        ]
    } else {
        [(&GATED_1, 1), (&GATED_2, 1), (&GATED_4, 1), (&GATED_8, 2)]
    };
    let (kernel, each) = pick(gated.rows, &kernels);
    let splits = splits(gated.inputs);
    let wide = wide(gated.inputs, &[gated.x, gated.w, gated.norm]);
    let blocks = gated.half.div_ceil(each * 4 / splits);
    launch(
        of(kernel, float),
        [if gated.rows == 0 { 0 } else { blocks }, 1, 1],
        128,
        args![
            gated.out,
            gated.x,
            gated.w,
            gated.norm,
            gated.rows,
            gated.half,
            gated.inputs,
            splits,
            wide,
            gated.eps,
        ],
    )
}

/// As [`GatedBeside`]; both matrices are read once.
pub(super) fn gated_beside(both: &GatedBeside, float: Float) -> Launch {
    let gated = &both.gated;
    let (kernel, gated_each, each) = match gated.rows {
        0 | 1 => (&GATED_BESIDE_1, 1, 1),
        2 => (&GATED_BESIDE_2, 1, 2),
        3 | 4 => (&GATED_BESIDE_4, 1, 2),
        _ => (&GATED_BESIDE_8, 2, 4),
    };
    let splits = splits(gated.inputs);
    let wide = wide(gated.inputs, &[gated.x, gated.w, both.w, gated.norm]);
    let gated_blocks = gated.half.div_ceil(gated_each * 4 / splits);
    let blocks = gated_blocks + both.outputs.div_ceil(each * 4 / splits);
    launch(
        of(kernel, float),
        [if gated.rows == 0 { 0 } else { blocks }, 1, 1],
        128,
        args![
            gated.out,
            gated.w,
            both.out,
            both.w,
            gated.x,
            gated.norm,
            gated.rows,
            gated.half,
            both.outputs,
            gated.inputs,
            splits,
            wide,
            gated.eps,
            gated_blocks,
        ],
    )
}
