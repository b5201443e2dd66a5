//! From projections to queries, keys and values: `kernels/rope.cu`.

use super::{args, kernels, launch, of};
use crate::launch::{Address, Float, Launch};

kernels! { "rope":
    typed ROTATE_AND_STORE = "rotate_and_store"("pppppppuuuuf") 128;
}

/// Widest head.
pub const MAX_HEAD_DIM: u32 = 256;

/// Query heads are normalised and rotated where they are; key heads are normalised, rotated and put into the cache,
/// value heads put into it as they are. The two halves of a head rotate against each other.
#[derive(Debug, Clone, Copy)]
pub struct RotateAndStore {
    /// `[rows, (heads + 2 * kv_heads) * head_dim]`: `[queries | keys | values]`.
    pub qkv: Address,
    /// `[capacity, kv_heads * head_dim]`.
    pub k: Address,
    /// `[capacity, kv_heads * head_dim]`.
    pub v: Address,
    /// `[head_dim]` of f32, or none.
    pub q_norm: Address,
    /// `[head_dim]` of f32, or none.
    pub k_norm: Address,
    /// `[rows, head_dim / 2]` of f32, in radians.
    pub angles: Address,
    /// `[rows]` of `u32`: the row of the cache that each row's key and value go to. Where there is none
    /// ([`NO_ROW`](super::NO_ROW)) they go nowhere.
    pub slots: Address,
    /// Number of rows.
    pub rows: u32,
    /// Query heads.
    pub heads: u32,
    /// Key heads, and as many value heads.
    pub kv_heads: u32,
    /// Even, at most [`MAX_HEAD_DIM`].
    pub head_dim: u32,
    /// Rows of the cache.
    pub capacity: u32,
    /// Added to the mean of the squares.
    pub eps: f32,
}

impl RotateAndStore {
    /// One warp per head.
    pub fn launch(&self, float: Float) -> Launch {
        debug_assert!(
            self.head_dim <= MAX_HEAD_DIM && self.head_dim.is_multiple_of(2),
            "heads of {}",
            self.head_dim
        );
        let heads = self.heads + 2 * self.kv_heads;
        launch(
            of(&ROTATE_AND_STORE, float),
            [self.rows, heads.div_ceil(4), 1],
            128,
            args![
                self.qkv,
                self.k,
                self.v,
                self.q_norm,
                self.k_norm,
                self.angles,
                self.slots,
                self.heads,
                self.kv_heads,
                self.head_dim,
                self.capacity,
                self.eps,
            ],
        )
    }
}
