//! Values that are made where they are needed instead of being stored: all alike, or random.

use half::bf16;

use crate::philox::philox;

/// Values of a generated tensor. All are numbers that bf16 has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Recipe {
    /// This number everywhere.
    Constant(f32),
    /// Random ones.
    Uniform(Uniform),
}

/// Uniform numbers of mean 0 and variance `gain^2 / inputs`.
///
/// Element `i` is `(2 h + 1 - 2^16) * step`, rounded to bf16, `h` being the `i mod 8`-th half word of
/// Philox-4x32-10 of counter `(i / 8, tensor, 0)` and key `seed`, words and halves from the lowest on. A GPU makes the
/// same numbers (`kernels/random.cu`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uniform {
    pub seed: u64,
    /// Number of the tensor: tensors with different numbers have unrelated values.
    pub tensor: u64,
    /// Standard deviation of a sum over the inputs, if those have mean 0 and variance 1.
    pub gain: f32,
    /// Numbers that one output is the sum of.
    pub inputs: usize,
}

/// Elements that one draw gives.
const DRAWN: usize = 8;
/// Values that a half word has.
const HALF: f32 = 65_536.0;

impl Uniform {
    /// Half the distance between neighbouring values. (A uniform number from -a to a has variance `a^2 / 3`.)
    pub fn step(&self) -> f32 {
        self.gain * (3.0 / self.inputs as f32).sqrt() / HALF
    }

    /// Elements `8 * block .. 8 * block + 8`.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a number")]
    fn draw(&self, block: u32, step: f32) -> [bf16; DRAWN] {
        let tensor = self.tensor;
        let seed = self.seed;
        let counter = [block, tensor as u32, (tensor >> 32) as u32, 0];
        let words = philox(counter, [seed as u32, (seed >> 32) as u32]);
        std::array::from_fn(|i| {
            let half = words[i / 2] >> (16 * (i % 2)) & 0xffff;
            // A whole number of 17 bits, so that there is one rounding to f32 and one to bf16.
            bf16::from_f32((2.0 * half as f32 + 1.0 - HALF) * step)
        })
    }

    fn each(&self, from: usize, count: usize) -> impl Iterator<Item = bf16> {
        let this = *self;
        let step = self.step();
        let first = from / DRAWN;
        let blocks = first..(from + count).div_ceil(DRAWN);
        let drawn = blocks.flat_map(move |block| this.draw(u32::try_from(block).unwrap_or(u32::MAX), step));
        drawn.skip(from - first * DRAWN).take(count)
    }
}

impl Recipe {
    /// Appends elements `from .. from + count`.
    pub(super) fn widen(&self, from: usize, count: usize, out: &mut Vec<f32>) {
        match self {
            Self::Constant(value) => out.resize(out.len() + count, *value),
            Self::Uniform(uniform) => out.extend(uniform.each(from, count).map(bf16::to_f32)),
        }
    }

    /// The first `count` elements as they would be stored.
    pub fn bytes(&self, count: usize) -> Vec<u8> {
        match self {
            Self::Constant(value) => bf16::from_f32(*value).to_le_bytes().repeat(count),
            Self::Uniform(uniform) => {
                let mut bytes = Vec::with_capacity(2 * count.next_multiple_of(DRAWN));
                let step = uniform.step();
                for block in 0..count.div_ceil(DRAWN) {
                    let drawn = uniform.draw(u32::try_from(block).unwrap_or(u32::MAX), step);
                    bytes.extend(drawn.map(bf16::to_le_bytes).as_flattened());
                }
                bytes.truncate(2 * count);
                bytes
            }
        }
    }

    /// As above for outputs that sum `inputs` products.
    pub(super) fn with_inputs(self, inputs: usize) -> Self {
        match self {
            Self::Constant(_) => self,
            Self::Uniform(uniform) => Self::Uniform(Uniform { inputs, ..uniform }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uniform(seed: u64, tensor: u64) -> Recipe {
        Recipe::Uniform(Uniform {
            seed,
            tensor,
            gain: 2.0,
            inputs: 64,
        })
    }

    fn values(recipe: Recipe, from: usize, count: usize) -> Vec<f32> {
        let mut values = Vec::new();
        recipe.widen(from, count, &mut values);
        values
    }

    #[test]
    fn values_have_the_spread_that_was_asked_for() {
        let values = values(uniform(1, 2), 0, 40_000);
        let mean = |f: fn(f32) -> f32| values.iter().map(|&v| f64::from(f(v))).sum::<f64>() / 40_000.0;
        assert!(mean(|v| v).abs() < 0.005, "mean {}", mean(|v| v));
        let variance = mean(|v| v * v);
        assert!((variance * 64.0 / 4.0 - 1.0).abs() < 0.03, "variance {variance}");
        let most = 2.0 * (3.0_f32 / 64.0).sqrt();
        assert!(values.iter().all(|v| v.abs() <= most * 1.004 && *v != 0.0));
    }

    #[test]
    fn seed_and_tensor_and_nothing_else_decide() {
        let first = values(uniform(1, 2), 0, 1000);
        assert_eq!(first, values(uniform(1, 2), 0, 1000));
        let same = |other: Recipe| {
            let other = values(other, 0, 1000);
            first.iter().zip(other).filter(|(a, b)| **a == *b).count()
        };
        // Two of some hundred values are equal now and then.
        for (seed, tensor) in [(0, 2), (1, 3), (1 + (1 << 32), 2), (1, 2 + (1 << 32))] {
            assert!(same(uniform(seed, tensor)) < 50, "seed {seed}, tensor {tensor}");
        }
    }

    #[test]
    fn any_part_is_what_it_is_in_the_whole() {
        let whole = values(uniform(5, 6), 0, 100);
        for (from, count) in [(0, 1), (7, 2), (8, 16), (13, 87), (99, 1), (40, 0)] {
            assert_eq!(values(uniform(5, 6), from, count), whole[from..from + count]);
        }
        for recipe in [uniform(5, 6), Recipe::Constant(1.0)] {
            let stored = recipe.bytes(99);
            let stored = stored
                .as_chunks()
                .0
                .iter()
                .map(|b| bf16::from_le_bytes(*b).to_f32());
            assert_eq!(stored.collect::<Vec<_>>(), values(recipe, 0, 99));
        }
    }
}
