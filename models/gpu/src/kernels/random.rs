//! Random numbers: `kernels/random.cu`.

use super::{args, kernels, launch, of, wide};
use crate::launch::{Address, Float, Launch};

kernels! { "random":
    typed UNIFORM = "uniform_numbers"("puuuuufu") 256;
}

/// Uniform numbers around 0, each a function of seed, tensor and its own index.
///
/// Element `i` is `(2 h + 1 - 2^16) * step` rounded to bf16, in both float types, `h` being the `i mod 8`-th half word
/// of Philox-4x32-10 of counter `(i / 8, tensor, 0)` and key `seed`, words and halves from the lowest on.
#[derive(Debug, Clone, Copy)]
pub struct Uniform {
    /// `[count]`.
    pub out: Address,
    /// Elements.
    pub count: u32,
    /// Key of all draws.
    pub seed: u64,
    /// Two tensors with different numbers have nothing in common.
    pub tensor: u64,
    /// Half the distance between two neighbouring values.
    pub step: f32,
}

/// Blocks of 256 threads that keep any device busy.
const MOST_BLOCKS: u32 = 4096;

impl Uniform {
    /// Eight elements or more per thread.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a number")]
    pub fn launch(&self, float: Float) -> Launch {
        let wide = wide(self.count, &[self.out]);
        let args = args![
            self.out,
            self.count,
            self.seed as u32,
            (self.seed >> 32) as u32,
            self.tensor as u32,
            (self.tensor >> 32) as u32,
            self.step,
            wide,
        ];
        let blocks = self.count.div_ceil(256 * 8).min(MOST_BLOCKS);
        launch(of(&UNIFORM, float), [blocks, 1, 1], 256, args)
    }
}
