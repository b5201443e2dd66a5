//! Weights in fewer bits: groups of 32 inputs of one output share a scale, and each weight is a small whole number of it.
//!
//! Quantisation happens once, when a matrix is packed. The product multiplies the whole numbers with the activations, sums up a
//! group, and applies the scale to that sum. Activations are f32, or of 16 bits with AVX2 and AVX512-VNNI.

use half::bf16;
use rayon::prelude::*;

use crate::backend::cpu::arena::Words;
use crate::backend::cpu::isa::Isa;

/// Inputs that share a scale.
pub(in crate::backend::cpu) const GROUP: usize = 32;

/// How a weight is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend::cpu) enum Bits {
    /// `-127 ..= 127`.
    Eight,
    /// `-8 ..= 7`.
    Four,
}

/// How the weights of a group follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Input by input: `[k][2 * lanes]` signed bytes, or words of eight signed inputs each, the first in the lowest bits.
    Inputs,
    /// Four inputs of a column are neighbours: `[k / 4][2 * lanes][4]` bytes, the weight plus 128 each, or of two such quads of 4 bits the
    /// first in the lower halves of `[k / 8][2 * lanes][4]` bytes and the second in the upper ones, the weight plus 8 each.
    Quads,
}

impl Bits {
    /// Words of one group of a panel: a word of two scales (bf16: column `j` in the lower half, column `j + lanes` in the
    /// upper one) per lane, then the weights.
    pub(in crate::backend::cpu) const fn group_words(self, lanes: usize) -> usize {
        lanes + self.weight_words(lanes)
    }

    /// The least and the most that a weight can be.
    const fn range(self) -> (f32, f32) {
        match self {
            Self::Eight => (-127.0, 127.0),
            Self::Four => (-8.0, 7.0),
        }
    }

    const fn weight_words(self, lanes: usize) -> usize {
        match self {
            Self::Eight => GROUP * 2 * lanes / 4,
            Self::Four => GROUP / 8 * 2 * lanes,
        }
    }
}

/// Packs rows `0 .. outputs` of `inputs` numbers each (`widen` writes one) into `count` panels of `2 * lanes` columns.
pub(super) fn pack(
    isa: Isa,
    (bits, order): (Bits, Order),
    (inputs, outputs): (usize, usize),
    count: usize,
    lanes: usize,
    widen: impl Fn(usize, &mut [f32]) + Sync,
) -> Words<u32> {
    let (columns, groups) = (2 * lanes, inputs / GROUP);
    let panel_words = groups * bits.group_words(lanes);
    let scratch = || {
        let each = columns * groups;
        (vec![0.0; inputs], vec![bf16::ZERO; each], vec![[0; GROUP]; each])
    };
    Words::written(count * panel_words, |data| {
        let panels = data.par_chunks_mut(panel_words.max(1)).enumerate();
        panels.for_each_init(scratch, |(row, scales, weights), (panel, data)| {
            scales.fill(bf16::ZERO);
            weights.fill([0; GROUP]);
            let each = scales.chunks_mut(groups).zip(weights.chunks_mut(groups));
            let first = panel * columns;
            for (n, (scales, weights)) in (first..outputs.min(first + columns)).zip(each) {
                widen(n, row);
                quantise(isa, bits, row.as_chunks().0, scales, weights);
            }
            for (group, words) in data.chunks_mut(bits.group_words(lanes)).enumerate() {
                let (packed_scales, packed) = words.split_at_mut(lanes);
                let scale = |column: usize| u32::from(scales[column * groups + group].to_bits());
                for (lane, word) in packed_scales.iter_mut().enumerate() {
                    *word = scale(lane) | scale(lane + lanes) << 16;
                }
                let of = |column: usize| &weights[column * groups + group];
                match order {
                    Order::Inputs => place(bits, packed, lanes, of),
                    Order::Quads => place_quads(bits, packed, lanes, of),
                }
            }
        });
    })
}

