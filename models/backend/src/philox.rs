//! Counter-based random numbers: the n-th number is a function of key and counter alone. A request's draws do not
//! depend on its batch, nor a random weight on where and when it is generated.
//!
//! Philox-4x32-10 of Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Four words of 32 random bits.
pub(crate) fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let (hi0, lo0) = wide_multiply(MULTIPLIERS[0], counter[0]);
        let (hi1, lo1) = wide_multiply(MULTIPLIERS[1], counter[2]);
        counter = [hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the two halves of a 64-bit product"
)]
fn wide_multiply(a: u32, b: u32) -> (u32, u32) {
    let product = u64::from(a) * u64::from(b);
    ((product >> 32) as u32, product as u32)
}

/// A number in [0, 1) with 24 random bits.
#[expect(clippy::cast_possible_truncation, reason = "the two halves of the seed")]
#[expect(clippy::cast_precision_loss, reason = "24 bits fit an f32 exactly")]
pub(crate) fn uniform(seed: u64, step: u32, group: u32) -> f32 {
    let bits = philox([step, group, 0, 0], [seed as u32, (seed >> 32) as u32])[0];
    (bits >> 8) as f32 / (1 << 24) as f32
}

/// Two independent numbers of the standard normal distribution, of key `seed` and counter `(at, group)`.
#[expect(clippy::cast_possible_truncation, reason = "the two halves of a number")]
#[expect(clippy::cast_precision_loss, reason = "24 bits fit an f32 exactly")]
pub fn normal_pair(seed: u64, at: u64, group: u32) -> [f32; 2] {
    let counter = [at as u32, (at >> 32) as u32, group, 1];
    let words = philox(counter, [seed as u32, (seed >> 32) as u32]);
    // In (0, 1], so that the logarithm is finite.
    let uniform = |word: u32| ((word >> 8) + 1) as f32 / (1 << 24) as f32;
    let radius = (-2.0 * uniform(words[0]).ln()).sqrt();
    let (sin, cos) = (std::f32::consts::TAU * uniform(words[1])).sin_cos();
    [radius * cos, radius * sin]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_known_answers() {
        assert_eq!(
            philox([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }

    #[test]
    fn pairs_are_standard_normal_and_depend_on_seed_place_and_group_alone() {
        let pairs: Vec<[f32; 2]> = (0..20_000).map(|at| normal_pair(3, at, 1)).collect();
        let mean = |f: fn(&[f32; 2]) -> f32| pairs.iter().map(|p| f64::from(f(p))).sum::<f64>() / 20_000.0;
        for (found, expected) in [
            (mean(|p| p[0]), 0.0),
            (mean(|p| p[1]), 0.0),
            (mean(|p| p[0] * p[0]), 1.0),
            (mean(|p| p[1] * p[1]), 1.0),
            (mean(|p| p[0] * p[1]), 0.0),
        ] {
            assert!((found - expected).abs() < 0.04, "{found}, expected {expected}");
        }
        assert_eq!(normal_pair(3, 7, 1), pairs[7]);
        assert!(
            [(4, 7, 1), (3, 8, 1), (3, 7, 2), (3, 7 + (1 << 32), 1)]
                .into_iter()
                .all(|(seed, at, group)| normal_pair(seed, at, group) != pairs[7])
        );
    }
}
