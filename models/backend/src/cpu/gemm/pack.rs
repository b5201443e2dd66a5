//! The matrix as the inner loop wants it.

use std::borrow::Cow;

use half::{bf16, f16};
use rayon::prelude::*;

use super::quant::{self, Bits, Order};
use crate::cpu::arena::{Word, Words};
use crate::cpu::isa::Isa;
use crate::host::{DType, HostTensor};
use crate::weights::Weights;

/// Panels of two vectors' columns.
pub(super) enum Panels {
    /// `[panel][k][2 * lanes]`.
    F32(Words<f32>),
    /// `[panel][k][lanes]`: in each word the column `j` in the lower half, column `j + lanes` in the upper one.
    Bf16(Words<u32>),
    /// `[panel][k / 2][2 * lanes]`: in each word two neighbouring inputs of a column as bf16, the first in the lower
    /// half. Rows of `x` are rounded to bf16 for it.
    Pairs(Words<u32>),
    /// As above for AMX tiles, see `amx`.
    Amx(Words<u32>),
    /// `[panel][group][...]`, see `int16`. Rows of `x` are rounded to 14 bits for it.
    Int16(Words<u32>),
    /// `[panel][group][...]`, see [`quant`].
    Quantised(Bits, Words<u32>),
    /// As above for integer products; rows of `x` are rounded to 16 bits for them.
    Bytes(Bits, Words<u32>),
}

/// `[outputs, inputs]` with a bias, packed for one instruction set.
pub struct Matrix {
    /// Lanes of the vectors it is packed for, which set the layout.
    lanes: usize,
    inputs: usize,
    outputs: usize,
    panels: Panels,
    count: usize,
    /// The last columns, if they fit in one vector: `[k][lanes]`; else empty.
    tail: Vec<f32>,
    /// One number per packed column.
    bias: Vec<f32>,
}

/// Lanes of the vectors that the kernels of `isa` use.
pub(super) fn lanes(isa: Isa) -> usize {
    if isa == Isa::Avx512 { 16 } else { 8 }
}

/// The stacked rows of several tensors.
struct Source<'a> {
    parts: Vec<Part<'a>>,
    inputs: usize,
}

struct Part<'a> {
    rows: usize,
    dtype: &'a DType,
    bytes: Cow<'a, [u8]>,
}

