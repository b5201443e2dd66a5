//! Heads rotated, stored and attended in one launch: `kernels/attend.cu`.

use super::attention::{SHARED, lanes, together};
use super::{Attention, RotateAndStore, args, kernels, launch, of, wide};
use crate::launch::{Float, Launch};

kernels! { "attend":
    typed ATTEND_1 = "attend_1"("ppppppppppuuuuuuuuff") 128;
    typed ATTEND_2 = "attend_2"("ppppppppppuuuuuuuuff") 128;
    typed ATTEND_4 = "attend_4"("ppppppppppuuuuuuuuff") 128;
}

/// [`RotateAndStore`] followed by [`Attention`], bit-identical to the two. No row may see another row's new key (each
/// row is of its own sequence), and keys must not be split.
#[derive(Debug, Clone, Copy)]
pub struct Attend {
    /// Rows to store, in a cache whose rows are as wide as the key heads.
    pub rotate: RotateAndStore,
    /// Of the same rows, heads and cache, with one split.
    pub attention: Attention,
}

impl Attend {
    /// One launch.
    pub fn launch(&self, float: Float) -> Launch {
        let Self { rotate, attention } = self;
        debug_assert!(
            attention.splits == 1 && attention.q == rotate.qkv && attention.k == rotate.k,
            "another attention: {self:?}"
        );
        let together = together(attention);
        let kernel = match together {
            4 => &ATTEND_4,
            2 => &ATTEND_2,
            _ => &ATTEND_1,
        };
        let strides = attention.head_dim | attention.q_stride | attention.kv_stride;
        let wide = wide(strides, &[attention.q, attention.k, attention.v]);
        let mut launch = launch(
            of(kernel, float),
            [attention.rows, attention.heads / together, 1],
            128,
            args![
                attention.out,
                rotate.qkv,
                rotate.k,
                rotate.v,
                rotate.q_norm,
                rotate.k_norm,
                rotate.angles,
                rotate.slots,
                attention.table,
                attention.ranges,
                rotate.heads,
                rotate.kv_heads,
                rotate.head_dim,
                rotate.capacity,
                attention.kv_stride,
                attention.shift,
                lanes(attention),
                wide,
                rotate.eps,
                attention.scale,
            ],
        );
        launch.shared = SHARED;
        launch
    }
}
