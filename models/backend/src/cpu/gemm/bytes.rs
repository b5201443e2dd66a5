//! Inner loop for quantised weights in integers.
//!
//! Weights are unsigned bytes with an offset of half their range, which is subtracted again by a term of the
//! activations alone. Activations have 16 bits and one scale per group of 32: beside weights of 8 bits that loses
//! nothing, whereas activations of 8 bits would. The sum of a group is an exact integer; groups are added by one
//! multiply-add each, in order, for any number of rows and any instruction set.

mod avx2;
mod avx512;

use super::super::isa::Isa;
use super::Job;
use super::quant::{Bits, GROUP};
use super::simd::{Avx512, Simd as _};

/// Most that an activation can be: 127 high bytes of 256 each.
const MOST: f32 = 32_512.0;
/// Prefetch distance of weights, in words: 8 KiB, which arrive in about the latency of memory.
const AHEAD: usize = 2048;

/// 32 numbers of a row, as whole numbers and their scale.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Group {
    /// Four inputs each, in two halves. AVX-512, and AVX2 with four bits, hold the high bytes and then the low bytes
    /// of `256 * high + low`. AVX2 with eight bits holds inputs 0 and 2 of each four, then 1 and 3, in 16 bits each.
    halves: [[i32; GROUP / 4]; 2],
    /// Their sum.
    sum: i32,
    scale: f32,
}

const NONE: Group = Group {
    halves: [[0; GROUP / 4]; 2],
    sum: 0,
    scale: 0.0,
};

/// The whole groups of `x` as whole numbers, to the nearest and of two to the even one.
pub(super) fn quantised(isa: Isa, bits: Bits, x: &[f32]) -> Vec<Group> {
    assert!(isa.multiplies_bytes(), "bytes without the instructions for them");
    let mut groups = vec![NONE; x.len() / GROUP];
    for (group, x) in groups.iter_mut().zip(x.as_chunks().0) {
        // SAFETY: the machine has the instructions.
        unsafe {
            match isa {
                Isa::Avx512 => avx512::quantise(x, group),
                _ => avx2::quantise(bits, x, group),
            }
        }
    }
    groups
}

/// Most rows of a block, for a matrix packed for vectors of `lanes`: limited by the registers for sums.
pub(super) fn max_rows(lanes: usize) -> usize {
    if lanes == Avx512::LANES {
        avx512::MAX_ROWS
    } else {
        avx2::MAX_ROWS
    }
}

/// Rows of one block, times panels `first .. first + count`.
///
/// # Safety
/// As [`super::tile::wide`]; the machine must have the instructions that the matrix is packed for.
pub(super) unsafe fn wide(
    job: &Job<'_>,
    (bits, data): (Bits, &[u32]),
    rows: usize,
    at: (usize, usize),
    first: usize,
    count: usize,
) {
    for panel in first..first + count {
        // SAFETY: the caller's promise.
        unsafe {
            if job.w.lanes() == Avx512::LANES {
                avx512::panel(job, (bits, data), rows, at, panel);
            } else {
                avx2::panel(job, (bits, data), rows, at, panel);
            }
        }
    }
}