/// Writes the weights of a group in [`Order::Quads`], `of` giving those of a column.
fn place_quads<'a>(bits: Bits, words: &mut [u32], lanes: usize, of: impl Fn(usize) -> &'a [i8; GROUP]) {
    let unsigned = |weight: i8, shift: i8| weight.wrapping_add(shift).cast_unsigned();
    for column in 0..2 * lanes {
        let (weights, words) = (of(column), words[column..].iter_mut().step_by(2 * lanes));
        match bits {
            Bits::Eight => {
                for (word, quad) in words.zip(weights.as_chunks::<4>().0) {
                    *word = u32::from_le_bytes(quad.map(|weight| unsigned(weight, -128)));
                }
            }
            Bits::Four => {
                for (word, quads) in words.zip(weights.as_chunks::<8>().0) {
                    let byte = |i: usize| unsigned(quads[i], 8) | unsigned(quads[i + 4], 8) << 4;
                    *word = u32::from_le_bytes(std::array::from_fn(byte));
                }
            }
        }
    }
}

/// Writes the weights of a group in [`Order::Inputs`], `of` giving those of a column.
fn place<'a>(bits: Bits, words: &mut [u32], lanes: usize, of: impl Fn(usize) -> &'a [i8; GROUP]) {
    match bits {
        Bits::Eight => {
            for (k, words) in words.chunks_mut(2 * lanes / 4).enumerate() {
                for (four, word) in words.iter_mut().enumerate() {
                    let byte = |i| of(4 * four + i)[k].cast_unsigned();
                    *word = u32::from_ne_bytes(std::array::from_fn(byte));
                }
            }
        }
        Bits::Four => {
            for (eight, words) in words.chunks_mut(2 * lanes).enumerate() {
                for (column, word) in words.iter_mut().enumerate() {
                    let nibbles = of(column)[8 * eight..8 * eight + 8].iter().rev();
                    *word = nibbles.fold(0, |word, w| word << 4 | u32::from(w.cast_unsigned() & 15));
                }
            }
        }
    }
}

for_each_isa! {
    /// The scale of each group, and its weights as multiples of that.
    pub(super) fn quantise(
        bits: Bits,
        groups: &[[f32; GROUP]],
        scales: &mut [bf16],
        weights: &mut [[i8; GROUP]],
    ) = quantise_all;
}

#[inline(always)]
fn quantise_all<const FUSED: bool>(
    bits: Bits,
    groups: &[[f32; GROUP]],
    scales: &mut [bf16],
    weights: &mut [[i8; GROUP]],
) {
    for ((values, scale), weights) in groups.iter().zip(scales).zip(weights) {
        let (least, most) = bits.range();
        let broken = values.iter().fold(false, |broken, v| broken | v.is_nan());
        *scale = match bits {
            // A whole number cannot say it, and what is computed must not look sound.
            _ if broken => bf16::NAN,
            Bits::Eight => bf16::from_f32(size(values) / most),
            Bits::Four => search_scale(values),
        };
        // A scale of zero has zeros only: the inverse must stay finite.
        let inverse = if *scale == bf16::ZERO {
            0.0
        } else {
            1.0 / scale.to_f32()
        };
        for (weight, v) in weights.iter_mut().zip(values) {
            // The scale was rounded, perhaps down.
            *weight = nearest((v * inverse).max(least).min(most)) as i8;
        }
    }
}

/// `x` to the nearest whole number, for `|x| < 2^22`.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0;
    (x + SHIFT) - SHIFT
}

/// How far from zero the farthest value is.
#[inline(always)]
fn size(values: &[f32; GROUP]) -> f32 {
    let mut most = [0.0_f32; LANES];
    for values in values.as_chunks::<LANES>().0 {
        for (most, v) in most.iter_mut().zip(values) {
            *most = if v.abs() > *most { v.abs() } else { *most };
        }
    }
    most.into_iter()
        .fold(0.0, |most, v| if v > most { v } else { most })
}

const LANES: usize = 16;