impl<'a> Part<'a> {
    fn of(tensor: &'a HostTensor) -> Self {
        Self {
            rows: tensor.shape[0],
            dtype: &tensor.dtype,
            bytes: tensor.bytes(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Layout {
    F32,
    Bf16,
    Pairs,
    Amx,
    Int16,
    Quantised(Bits),
    Bytes(Bits),
}

impl Source<'_> {
    /// Layout of the panels. Quantisation needs whole groups of inputs; narrower matrices stay as they are.
    fn layout(&self, isa: Isa, weights: Weights) -> Layout {
        let is_bf16 = self.parts.iter().all(|p| *p.dtype == DType::Bf16);
        let quantised = |bits| {
            if isa.multiplies_bytes() {
                Layout::Bytes(bits)
            } else {
                Layout::Quantised(bits)
            }
        };
        match weights {
            Weights::Int8 if self.inputs.is_multiple_of(quant::GROUP) => quantised(Bits::Eight),
            Weights::Int4 if self.inputs.is_multiple_of(quant::GROUP) => quantised(Bits::Four),
            // Inputs of a convolution are those of its taps, one after another. No pair may be of two taps: of as many
            // inputs each has an even number.
            Weights::RoundedProducts if isa.has_amx() && self.inputs.is_multiple_of(quant::GROUP) => {
                Layout::Amx
            }
            Weights::RoundedProducts
                if isa.multiplies_pairs_fast() && self.inputs.is_multiple_of(quant::GROUP) =>
            {
                Layout::Pairs
            }
            Weights::RoundedProducts
                if isa.multiplies_int16() && self.inputs.is_multiple_of(quant::GROUP) =>
            {
                Layout::Int16
            }
            Weights::F32 => Layout::F32,
            Weights::Bf16 => Layout::Bf16,
            _ if is_bf16 => Layout::Bf16,
            _ => Layout::F32,
        }
    }

    /// The bytes of row `n` and their type.
    fn row(&self, mut n: usize) -> (&[u8], &DType) {
        for part in &self.parts {
            if n < part.rows {
                let size = part.bytes.len() / part.rows;
                return (&part.bytes[n * size..(n + 1) * size], part.dtype);
            }
            n -= part.rows;
        }
        unreachable!("rows are counted over the same parts")
    }

    /// Row `n` widened, into `out[k * stride]`.
    fn widen(&self, n: usize, out: &mut [f32], stride: usize) {
        let (bytes, dtype) = self.row(n);
        let out = out.iter_mut().step_by(stride);
        match dtype {
            DType::Bf16 => out
                .zip(bytes.as_chunks().0)
                .for_each(|(o, b)| *o = bf16::from_le_bytes(*b).to_f32()),
            DType::F16 => out
                .zip(bytes.as_chunks().0)
                .for_each(|(o, b)| *o = f16::from_le_bytes(*b).to_f32()),
            _ => out
                .zip(bytes.as_chunks().0)
                .for_each(|(o, b)| *o = f32::from_le_bytes(*b)),
        }
    }
}

impl Matrix {
    /// Stacks `parts` (`[out_i, inputs]` each) and packs them.
    pub(in crate::cpu) fn pack(
        isa: Isa,
        weights: Weights,
        parts: &[HostTensor],
        bias: Option<&[f32]>,
    ) -> Self {
        let source = Source {
            parts: parts.iter().map(Part::of).collect(),
            inputs: parts[0].shape[1],
        };
        let layout = source.layout(isa, weights);
        Self::laid_out(isa, layout, &source, bias)
    }

    /// As [`Matrix::pack`], in a layout that need not be the best.
    #[cfg(test)]
    pub(super) fn pack_as(isa: Isa, layout: Layout, parts: &[HostTensor], bias: Option<&[f32]>) -> Self {
        let source = Source {
            parts: parts.iter().map(Part::of).collect(),
            inputs: parts[0].shape[1],
        };
        Self::laid_out(isa, layout, &source, bias)
    }

    fn laid_out(isa: Isa, layout: Layout, source: &Source<'_>, bias: Option<&[f32]>) -> Self {
        let lanes = lanes(isa);
        let inputs = source.inputs;
        let outputs = source.parts.iter().map(|p| p.rows).sum::<usize>();
        let rest = outputs % (2 * lanes);
        let count = outputs / (2 * lanes) + usize::from(rest > lanes);
        let tail = if rest == 0 || rest > lanes {
            Vec::new()
        } else {
            pack_tail(source, count * 2 * lanes, outputs, lanes)
        };
        let quantised = |bits, order| {
            let widen = |n: usize, row: &mut [f32]| source.widen(n, row, 1);
            let columns = outputs.min(count * 2 * lanes);
            quant::pack(isa, (bits, order), (inputs, columns), count, lanes, widen)
        };
        let panels = match layout {
            Layout::F32 => Panels::F32(pack_f32(source, count, outputs, lanes)),
            Layout::Bf16 => Panels::Bf16(pack_bf16(source, count, outputs, lanes)),
            Layout::Pairs => Panels::Pairs(pack_pairs(source, count, outputs, lanes)),
            Layout::Amx => Panels::Amx(pack_pairs(source, count, outputs, lanes)),
            #[cfg(target_arch = "x86_64")]
            Layout::Int16 => {
                let widen = |n: usize, row: &mut [f32]| source.widen(n, row, 1);
                let columns = outputs.min(count * 2 * lanes);
                Panels::Int16(super::int16::pack(isa, (inputs, columns), count, widen))
            }
            #[cfg(not(target_arch = "x86_64"))]
            Layout::Int16 => Panels::F32(pack_f32(source, count, outputs, lanes)),
            Layout::Quantised(bits) => Panels::Quantised(bits, quantised(bits, Order::Inputs)),
            Layout::Bytes(bits) => Panels::Bytes(bits, quantised(bits, Order::Quads)),
        };
        let mut padded = vec![0.0; count * 2 * lanes + if tail.is_empty() { 0 } else { lanes }];
        if let Some(bias) = bias {
            padded[..outputs].copy_from_slice(bias);
        }
        Self {
            lanes,
            inputs,
            outputs,
            panels,
            count,
            tail,
            bias: padded,
        }
    }

    /// Lanes of the vectors that it is packed for.
    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    pub(in crate::cpu) fn inputs(&self) -> usize {
        self.inputs
    }

    pub(in crate::cpu) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Panels of two vectors.
    pub(super) fn panels(&self) -> usize {
        self.count
    }

    /// Returns true if rows of `x`, and their taps, must begin with a whole group.
    pub(in crate::cpu) fn needs_groups(&self) -> bool {
        matches!(self.panels, Panels::Amx(_) | Panels::Bytes(..) | Panels::Int16(_))
    }

    pub(super) fn has_tail(&self) -> bool {
        !self.tail.is_empty()
    }

    pub(super) fn storage(&self) -> &Panels {
        &self.panels
    }

    pub(super) fn tail(&self) -> &[f32] {
        &self.tail
    }

    pub(super) fn bias(&self) -> &[f32] {
        &self.bias
    }
}

fn pack_tail(source: &Source<'_>, first: usize, outputs: usize, lanes: usize) -> Vec<f32> {
    let mut data = vec![0.0; source.inputs * lanes];
    for n in first..outputs {
        source.widen(n, &mut data[n - first..], lanes);
    }
    data
}

/// Writes panel after panel of `size` words, each from its own columns alone, on all threads.
fn panels<T: Word>(count: usize, size: usize, write: impl Fn(usize, &mut [T]) + Sync) -> Words<T> {
    Words::written(count * size, |words| {
        let panels = words.par_chunks_mut(size.max(1)).enumerate();
        panels.for_each(|(panel, words)| write(panel, words));
    })
}

fn pack_f32(source: &Source<'_>, count: usize, outputs: usize, lanes: usize) -> Words<f32> {
    let columns = 2 * lanes;
    panels(count, source.inputs * columns, |panel, words| {
        // A row's stride runs past its panel only at the end, which `zip` in `widen` cuts off.
        for n in panel * columns..outputs.min((panel + 1) * columns) {
            source.widen(n, &mut words[n % columns..], columns);
        }
    })
}

fn pack_pairs(source: &Source<'_>, count: usize, outputs: usize, lanes: usize) -> Words<u32> {
    let columns = 2 * lanes;
    let half = |value: f32| u32::from(bf16::from_f32(value).to_bits());
    panels(count, source.inputs * lanes, |panel, words| {
        let mut row = vec![0.0; source.inputs];
        for n in panel * columns..outputs.min((panel + 1) * columns) {
            source.widen(n, &mut row, 1);
            let words = words[n % columns..].iter_mut().step_by(columns);
            for (word, pair) in words.zip(row.as_chunks::<2>().0) {
                *word = half(pair[0]) | half(pair[1]) << 16;
            }
        }
    })
}

fn pack_bf16(source: &Source<'_>, count: usize, outputs: usize, lanes: usize) -> Words<u32> {
    let columns = 2 * lanes;
    panels(count, source.inputs * lanes, |panel, words| {
        let mut row = vec![0.0; source.inputs];
        for n in panel * columns..outputs.min((panel + 1) * columns) {
            let column = n % columns;
            let shift = if column < lanes { 0 } else { 16 };
            let (bytes, dtype) = source.row(n);
            let words = words[column % lanes..].iter_mut().step_by(lanes);
            if *dtype == DType::Bf16 {
                for (word, b) in words.zip(bytes.as_chunks().0) {
                    *word |= u32::from(u16::from_le_bytes(*b)) << shift;
                }
            } else {
                source.widen(n, &mut row, 1);
                for (word, value) in words.zip(&row) {
                    *word |= u32::from(bf16::from_f32(*value).to_bits()) << shift;
                }
            }
        }
    })
}
