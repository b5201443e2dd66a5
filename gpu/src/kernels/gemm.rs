//! Products of many rows with matrices: `kernels/gemm.cu`.

use super::{args, kernels, launch, wide};
use crate::kernels::{Linear, Signals};
use crate::launch::{Address, Float, Kernel, Launch};

kernels! { "gemm":
    plain GEMM_16 = "gemm_16"("pppppppppuuuuuuuuu") 128;
    plain GEMM_32 = "gemm_32"("pppppppppuuuuuuuuu") 128;
    plain GEMM_64 = "gemm_64"("pppppppppuuuuuuuuu") 128;
    plain GEMM_LARGE = "gemm_large"("pppppppppuuuuuuuuu") 128;
    plain GEMM_PLAIN = "gemm_plain"("pppppppppuuuuuuuuu") 128;
}

/// A kernel's tile: rows, outputs, and bytes of shared memory.
struct Tiling {
    kernel: &'static Kernel,
    rows: u32,
    outputs: u32,
    shared: u32,
}

/// Two pieces in shared memory, `depth` inputs deep.
fn tiling(kernel: &'static [Kernel; 1], rows: u32, outputs: u32, depth: u32) -> Tiling {
    let shared = if depth == 0 {
        0
    } else {
        (rows + outputs) * (depth + 8) * 2
    };
    Tiling {
        kernel: &kernel[0],
        rows,
        outputs,
        shared,
    }
}

/// The kernel for so many rows and outputs.
fn pick(float: Float, rows: u32, outputs: u32) -> Tiling {
    match (float, rows) {
        (Float::F32, _) => tiling(&GEMM_PLAIN, 64, 64, 0),
        (_, 0..=16) => tiling(&GEMM_16, 16, 16, 128),
        (_, 17..=32) => tiling(&GEMM_32, 32, 16, 128),
        (_, 33..=64) => tiling(&GEMM_64, 64, 16, 128),
        _ if outputs <= 16 => tiling(&GEMM_64, 64, 16, 128),
        _ => tiling(&GEMM_LARGE, 64, 64, 64),
    }
}

/// Where the rows of the left side come from.
#[derive(Clone, Copy, Default)]
struct Source {
    index: Address,
    from: Address,
    channels: u32,
    dilation: u32,
    signals: u32,
    keep: u32,
}

fn gemm(linear: &Linear, source: Source, tiling: &Tiling, tiles: Address, tile_rows: u32) -> Launch {
    let wide = wide(source.channels, &[linear.x, linear.w]);
    let args: &[(u8, u64)] = args![
        linear.out,
        linear.x,
        linear.w,
        linear.bias,
        linear.scale,
        linear.add,
        source.index,
        source.from,
        tiles,
        linear.rows,
        linear.outputs,
        linear.inputs,
        source.channels,
        source.dilation,
        source.signals,
        source.keep,
        linear.activation.number(),
        wide,
    ];
    let grid = [linear.outputs.div_ceil(tiling.outputs), tile_rows, 1];
    let mut launch = launch(tiling.kernel, grid, 128, args);
    launch.shared = tiling.shared;
    launch
}

/// As [`Linear`] for any number of rows; the matrix is read once per 64 of them at most.
pub(super) fn linear(linear: &Linear, float: Float) -> Launch {
    let tiling = pick(float, linear.rows, linear.outputs);
    let source = Source {
        channels: linear.inputs,
        ..Source::default()
    };
    let tiles = linear.rows.div_ceil(tiling.rows);
    gemm(linear, source, &tiling, Address::NONE, tiles)
}

/// A causal convolution over padded signals: row `r` of signal `s` is `[padded[r + s * keep], padded[.. + dilation], ...]`
/// (`linear.inputs` elements, `channels` of each row) times the matrix.
#[derive(Debug, Clone, Copy)]
pub struct Convolve {
    /// `x` is `[padded, channels]` as [`Pad`](super::Pad) made it, `inputs` is `taps * channels`, `rows` those of the
    /// signals without their pasts.
    pub linear: Linear,
    /// The streams of the rows; `keep` is `(taps - 1) * dilation`.
    pub signals: Signals,
    /// Elements of a row of the padded signals.
    pub channels: u32,
    /// Rows from one tap to the next.
    pub dilation: u32,
}

impl Convolve {
    /// Windows are read where they are.
    #[must_use]
    pub fn launch(&self, float: Float) -> Launch {
        let (linear, s) = (&self.linear, &self.signals);
        let tiling = pick(float, linear.rows, linear.outputs);
        let source = Source {
            index: Address::NONE,
            from: s.from,
            channels: self.channels,
            dilation: self.dilation,
            signals: s.count,
            keep: s.keep,
        };
        let tiles = linear.rows.div_ceil(tiling.rows);
        gemm(linear, source, &tiling, Address::NONE, tiles)
    }
}

/// Rows of [`ExpertLinear::tiles`].
pub const EXPERT_TILE: u32 = 64;

/// Products of many rows with the matrices of their experts, in the order and the tiles that
/// [`Dispatch`](super::Dispatch) made.
#[derive(Debug, Clone, Copy)]
pub struct ExpertLinear {
    /// `rows` are all pairs of rows and experts; `w` is `[experts, outputs, inputs]`; no bias, scale or `add`. `out` is in
    /// the order of the dispatch.
    pub linear: Linear,
    /// `[pairs]` of `u32`: the row of `x` that each place of the order takes; none if `x` is in that order itself.
    pub index: Address,
    /// `[tile count, 3]` of `u32`: expert, first place, end.
    pub tiles: Address,
    /// How many there are at most, see [`Dispatch::tiles`](super::Dispatch::tiles).
    pub tile_count: u32,
}

impl ExpertLinear {
    /// Each expert's matrix is read once per 64 of its rows.
    #[must_use]
    pub fn launch(&self, float: Float) -> Launch {
        let tiling = match float {
            Float::F32 => tiling(&GEMM_PLAIN, EXPERT_TILE, 64, 0),
            Float::Bf16 => tiling(&GEMM_LARGE, EXPERT_TILE, 64, 64),
        };
        let source = Source {
            index: self.index,
            channels: self.linear.inputs,
            ..Source::default()
        };
        gemm(&self.linear, source, &tiling, self.tiles, self.tile_count)
    }
}
