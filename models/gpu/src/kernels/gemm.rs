//! Products of many rows with matrices: `kernels/gemm.cu`.

use super::{args, kernels, launch, wide};
use crate::kernels::{Linear, Signals};
use crate::launch::{Address, Float, Kernel, Launch};

kernels! { "gemm":
    plain GEMM_16 = "gemm_16"("ppppppppppppuuuuuuuuuuuu") 128;
    plain GEMM_32 = "gemm_32"("ppppppppppppuuuuuuuuuuuu") 128 large;
    plain GEMM_64 = "gemm_64"("ppppppppppppuuuuuuuuuuuu") 128 large;
    plain GEMM_64X64 = "gemm_64x64"("ppppppppppppuuuuuuuuuuuu") 128 large;
    plain GEMM_128X96 = "gemm_128x96"("ppppppppppppuuuuuuuuuuuu") 256 large;
    plain GEMM_128X128 = "gemm_128x128"("ppppppppppppuuuuuuuuuuuu") 256 large;
    plain GEMM_PLAIN = "gemm_plain"("ppppppppppppuuuuuuuuuuuu") 128;
}

/// Tiles of which more are not shared by several blocks: as many as a large device has multiprocessors.
pub(super) const MOST_TILES: u32 = 132;
/// Blocks that keep such a device busy: two of each multiprocessor.
const BLOCKS: u32 = 2 * MOST_TILES;
/// Inputs that a block has, least, where several share a tile.
const LEAST_INPUTS: u32 = 256;
/// Blocks that share a tile, most.
const MOST_SPLITS: u32 = 16;

/// Tile of a block, and its inputs.
struct Tiling {
    kernel: &'static [Kernel; 1],
    rows: u32,
    outputs: u32,
    /// Inputs per tile in shared memory, and number of pipeline stages; 0 for f32.
    depth: u32,
    stages: u32,
}

impl Tiling {
    const fn new(kernel: &'static [Kernel; 1], rows: u32, outputs: u32, depth: u32, stages: u32) -> Self {
        Self {
            kernel,
            rows,
            outputs,
            depth,
            stages,
        }
    }

    /// Bytes of shared memory.
    fn shared(&self) -> u32 {
        if self.depth == 0 {
            return 0;
        }
        (self.rows + self.outputs) * (self.depth + 8) * 2 * self.stages
    }

    /// Number of blocks that share the inputs of each of `tiles`.
    fn splits(&self, tiles: u32, inputs: u32) -> u32 {
        if self.depth == 0 || tiles == 0 {
            return 1;
        }
        (BLOCKS / tiles).min(inputs / LEAST_INPUTS).clamp(1, MOST_SPLITS)
    }
}

static PLAIN: Tiling = Tiling::new(&GEMM_PLAIN, 64, 64, 0, 0);
static ROWS_16: Tiling = Tiling::new(&GEMM_16, 16, 32, 128, 3);
static ROWS_32: Tiling = Tiling::new(&GEMM_32, 32, 32, 128, 3);
static ROWS_64: Tiling = Tiling::new(&GEMM_64, 64, 32, 64, 4);
static SQUARE: Tiling = Tiling::new(&GEMM_64X64, 64, 64, 64, 3);
static NARROW: Tiling = Tiling::new(&GEMM_128X96, 128, 96, 32, 4);
static LARGE: Tiling = Tiling::new(&GEMM_128X128, 128, 128, 32, 4);

/// Kernel for a number of rows and outputs.
fn pick(float: Float, rows: u32, outputs: u32) -> &'static Tiling {
    match (float, rows) {
        (Float::F32, _) => &PLAIN,
        (_, 0..=16) => &ROWS_16,
        (_, 17..=32) => &ROWS_32,
        (_, 33..=64) => &ROWS_64,
        _ if outputs <= 32 => &ROWS_64,
        // Where fewer columns of the last tile stand empty.
        _ if outputs.next_multiple_of(96) < outputs.next_multiple_of(128) => &NARROW,
        _ => &LARGE,
    }
}

/// Bytes of partial sums of a product.
pub(super) fn scratch_bytes(float: Float, rows: u32, outputs: u32, inputs: u32) -> usize {
    let tiling = pick(float, rows, outputs);
    let tiles = rows.div_ceil(tiling.rows) * outputs.div_ceil(tiling.outputs);
    match tiling.splits(tiles, inputs) {
        1 => 0,
        splits => (tiles * splits) as usize * (tiling.rows * tiling.outputs) as usize * 4,
    }
}

/// Source of the rows of the left side.
#[derive(Clone, Copy, Default)]
struct Source {
    index: Address,
    from: Address,
    channels: u32,
    dilation: u32,
    signals: u32,
    keep: u32,
}

