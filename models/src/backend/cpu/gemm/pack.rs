//! The matrix as the inner loop wants it.

use std::borrow::Cow;

use half::{bf16, f16};

use super::quant::{self, Bits};
use crate::backend::cpu::isa::Isa;
use crate::checkpoint::{DType, HostTensor};
use crate::speech::Weights;

/// Panels of two vectors' columns.
pub(super) enum Panels {
    /// `[panel][k][2 * lanes]`.
    F32(Vec<f32>),
    /// `[panel][k][lanes]`: in each word the column `j` in the lower half, column `j + lanes` in the upper one.
    Bf16(Vec<u32>),
    /// `[panel][k / 2][2 * lanes]`: in each word two neighbouring inputs of a column as bf16, the first in the lower half. Rows of
    /// `x` are rounded to bf16 for it.
    Pairs(Vec<u32>),
    /// `[panel][group][...]`, see [`quant`].
    Quantised(Bits, Vec<u32>),
}

/// `[outputs, inputs]` with a bias, packed for one instruction set.
pub(crate) struct Matrix {
    /// Of the vectors that it is packed for: the layout depends on them.
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

#[derive(Clone, Copy)]
enum Layout {
    F32,
    Bf16,
    Pairs,
    Quantised(Bits),
}

impl Source<'_> {
    /// How the panels are laid out. Quantisation needs whole groups of inputs; narrower matrices stay as they are.
    fn layout(&self, isa: Isa, weights: Weights) -> Layout {
        let is_bf16 = self.parts.iter().all(|p| *p.dtype == DType::Bf16);
        match weights {
            Weights::Int8 if self.inputs.is_multiple_of(quant::GROUP) => Layout::Quantised(Bits::Eight),
            Weights::Int4 if self.inputs.is_multiple_of(quant::GROUP) => Layout::Quantised(Bits::Four),
            // Inputs of a convolution are those of its taps, one after another. No pair may be of two taps: of as many inputs each
            // has an even number.
            Weights::Bf16Products if isa.multiplies_pairs() && self.inputs.is_multiple_of(quant::GROUP) => {
                Layout::Pairs
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
    pub(in crate::backend::cpu) fn pack(
        isa: Isa,
        weights: Weights,
        parts: &[HostTensor],
        bias: Option<&[f32]>,
    ) -> Self {
        let lanes = lanes(isa);
        let (inputs, outputs) = (parts[0].shape[1], parts.iter().map(|p| p.shape[0]).sum::<usize>());
        let source = Source {
            parts: parts.iter().map(Part::of).collect(),
            inputs,
        };
        let rest = outputs % (2 * lanes);
        let count = outputs / (2 * lanes) + usize::from(rest > lanes);
        let tail = if rest == 0 || rest > lanes {
            Vec::new()
        } else {
            pack_tail(&source, count * 2 * lanes, outputs, lanes)
        };
        let panels = match source.layout(isa, weights) {
            Layout::F32 => Panels::F32(pack_f32(&source, count, outputs, lanes)),
            Layout::Bf16 => Panels::Bf16(pack_bf16(&source, count, outputs, lanes)),
            Layout::Pairs => Panels::Pairs(pack_pairs(&source, count, outputs, lanes)),
            Layout::Quantised(bits) => {
                let widen = |n: usize, row: &mut [f32]| source.widen(n, row, 1);
                let columns = outputs.min(count * 2 * lanes);
                let packed = quant::pack(isa, bits, (inputs, columns), count, lanes, widen);
                Panels::Quantised(bits, packed)
            }
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

    pub(in crate::backend::cpu) fn inputs(&self) -> usize {
        self.inputs
    }

    pub(in crate::backend::cpu) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Panels of two vectors.
    pub(super) fn panels(&self) -> usize {
        self.count
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

fn pack_f32(source: &Source<'_>, count: usize, outputs: usize, lanes: usize) -> Vec<f32> {
    let (columns, size) = (2 * lanes, source.inputs * 2 * lanes);
    let mut data = vec![0.0; count * size];
    for n in 0..outputs.min(count * columns) {
        let at = n / columns * size + n % columns;
        source.widen(n, &mut data[at..], columns);
    }
    // A row's stride runs past its panel only in the padding of the last one, which `zip` in `widen` cuts off.
    data
}

fn pack_pairs(source: &Source<'_>, count: usize, outputs: usize, lanes: usize) -> Vec<u32> {
    let (columns, size) = (2 * lanes, source.inputs * lanes);
    let mut data = vec![0_u32; count * size];
    let mut row = vec![0.0; source.inputs];
    let half = |value: f32| u32::from(bf16::from_f32(value).to_bits());
    for n in 0..outputs.min(count * columns) {
        source.widen(n, &mut row, 1);
        let at = n / columns * size + n % columns;
        let words = data[at..].iter_mut().step_by(columns);
        for (word, pair) in words.zip(row.as_chunks::<2>().0) {
            *word = half(pair[0]) | half(pair[1]) << 16;
        }
    }
    data
}

fn pack_bf16(source: &Source<'_>, count: usize, outputs: usize, lanes: usize) -> Vec<u32> {
    let (columns, size) = (2 * lanes, source.inputs * lanes);
    let mut data = vec![0_u32; count * size];
    let mut row = vec![0.0; source.inputs];
    for n in 0..outputs.min(count * columns) {
        let (panel, column) = (n / columns, n % columns);
        let shift = if column < lanes { 0 } else { 16 };
        let at = panel * size + column % lanes;
        let (bytes, dtype) = source.row(n);
        let words = data[at..].iter_mut().step_by(lanes);
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
    data
}
