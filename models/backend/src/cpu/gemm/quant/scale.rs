//! The scale of a group of weights, and its weights as multiples of that.
//!
//! A weight in the middle between two multiples is rounded as the machine multiplies and adds, in one instruction or
//! in two.

use half::bf16;

#[cfg(target_arch = "x86_64")]
use super::super::simd::{Avx2, Avx512};
use super::super::simd::{Portable, Simd};
use super::{Bits, GROUP};
use crate::cpu::isa::Isa;

/// Whole numbers below 2^22 are added to it exactly, and are the lowest bits of the sum.
const SHIFT: f32 = 12_582_912.0;

/// The scale of each group, and its weights in two's complement.
pub(in crate::cpu::gemm) fn quantise(
    isa: Isa,
    bits: Bits,
    groups: &[[f32; GROUP]],
    scales: &mut [bf16],
    weights: &mut [[u8; GROUP]],
) {
    match isa {
        // SAFETY: `Isa::best` gives this value only where these instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512(bits, groups, scales, weights) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2(bits, groups, scales, weights) },
        // SAFETY: every machine has the instructions.
        _ => unsafe { all::<Portable>(bits, groups, scales, weights) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
fn avx512(bits: Bits, groups: &[[f32; GROUP]], scales: &mut [bf16], weights: &mut [[u8; GROUP]]) {
    // SAFETY: this function is compiled for the instructions.
    unsafe { all::<Avx512>(bits, groups, scales, weights) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2(bits: Bits, groups: &[[f32; GROUP]], scales: &mut [bf16], weights: &mut [[u8; GROUP]]) {
    // SAFETY: this function is compiled for the instructions.
    unsafe { all::<Avx2>(bits, groups, scales, weights) };
}

/// # Safety
/// The machine must have the instructions of `S`.
#[inline(always)]
unsafe fn all<S: Simd>(
    bits: Bits,
    groups: &[[f32; GROUP]],
    scales: &mut [bf16],
    weights: &mut [[u8; GROUP]],
) {
    for ((values, scale), weights) in groups.iter().zip(scales).zip(weights) {
        let farthest = farthest(values);
        // SAFETY: the caller's promise.
        unsafe {
            *scale = match bits {
                // An integer cannot hold NaN: the scale carries it, so that the result is NaN, too.
                _ if farthest.is_nan() => bf16::NAN,
                Bits::Eight => bf16::from_f32(farthest.abs() / bits.range().1),
                Bits::Four => search::<S>(values, farthest),
            };
            // The scale was rounded, perhaps down: the range is kept after that.
            multiples::<S>(values, *scale, bits.range(), weights);
        }
    }
}

/// The value that is farthest from zero; one that is no number, if there is one.
///
/// As whole numbers the bits of positive values are in the order of the values, which takes no comparison of floats.
#[inline(always)]
fn farthest(values: &[f32; GROUP]) -> f32 {
    const SIGN: u32 = 1 << 31;
    let mut positive = 0;
    let mut negative = 0;
    for value in values {
        positive = positive.max(value.to_bits().cast_signed());
        negative = negative.max((value.to_bits() ^ SIGN).cast_signed());
    }
    if positive >= negative {
        f32::from_bits(positive.cast_unsigned())
    } else {
        f32::from_bits(negative.cast_unsigned() ^ SIGN)
    }
}

/// Writes `values / scale` to the nearest whole numbers of the range.
///
/// # Safety
/// The machine must have the instructions of `S`.
#[inline(always)]
unsafe fn multiples<S: Simd>(
    values: &[f32; GROUP],
    scale: bf16,
    (least, most): (f32, f32),
    weights: &mut [u8; GROUP],
) {
    // A scale of zero has zeros only: the inverse must stay finite.
    let inverse = if scale == bf16::ZERO {
        0.0
    } else {
        1.0 / scale.to_f32()
    };
    let mut shifted = [0.0; GROUP];
    // SAFETY: the caller's promise; a group is whole vectors.
    unsafe {
        let inverse = S::splat(inverse);
        let least = S::splat(SHIFT + least);
        let most = S::splat(SHIFT + most);
        for at in (0..GROUP).step_by(S::LANES) {
            let x = S::fma(S::load(values.as_ptr().add(at)), inverse, S::splat(SHIFT));
            S::store(shifted.as_mut_ptr().add(at), S::clamp(x, least, most));
        }
    }
    for (weight, shifted) in weights.iter_mut().zip(shifted) {
        *weight = shifted.to_bits() as u8;
    }
}

/// Scales that are tried.
const TRIED: usize = 16;

/// Factors that map a largest value of 1 to -8, and to some values around it.
const FACTORS: [f32; TRIED] = {
    let mut factors = [0.0; TRIED];
    let mut i = 0;
    while i < TRIED {
        factors[i] = -(8.0 + 0.1 * (i as f32 - 8.0));
        i += 1;
    }
    factors
};

/// The scale for four bits with the least squared error of several, `farthest` being the value that is farthest from
/// zero.
///
/// # Safety
/// The machine must have the instructions of `S`.
#[inline(always)]
unsafe fn search<S: Simd>(values: &[f32; GROUP], farthest: f32) -> bf16 {
    if farthest == 0.0 {
        return bf16::ZERO;
    }
    let mut wq = [0.0; TRIED];
    let mut qq = [0.0; TRIED];
    // SAFETY: the caller's promise; the scales that are tried are whole vectors.
    unsafe {
        let least = S::splat(SHIFT - 8.0);
        let most = S::splat(SHIFT + 7.0);
        // One scale a lane.
        for at in (0..TRIED).step_by(S::LANES) {
            let zero = S::splat(0.0);
            let inverse = S::fma(S::load(FACTORS.as_ptr().add(at)), S::splat(1.0 / farthest), zero);
            let mut sums = [[zero; 2]; 2];
            for two in values.as_chunks::<2>().0 {
                // Two sums each: one chain would wait for itself.
                for (v, [wq, qq]) in two.iter().zip(&mut sums) {
                    let v = S::splat(*v);
                    let x = S::clamp(S::fma(v, inverse, S::splat(SHIFT)), least, most);
                    let q = S::fma(x, S::splat(1.0), S::splat(-SHIFT));
                    *wq = S::fma(v, q, *wq);
                    *qq = S::fma(q, q, *qq);
                }
            }
            let both = |i: usize| S::fma(sums[0][i], S::splat(1.0), sums[1][i]);
            S::store(wq.as_mut_ptr().add(at), both(0));
            S::store(qq.as_mut_ptr().add(at), both(1));
        }
    }
    let mut best = 0.0;
    let mut scale = -farthest / 8.0;
    for (wq, qq) in wq.into_iter().zip(qq) {
        // With the best scale for these whole numbers, `wq / qq`, the squared error is less by this much than that of
        // zeros.
        let gain = wq * (wq / qq);
        if gain > best {
            best = gain;
            scale = wq / qq;
        }
    }
    bf16::from_f32(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(seed: usize) -> [f32; GROUP] {
        std::array::from_fn(|i| (((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0).powi(3))
    }

    fn one(isa: Isa, bits: Bits, values: &[f32; GROUP]) -> (bf16, [u8; GROUP]) {
        let mut scale = [bf16::ZERO];
        let mut weights = [[0; GROUP]];
        quantise(isa, bits, &[*values], &mut scale, &mut weights);
        (scale[0], weights[0])
    }

    /// All that the machine has, and fifty groups.
    fn cases() -> impl Iterator<Item = (Isa, usize)> {
        let isas = Isa::available().into_iter();
        isas.flat_map(|isa| (0..50).map(move |seed| (isa, seed)))
    }

    fn formats() -> impl Iterator<Item = (Isa, Bits)> {
        let isas = Isa::available().into_iter();
        isas.flat_map(|isa| [(isa, Bits::Eight), (isa, Bits::Four)])
    }

    fn signed(weight: u8) -> f32 {
        f32::from(weight.cast_signed())
    }

    fn error(values: &[f32; GROUP], scale: bf16, weights: [u8; GROUP]) -> f32 {
        let pairs = values.iter().zip(weights);
        let square = |(v, w): (&f32, u8)| (v - signed(w) * scale.to_f32()).powi(2);
        pairs.map(square).sum::<f32>().sqrt() / values.iter().map(|v| v * v).sum::<f32>().sqrt()
    }

    #[test]
    fn weights_come_back_within_what_their_bits_allow() {
        for (isa, seed) in cases() {
            let values = values(seed);
            let (scale, weights) = one(isa, Bits::Eight, &values);
            let eight = error(&values, scale, weights);
            let (scale, weights) = one(isa, Bits::Four, &values);
            let four = error(&values, scale, weights);
            assert!(
                eight < 0.01 && four < 0.15 && eight < four,
                "{seed}: {eight} {four}"
            );
        }
    }

    #[test]
    fn the_search_for_a_scale_is_never_worse_than_the_first_one() {
        for (isa, seed) in cases() {
            let values = values(seed);
            let most = values
                .iter()
                .fold(0.0_f32, |m, v| if v.abs() > m.abs() { *v } else { m });
            let plain = bf16::from_f32(-most / 8.0);
            let weights = values.map(|v| (v / plain.to_f32()).round().clamp(-8.0, 7.0) as i8 as u8);
            let (scale, found) = one(isa, Bits::Four, &values);
            assert!(
                error(&values, scale, found) <= error(&values, plain, weights) * 1.01,
                "{seed}"
            );
        }
    }

    #[test]
    fn a_weight_that_is_no_number_or_infinite_makes_every_product_with_it_no_number() {
        for (isa, bits) in formats() {
            for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut values = values(1);
                values[7] = broken;
                let (scale, weights) = one(isa, bits, &values);
                let product: f32 = weights.iter().map(|w| signed(*w)).sum::<f32>() * scale.to_f32();
                assert!(!product.is_finite(), "{bits:?} {broken}: {product}");
            }
        }
    }

    #[test]
    fn zeros_stay_zeros_and_extremes_stay_in_range() {
        for (isa, bits) in formats() {
            assert_eq!(one(isa, bits, &[0.0; GROUP]), (bf16::ZERO, [0; GROUP]));
            for value in [1e-30, 1.0, -1.0, 1e30] {
                let mut values = [0.0; GROUP];
                values[5] = value;
                let (scale, weights) = one(isa, bits, &values);
                let back = signed(weights[5]) * scale.to_f32();
                assert!((back / value - 1.0).abs() < 0.01, "{bits:?} {value} {back}");
            }
        }
    }
}