/// `half`: rows of G in W = [G | U], 0 where nothing is gated.
fn gemm(
    linear: &Linear,
    half: u32,
    source: Source,
    tiling: &Tiling,
    (tiles, tile_rows): (Address, u32),
) -> Launch {
    let width = if half > 0 { half } else { linear.outputs };
    let reads_wide = wide(source.channels, &[linear.x, linear.w]);
    let writes_wide = wide(width, &[linear.out, linear.add]);
    let columns = linear.outputs.div_ceil(tiling.outputs);
    let splits = if linear.scratch.partial.is_some() {
        tiling.splits(columns * tile_rows, linear.inputs)
    } else {
        1
    };
    let args: &[(u8, u64)] = args![
        linear.out,
        linear.x,
        linear.w,
        linear.bias,
        linear.scale,
        linear.shift,
        linear.add,
        source.index,
        source.from,
        tiles,
        linear.scratch.partial,
        linear.scratch.counters,
        linear.rows,
        linear.outputs,
        linear.inputs,
        source.channels,
        source.dilation,
        source.signals,
        source.keep,
        linear.activation.number(),
        reads_wide,
        half,
        splits,
        writes_wide,
    ];
    let kernel = &tiling.kernel[0];
    let mut launch = launch(kernel, [columns, tile_rows, splits], kernel.threads, args);
    launch.shared = tiling.shared();
    launch
}

/// As [`Linear`] for any number of rows; the matrix is read once per 128 of them at most.
pub(super) fn linear(linear: &Linear, half: u32, float: Float) -> Launch {
    let tiling = pick(float, linear.rows, linear.outputs);
    let source = Source {
        channels: linear.inputs,
        ..Source::default()
    };
    let rows = linear.rows.div_ceil(tiling.rows);
    gemm(linear, half, source, tiling, (Address::NONE, rows))
}

/// A causal convolution over padded signals: row `r` of signal `s` is `[padded[r + s * keep], padded[.. + dilation],
/// ...]` (`linear.inputs` elements, `channels` of each row) times the matrix.
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
    pub fn launch(&self, float: Float) -> Launch {
        let linear = &self.linear;
        let s = &self.signals;
        let tiling = pick(float, linear.rows, linear.outputs);
        let source = Source {
            index: Address::NONE,
            from: s.from,
            channels: self.channels,
            dilation: self.dilation,
            signals: s.count,
            keep: s.keep,
        };
        let rows = linear.rows.div_ceil(tiling.rows);
        gemm(linear, 0, source, tiling, (Address::NONE, rows))
    }

    /// As [`Linear::scratch_bytes`].
    pub fn scratch_bytes(&self, float: Float) -> usize {
        scratch_bytes(float, self.linear.rows, self.linear.outputs, self.linear.inputs)
    }
}

/// Products of many rows with the matrices of their experts, in the order and the tiles that
/// [`Dispatch`](super::Dispatch) made.
#[derive(Debug, Clone, Copy)]
pub struct ExpertLinear {
    /// `rows` are all pairs of rows and experts; `w` is `[experts, outputs, inputs]`; no bias, scale, `add` or norm.
    /// `out` is in the order of the dispatch.
    pub linear: Linear,
    /// For `silu(x G^T) * (x U^T)`: the rows of G in an expert's `w`, `[G | U]`, and the width of `out`. Else 0.
    pub half: u32,
    /// `[pairs]` of `u32`: the row of `x` that each place of the order takes; none if `x` is in that order itself.
    pub index: Address,
    /// `[tile count, 3]` of `u32`: expert, first place, end.
    pub tiles: Address,
    /// Pairs of a tile, most: [`Dispatch::tile`](super::Dispatch::tile).
    pub tile: u32,
    /// Upper bound of the number of tiles, see [`Dispatch::tiles`](super::Dispatch::tiles).
    pub tile_count: u32,
}

impl ExpertLinear {
    /// Each expert's matrix is read once per tile of its rows.
    pub fn launch(&self, float: Float) -> Launch {
        let tiling = match (float, self.tile) {
            (Float::F32, _) => &PLAIN,
            (Float::Bf16, 0..=16) => &ROWS_16,
            (Float::Bf16, _) => &SQUARE,
        };
        let source = Source {
            index: self.index,
            channels: self.linear.inputs,
            ..Source::default()
        };
        let linear = Linear {
            scratch: super::Scratch::default(),
            ..self.linear
        };
        gemm(&linear, self.half, source, tiling, (self.tiles, self.tile_count))
    }
}
