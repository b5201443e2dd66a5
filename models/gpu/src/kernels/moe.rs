//! Mixtures of experts: `kernels/moe.cu`.

use super::gemv::splits;
use super::{args, kernels, launch, of, threads, wide};
use crate::launch::{Address, Float, Launch};

kernels! { "moe":
    typed ROUTE = "route"("ppppuuuu") 32;
    typed EXPERT_GATED = "expert_gated"("pppppuuuuuuf") 128;
    typed NORMED_EXPERT_GATED = "normed_expert_gated"("pppppuuuuuuf") 128;
    typed EXPERT_DOWN = "expert_down"("pppppppppuuuuuuu") 256;
    plain DISPATCH = "dispatch"("ppppuuuuuu") 1024;
    typed COMBINE = "combine"("pppppppuu") 1024;
}

/// Chooses every row's experts by the softmax of its scores, likeliest first, the lower number among equals.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// `[rows, top_k]` of `u32`. A row whose scores are no numbers gets [`NO_ROW`](super::NO_ROW).
    pub ids: Address,
    /// `[rows, top_k]` of f32.
    pub weights: Address,
    /// `[rows]` of f32: the shared expert's gate. None if there is none.
    pub gates: Address,
    /// `[rows, width]`, the shared expert's score last.
    pub scores: Address,
    /// Number of rows.
    pub rows: u32,
    /// At most 4096.
    pub experts: u32,
    /// `experts`, and one more if there is a shared one.
    pub width: u32,
    /// Experts per row.
    pub top_k: u32,
    /// Divides the weights by their sum.
    pub normalise: bool,
}

impl Route {
    /// One warp per row.
    pub fn launch(&self, float: Float) -> Launch {
        let mut launch = launch(
            of(&ROUTE, float),
            [self.rows, 1, 1],
            32,
            args![
                self.ids,
                self.weights,
                self.gates,
                self.scores,
                self.experts,
                self.width,
                self.top_k,
                self.normalise,
            ],
        );
        launch.shared = self.experts * 4;
        launch
    }
}

/// The experts' first halves, `silu(x G^T) * (x U^T)`, for every row and each of its experts. For few rows.
#[derive(Debug, Clone, Copy)]
pub struct ExpertGated {
    /// `[rows, top_k, half]`.
    pub out: Address,
    /// `[rows, inputs]`.
    pub x: Address,
    /// `[experts, 2 * half, inputs]`: `[G | U]` of each.
    pub w: Address,
    /// `[rows, top_k]` of `u32`.
    pub ids: Address,
    /// As [`Linear::norm`](super::Linear::norm).
    pub norm: Address,
    /// As [`Linear::eps`](super::Linear::eps).
    pub eps: f32,
    /// At most 65535 / `top_k`.
    pub rows: u32,
    /// Number of experts.
    pub experts: u32,
    /// Experts per row.
    pub top_k: u32,
    /// Elements that an expert makes.
    pub half: u32,
    /// Elements of a row of `x`.
    pub inputs: u32,
}

impl ExpertGated {
    /// Reads the matrices of a row's experts once.
    pub fn launch(&self, float: Float) -> Launch {
        let splits = splits(self.inputs);
        let wide = wide(self.inputs, &[self.x, self.w, self.norm]);
        let kernel = if self.norm.is_some() {
            &NORMED_EXPERT_GATED
        } else {
            &EXPERT_GATED
        };
        launch(
            of(kernel, float),
            [self.half.div_ceil(4 / splits), self.rows * self.top_k, 1],
            128,
            args![
                self.out,
                self.x,
                self.w,
                self.ids,
                self.norm,
                self.experts,
                self.top_k,
                self.half,
                self.inputs,
                splits,
                wide,
                self.eps,
            ],
        )
    }
}

/// Output of the expert that all rows share, before its gate.
#[derive(Debug, Clone, Copy)]
pub enum SharedExpert {
    /// There is none.
    None,
    /// `[rows, outputs]`.
    Rows(Address),
    /// Its first half, to be multiplied with its second matrix here.
    Half {
        /// `[rows, inputs]`.
        h: Address,
        /// `[outputs, inputs]`.
        w: Address,
        /// Elements of its first half.
        inputs: u32,
    },
}

/// The experts' second halves, weighed and summed: `out = add + gate * shared + sum of weight * (h D^T)`. For few rows.
#[derive(Debug, Clone, Copy)]
pub struct ExpertDown {
    /// `[rows, outputs]`; may be `add`.
    pub out: Address,
    /// `[rows, top_k, inputs]`.
    pub h: Address,
    /// `[experts, outputs, inputs]`.
    pub w: Address,
    /// `[rows, top_k]` of `u32`.
    pub ids: Address,
    /// `[rows, top_k]` of f32.
    pub weights: Address,
    /// The shared expert.
    pub shared: SharedExpert,
    /// `[rows]` of f32: the factor of `shared`.
    pub gates: Address,
    /// `[rows, outputs]`, or none.
    pub add: Address,
    /// At most 65535.
    pub rows: u32,
    /// Number of experts.
    pub experts: u32,
    /// Experts per row, at most 32.
    pub top_k: u32,
    /// Elements of a row of `out`.
    pub outputs: u32,
    /// Elements that an expert's first half makes.
    pub inputs: u32,
}

