//! Attention: `kernels/attention.cu`.

use super::gemv::FEW_ROWS;
use super::{args, kernels, launch, of, wide};
use crate::launch::{Address, Float, Launch};

kernels! { "attention":
    typed ATTENTION_1 = "attention_1"("pppppppuuuuuuuuufu") 128;
    typed ATTENTION_2 = "attention_2"("pppppppuuuuuuuuufu") 128;
    typed ATTENTION_4 = "attention_4"("pppppppuuuuuuuuufu") 128;
    typed ATTENTION_MERGE = "attention_merge"("ppuu") 128;
}

/// Numbers that say where one row's keys are, see [`Attention::ranges`].
pub const RANGE: usize = 3;

/// Every row's query heads over its own keys: `softmax(q k^T * scale) v`, heads in groups of `heads / kv_heads` per
/// key head.
///
/// The order in which keys are summed depends on a row's own keys and on `part` only, and parts without keys change
/// nothing.
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// `[rows, heads * head_dim]`. Rows without keys become zeros.
    pub out: Address,
    /// `[rows, heads, splits, head_dim + 2]` of f32, any content; none if `splits` is 1.
    pub partial: Address,
    /// Query heads, `q_stride` elements from row to row.
    pub q: Address,
    /// Key heads, `kv_stride` elements from row to row.
    pub k: Address,
    /// Value heads, as `k`.
    pub v: Address,
    /// `u32`, blocks of `1 << shift` rows of `k`; none if keys lie side by side.
    pub table: Address,
    /// `[rows, 3]` of `u32`: `begin, from, to`. The row's keys are `from .. to`; key `i` is row
    /// `(table[begin + (i >> shift)] << shift) + i % (1 << shift)`, without a table row `begin + i`.
    pub ranges: Address,
    /// Number of rows.
    pub rows: u32,
    /// Query heads, a multiple of `kv_heads`.
    pub heads: u32,
    /// Key heads, and as many value heads.
    pub kv_heads: u32,
    /// At most 256.
    pub head_dim: u32,
    /// Elements from one row's queries to the next one's.
    pub q_stride: u32,
    /// Elements from one row of keys to the next.
    pub kv_stride: u32,
    /// Logarithm of the rows of a block.
    pub shift: u32,
    /// Parts into which each row's keys are cut, for more blocks at work.
    pub splits: u32,
    /// Keys of a part; all of a row's are in `splits` parts.
    pub part: u32,
    /// Factor of the products, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
}

impl Attention {
    /// Parts worth making of the keys of rows with up to `keys` each, and the keys of a part. Up to 128 keys stay
    /// together: parts take a launch that puts them together, and [`Attend`](super::Attend) needs one part, so that a
    /// short context gets more blocks from fewer heads in each. For as few rows as are multiplied one by one a part is
    /// of one size, so that a row's sums do not depend on how many keys its neighbours have. With more, there are
    /// enough parts for two blocks per multiprocessor of a large device, none with fewer than 64 keys, at most 32.
    pub fn parts(rows: u32, kv_heads: u32, keys: u32) -> (u32, u32) {
        const BLOCKS: u32 = 256;
        const PART: u32 = 128;
        if rows <= FEW_ROWS || keys <= PART {
            return (keys.div_ceil(PART).max(1), PART);
        }
        let wanted = BLOCKS.div_ceil((rows * kv_heads).max(1));
        let splits = wanted.min(keys.div_ceil(64)).clamp(1, 32);
        (splits, keys.div_ceil(splits))
    }

    /// Bytes of `partial`.
    pub fn partial_bytes(rows: u32, heads: u32, head_dim: u32, splits: u32) -> usize {
        if splits == 1 {
            return 0;
        }
        rows as usize * heads as usize * splits as usize * (head_dim as usize + 2) * 4
    }

    /// One launch, and a second that puts the parts together if there are several.
    pub fn launches(&self, float: Float) -> (Launch, Option<Launch>) {
        debug_assert!(self.head_dim <= super::MAX_HEAD_DIM, "heads of {}", self.head_dim);
        let together = together(self);
        let lanes = lanes(self);
        let kernel = match together {
            4 => &ATTENTION_4,
            2 => &ATTENTION_2,
            _ => &ATTENTION_1,
        };
        let strides = self.head_dim | self.q_stride | self.kv_stride;
        let wide = wide(strides, &[self.q, self.k, self.v]);
        let grid = [self.rows, self.heads / together, self.splits];
        let mut attend = launch(
            of(kernel, float),
            grid,
            128,
            args![
                self.out,
                self.partial,
                self.q,
                self.k,
                self.v,
                self.table,
                self.ranges,
                self.heads,
                self.kv_heads,
                self.head_dim,
                self.q_stride,
                self.kv_stride,
                self.shift,
                self.splits,
                self.part,
                lanes,
                self.scale,
                wide,
            ],
        );
        attend.shared = SHARED;
        let merge = (self.splits > 1).then(|| {
            let args = args![self.out, self.partial, self.head_dim, self.splits];
            let grid = [self.rows * self.heads, 1, 1];
            let threads = super::threads(self.head_dim, 128);
            launch(of(&ATTENTION_MERGE, float), grid, threads, args)
        });
        (attend, merge)
    }
}

/// Query heads of a block: as many as still leave a block for nearly every multiprocessor of a large device. Every
/// block of a row reads all keys, from the L2 cache except for the first. Results are bit-identical.
pub(super) fn together(attention: &Attention) -> u32 {
    const BLOCKS: u32 = 128;
    let Attention {
        rows, heads, splits, ..
    } = *attention;
    let group = heads / attention.kv_heads;
    let enough = |together: &u32| rows * (heads / together) * splits >= BLOCKS;
    let possible = [4, 2]
        .into_iter()
        .filter(|together| group.is_multiple_of(*together));
    possible.into_iter().find(enough).unwrap_or(1)
}

/// Lanes that have a key together.
pub(super) fn lanes(attention: &Attention) -> u32 {
    attention.head_dim.div_ceil(8).next_power_of_two()
}

/// Bytes of shared memory: keys and values in flight, two stages of 64 bytes of each per thread. Each group of lanes
/// then stores a maximum, a sum and a weighted sum per head in the same memory: at most 20 KiB.
pub(super) const SHARED: u32 = 2 * 2 * 64 * 128;
