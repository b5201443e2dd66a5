//! Weights in fewer bits: groups of 32 inputs of one output share a scale, and each weight is a small whole number of
//! it.
//!
//! Quantisation happens once, when a matrix is packed. The product multiplies the whole numbers with the activations,
//! sums up a group, and applies the scale to that sum. Activations are f32, or of 16 bits with AVX2 and AVX512-VNNI.

pub(super) mod scale;

use half::bf16;
use rayon::prelude::*;

use crate::cpu::arena::Words;
use crate::cpu::isa::Isa;

/// Inputs that share a scale.
pub(in crate::cpu) const GROUP: usize = 32;

/// Bits of a quantised weight, with its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Bits {
    /// `-127 ..= 127`.
    Eight,
    /// `-8 ..= 7`.
    Four,
}

/// Order of the weights in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Input by input: `[k][2 * lanes]` signed bytes, or words of eight signed inputs each, the first in the lowest
    /// bits.
    Inputs,
    /// Four inputs of a column are neighbours: `[k / 4][2 * lanes][4]` bytes, the weight plus 128 each, or of two such
    /// quads of 4 bits the first in the lower halves of `[k / 8][2 * lanes][4]` bytes and the second in the upper
    /// ones, the weight plus 8 each.
    Quads,
}

impl Bits {
    /// Words of one group of a panel: a word of two scales (bf16: column `j` in the lower half, column `j + lanes` in
    /// the upper one) per lane, then the weights.
    pub(in crate::cpu) const fn group_words(self, lanes: usize) -> usize {
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
    let columns = 2 * lanes;
    let groups = inputs / GROUP;
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
                scale::quantise(isa, bits, row.as_chunks().0, scales, weights);
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

/// Writes the weights of a group in [`Order::Quads`], `of` giving those of a column in two's complement.
fn place_quads<'a>(bits: Bits, words: &mut [u32], lanes: usize, of: impl Fn(usize) -> &'a [u8; GROUP]) {
    for column in 0..2 * lanes {
        let weights = of(column);
        let words = words[column..].iter_mut().step_by(2 * lanes);
        // All bytes at once: adding half the range to a byte in two's complement is turning its highest bit.
        match bits {
            Bits::Eight => {
                for (word, quad) in words.zip(weights.as_chunks::<4>().0) {
                    *word = u32::from_le_bytes(*quad) ^ 0x8080_8080;
                }
            }
            Bits::Four => {
                for (word, quads) in words.zip(weights.as_chunks::<8>().0) {
                    let both = (u64::from_le_bytes(*quads) ^ FOUR_BIT_SIGNS) & FOUR_BITS;
                    *word = both as u32 | ((both >> 32) as u32) << 4;
                }
            }
        }
    }
}

/// The lower half of each of eight bytes.
const FOUR_BITS: u64 = 0x0f0f_0f0f_0f0f_0f0f;
/// The highest bit of each of them.
const FOUR_BIT_SIGNS: u64 = 0x0808_0808_0808_0808;

/// Writes the weights of a group in [`Order::Inputs`], `of` giving those of a column in two's complement.
fn place<'a>(bits: Bits, words: &mut [u32], lanes: usize, of: impl Fn(usize) -> &'a [u8; GROUP]) {
    match bits {
        Bits::Eight => {
            for (k, words) in words.chunks_mut(2 * lanes / 4).enumerate() {
                for (four, word) in words.iter_mut().enumerate() {
                    let byte = |i| of(4 * four + i)[k];
                    *word = u32::from_ne_bytes(std::array::from_fn(byte));
                }
            }
        }
        Bits::Four => {
            for (eight, words) in words.chunks_mut(2 * lanes).enumerate() {
                for (column, word) in words.iter_mut().enumerate() {
                    let nibbles = of(column)[8 * eight..8 * eight + 8].iter().rev();
                    *word = nibbles.fold(0, |word, w| word << 4 | u32::from(w & 15));
                }
            }
        }
    }
}