/// The scale for four bits with the least squared error of several: the one that takes the largest value to -8, and some around it.
#[inline(always)]
fn search_scale(values: &[f32; GROUP]) -> bf16 {
    let size = size(values);
    let farthest = values.iter().find(|v| v.abs() >= size);
    let Some(farthest) = farthest.filter(|v| **v != 0.0) else {
        return bf16::ZERO;
    };
    // One candidate a lane.
    let inverse: [f32; LANES] = std::array::from_fn(|i| -(8.0 + 0.1 * (i as f32 - 8.0)) / farthest);
    let (mut wq, mut qq) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    for v in values {
        for i in 0..LANES {
            let q = nearest((v * inverse[i]).clamp(-8.0, 7.0));
            wq[i] += v * q;
            qq[i] += q * q;
        }
    }
    let (mut best, mut scale) = (0.0_f32, -farthest / 8.0);
    for (wq, qq) in wq.into_iter().zip(qq) {
        // With the best scale for these whole numbers, `wq / qq`, the squared error is less by this much than that of zeros.
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

    fn one(bits: Bits, values: &[f32; GROUP]) -> (bf16, [i8; GROUP]) {
        let (mut scale, mut weights) = ([bf16::ZERO], [[0; GROUP]]);
        quantise(Isa::best(), bits, &[*values], &mut scale, &mut weights);
        (scale[0], weights[0])
    }

    fn error(values: &[f32; GROUP], scale: bf16, weights: [i8; GROUP]) -> f32 {
        let pairs = values.iter().zip(weights);
        let square = |(v, w): (&f32, i8)| (v - f32::from(w) * scale.to_f32()).powi(2);
        pairs.map(square).sum::<f32>().sqrt() / values.iter().map(|v| v * v).sum::<f32>().sqrt()
    }

    #[test]
    fn weights_come_back_within_what_their_bits_allow() {
        for seed in 0..50 {
            let values = values(seed);
            let (scale, weights) = one(Bits::Eight, &values);
            let eight = error(&values, scale, weights);
            let (scale, weights) = one(Bits::Four, &values);
            let four = error(&values, scale, weights);
            assert!(
                eight < 0.01 && four < 0.15 && eight < four,
                "{seed}: {eight} {four}"
            );
        }
    }

    #[test]
    fn the_search_for_a_scale_is_never_worse_than_the_first_one() {
        for seed in 0..50 {
            let values = values(seed);
            let most = values
                .iter()
                .fold(0.0_f32, |m, v| if v.abs() > m.abs() { *v } else { m });
            let plain = bf16::from_f32(-most / 8.0);
            let weights = values.map(|v| nearest((v / plain.to_f32()).clamp(-8.0, 7.0)) as i8);
            let (scale, found) = one(Bits::Four, &values);
            assert!(
                error(&values, scale, found) <= error(&values, plain, weights) * 1.01,
                "{seed}"
            );
        }
    }

    #[test]
    fn a_weight_that_is_no_number_or_infinite_makes_every_product_with_it_no_number() {
        for bits in [Bits::Eight, Bits::Four] {
            for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut values = values(1);
                values[7] = broken;
                let (scale, weights) = one(bits, &values);
                let product: f32 = weights.iter().map(|w| f32::from(*w)).sum::<f32>() * scale.to_f32();
                assert!(!product.is_finite(), "{bits:?} {broken}: {product}");
            }
        }
    }

    #[test]
    fn zeros_stay_zeros_and_extremes_stay_in_range() {
        for bits in [Bits::Eight, Bits::Four] {
            assert_eq!(one(bits, &[0.0; GROUP]), (bf16::ZERO, [0; GROUP]));
            for value in [1e-30, 1.0, -1.0, 1e30] {
                let mut values = [0.0; GROUP];
                values[5] = value;
                let (scale, weights) = one(bits, &values);
                let back = f32::from(weights[5]) * scale.to_f32();
                assert!((back / value - 1.0).abs() < 0.01, "{bits:?} {value} {back}");
            }
        }
    }
}