impl ExpertDown {
    /// A block for four elements of a row.
    pub fn launch(&self, float: Float) -> Launch {
        debug_assert!(self.top_k <= 32, "{} experts per row", self.top_k);
        let (shared, shared_w, shared_inputs) = match self.shared {
            SharedExpert::None => (Address::NONE, Address::NONE, 0),
            SharedExpert::Rows(rows) => (rows, Address::NONE, 0),
            SharedExpert::Half { h, w, inputs } => (h, w, inputs),
        };
        let shared_wide = wide(shared_inputs, &[shared, shared_w]);
        let wide = wide(self.inputs, &[self.h, self.w]);
        launch(
            of(&EXPERT_DOWN, float),
            [self.outputs.div_ceil(4), self.rows, 1],
            256,
            args![
                self.out,
                self.h,
                self.w,
                self.ids,
                self.weights,
                shared,
                shared_w,
                self.gates,
                self.add,
                self.experts,
                self.top_k,
                self.outputs,
                self.inputs,
                shared_inputs,
                wide,
                shared_wide,
            ],
        )
    }
}

/// Pairs of rows and experts in the order of their experts, for [`ExpertLinear`](super::ExpertLinear). For many rows.
#[derive(Debug, Clone, Copy)]
pub struct Dispatch {
    /// `[pairs]` of `u32`: the row of the pair at each place of the order.
    pub order: Address,
    /// `[pairs]` of `u32`: each pair's place.
    pub places: Address,
    /// `[tiles, 3]` of `u32`: expert, first place, end.
    pub tiles: Address,
    /// `[rows, top_k]` of `u32`.
    pub ids: Address,
    /// Number of rows.
    pub rows: u32,
    /// Number of experts, at most 1024.
    pub experts: u32,
    /// Experts per row.
    pub top_k: u32,
}

impl Dispatch {
    /// Pairs of a tile, most: few where experts have few rows each, so that tiles are full.
    pub fn tile(rows: u32, experts: u32, top_k: u32) -> u32 {
        if rows * top_k <= 16 * experts { 16 } else { 64 }
    }

    /// Tiles that may be needed.
    pub fn tiles(rows: u32, experts: u32, top_k: u32) -> u32 {
        let pairs = rows * top_k;
        pairs / Self::tile(rows, experts, top_k) + experts.min(pairs)
    }

    /// One block with a thread per expert, and at least as many as have a table of counts for each of their warps.
    pub fn launch(&self) -> Launch {
        let tiles = Self::tiles(self.rows, self.experts, self.top_k);
        let threads = self.experts.next_multiple_of(32).max(FEWEST_THREADS);
        let chunks = (threads / 32).min(MOST_COUNTS / self.experts.max(1)).max(1);
        let mut launch = launch(
            &DISPATCH[0],
            [u32::from(self.rows > 0), 1, 1],
            threads,
            args![
                self.order,
                self.places,
                self.tiles,
                self.ids,
                self.rows * self.top_k,
                self.top_k,
                self.experts,
                Self::tile(self.rows, self.experts, self.top_k),
                tiles,
                chunks,
            ],
        );
        launch.shared = chunks * self.experts * 4;
        launch
    }
}

/// Threads of a dispatch, least.
const FEWEST_THREADS: u32 = 512;
/// Counts that a dispatch has room for.
const MOST_COUNTS: u32 = 8192;

/// The experts' results weighed and summed: `out = add + gate * shared + sum of weight * y`.
#[derive(Debug, Clone, Copy)]
pub struct Combine {
    /// `[rows, width]`; may be `add`.
    pub out: Address,
    /// `[pairs, width]`, in the order of the dispatch.
    pub y: Address,
    /// `[rows, top_k]` of `u32`: each pair's place.
    pub places: Address,
    /// `[rows, top_k]` of f32.
    pub weights: Address,
    /// `[rows, width]` of the shared expert, or none.
    pub shared: Address,
    /// `[rows]` of f32: the factor of `shared`.
    pub gates: Address,
    /// `[rows, width]`, or none.
    pub add: Address,
    /// Number of rows.
    pub rows: u32,
    /// Experts per row.
    pub top_k: u32,
    /// Elements of a row of `out`.
    pub width: u32,
}

impl Combine {
    /// One block per row.
    pub fn launch(&self, float: Float) -> Launch {
        launch(
            of(&COMBINE, float),
            [self.rows, 1, 1],
            threads(self.width, 256),
            args![
                self.out,
                self.y,
                self.places,
                self.weights,
                self.shared,
                self.gates,
                self.add,
                self.top_k,
                self.width,
            ],
        )
    }
}
