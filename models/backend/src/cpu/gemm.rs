//! Rows times a packed matrix: every linear layer and (with overlapping rows) every convolution.
//!
//! The matrix is packed once into panels of two vectors' columns, `[panel][k][columns]`: a step of the inner loop
//! reads one panel row and adds its product with one number of each of several rows of `x`. Each output is one chain
//! of multiply-adds in the order of `k` for any number of rows, so batching never changes a bit.
#![expect(
    unsafe_code,
    reason = "vector intrinsics and unchecked addresses in the inner loop; bounds are asserted once per call"
)]

#[cfg(target_arch = "x86_64")]
pub(super) mod amx;
#[cfg(target_arch = "x86_64")]
mod bytes;
#[cfg(target_arch = "x86_64")]
mod int16;
mod pack;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod quant;
pub(super) mod simd;
pub(super) mod threads;
mod tile;

use super::isa::Isa;
pub(super) use pack::Matrix;
use pack::Panels;
use quant::Bits;
pub(super) use quant::GROUP as GROUP_OF_INPUTS;
use tile::Tiles;

/// The left factor: row `m`, column `tap * depth + d` is `data[start + m * row_stride + tap * tap_stride + d]`.
pub(super) struct Lhs<'a> {
    pub(super) data: &'a [f32],
    pub(super) row_stride: usize,
    pub(super) taps: usize,
    pub(super) tap_stride: usize,
    pub(super) depth: usize,
}

/// Rows that lie evenly: `rows` of them from element `src` of the left factor on, to row `dst` of the output on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) src: usize,
    pub(super) dst: usize,
    pub(super) rows: usize,
}

/// Panels that stay in the cache while all rows pass by.
const GROUP: usize = 4;
/// `out [rows, outputs] = x W^T + bias`.
pub(super) fn multiply(isa: Isa, w: &Matrix, x: &Lhs<'_>, segments: &[Segment], out: &mut [f32]) {
    check(isa, w, x, segments, out);
    let rows: usize = segments.iter().map(|s| s.rows).sum();
    let rounded = match w.storage() {
        #[cfg(target_arch = "x86_64")]
        Panels::Pairs(_) | Panels::Amx(_) => pairs::rounded(isa, x.data),
        _ => Vec::new(),
    };
    #[cfg(target_arch = "x86_64")]
    let bytes = match w.storage() {
        Panels::Bytes(bits, _) => bytes::quantised(isa, *bits, x.data),
        _ => Vec::new(),
    };
    #[cfg(target_arch = "x86_64")]
    let int16 = match w.storage() {
        Panels::Int16(_) => int16::rounded(isa, x.data),
        _ => int16::Rounded::default(),
    };
    let job = Job {
        w,
        x,
        rounded: &rounded,
        #[cfg(target_arch = "x86_64")]
        int16: &int16,
        #[cfg(target_arch = "x86_64")]
        bytes: &bytes,
        segments,
        out: out.as_mut_ptr(),
    };
    let groups = w.panels().div_ceil(GROUP) + usize::from(w.has_tail());
    threads::share(groups, rows, w.inputs() * w.outputs(), |group| {
        job.run(isa, group);
    });
}

/// Everything that the unchecked addresses below rely on.
fn check(isa: Isa, w: &Matrix, x: &Lhs<'_>, segments: &[Segment], out: &[f32]) {
    assert_eq!(
        w.lanes(),
        pack::lanes(isa),
        "lanes that the matrix is packed for against those of {isa:?}"
    );
    assert_eq!(
        x.taps * x.depth,
        w.inputs(),
        "columns of x against the matrix's inputs"
    );
    if matches!(w.storage(), Panels::Quantised(..)) {
        assert!(
            x.depth.is_multiple_of(quant::GROUP),
            "a tap of {} is no whole groups",
            x.depth
        );
    }
    if w.needs_groups() {
        let starts = segments.iter().map(|s| s.src);
        let whole = starts.chain([x.row_stride, x.tap_stride, x.depth]);
        for at in whole {
            assert!(
                at.is_multiple_of(quant::GROUP),
                "{at} numbers are no whole groups"
            );
        }
    }
    if matches!(w.storage(), Panels::Amx(_)) {
        assert!(isa.has_amx(), "tiles without the instructions for them");
        assert!(w.inputs() > 0, "sums of nothing");
    }
    if matches!(w.storage(), Panels::Pairs(_)) {
        assert!(
            x.depth.is_multiple_of(2),
            "a tap of {} is no whole pairs",
            x.depth
        );
        assert!(isa.multiplies_pairs(), "pairs without the instructions for them");
    }
    for s in segments.iter().filter(|s| s.rows > 0) {
        let last = s.src + (s.rows - 1) * x.row_stride + (x.taps - 1) * x.tap_stride;
        assert!(
            last + x.depth <= x.data.len(),
            "rows of x reach {} of {}",
            last + x.depth,
            x.data.len()
        );
        assert!(
            (s.dst + s.rows) * w.outputs() <= out.len(),
            "rows of the output reach beyond its end"
        );
    }
}

/// One product, to be computed panel group by panel group.
#[derive(Clone, Copy)]
struct Job<'a> {
    w: &'a Matrix,
    x: &'a Lhs<'a>,
    /// `x.data` in bf16, for a matrix of that.
    rounded: &'a [u16],
    /// `x.data` in 14 bits, for a matrix of those.
    #[cfg(target_arch = "x86_64")]
    int16: &'a int16::Rounded,
    /// `x.data` in bytes, for a matrix of those.
    #[cfg(target_arch = "x86_64")]
    bytes: &'a [bytes::Group],
    segments: &'a [Segment],
    out: *mut f32,
}

// SAFETY: `run` writes only the columns of its panel group; groups are disjoint, so calls for different groups may run
// at once. The pointer outlives the job, which never leaves `multiply`.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    fn run(&self, isa: Isa, group: usize) {
        match isa {
            // SAFETY: `Isa::best` gives this value only where these instructions were detected; `check` has been
            // passed.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { run_group::<simd::Avx512>(self, group) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { run_group::<simd::Avx2>(self, group) },
            // SAFETY: needs no instructions but the compiler's own; `check` has been passed.
            _ => unsafe { run_group::<simd::Portable>(self, group) },
        }
    }
}

/// # Safety
/// The machine must have `S`'s instructions, and `check` must have been passed.
unsafe fn run_group<S: Tiles>(job: &Job<'_>, group: usize) {
    let first = group * GROUP;
    let count = GROUP.min(job.w.panels().saturating_sub(first));
    for s in job.segments {
        let mut row = 0;
        let most = match job.w.storage() {
            Panels::Quantised(..) => S::MAX_QUANTISED_ROWS,
            #[cfg(target_arch = "x86_64")]
            Panels::Bytes(..) => bytes::max_rows(S::LANES),
            #[cfg(target_arch = "x86_64")]
            Panels::Int16(_) => int16::MAX_ROWS,
            #[cfg(target_arch = "x86_64")]
            Panels::Amx(_) if count > 0 => amx::MAX_ROWS,
            _ => S::MAX_ROWS,
        };
        let blocks = s.rows.div_ceil(most);
        for block in 0..blocks {
            let rows = match job.w.storage() {
                // A tile costs the same with fewer rows, so it takes as many as there are.
                Panels::Amx(_) => most.min(s.rows - row),
                // Blocks as even as can be: 16 rows are 8 and 8, not 12 and 4.
                _ => (s.rows - row).div_ceil(blocks - block),
            };
            let at = (s.src + row * job.x.row_stride, s.dst + row);
            // SAFETY: rows `row .. row + rows` are inside the segment, panels inside the matrix.
            unsafe {
                match job.w.storage() {
                    _ if count == 0 => tile::tail::<S>(job, rows, at),
                    #[cfg(target_arch = "x86_64")]
                    Panels::Amx(data) => amx::wide(job, data, rows, at, first, count),
                    #[cfg(target_arch = "x86_64")]
                    Panels::Pairs(data) => pairs::wide(job, data, rows, at, first, count),
                    #[cfg(target_arch = "x86_64")]
                    Panels::Bytes(bits, data) => bytes::wide(job, (*bits, data), rows, at, first, count),
                    #[cfg(target_arch = "x86_64")]
                    Panels::Int16(data) => int16::wide(job, data, rows, at, first, count),
                    #[cfg(not(target_arch = "x86_64"))]
                    Panels::Amx(_) | Panels::Pairs(_) | Panels::Int16(_) | Panels::Bytes(..) => {}
                    Panels::F32(data) => tile::wide::<S, simd::F32>(job, data, rows, at, first, count),
                    Panels::Bf16(data) => tile::wide::<S, simd::Bf16>(job, data, rows, at, first, count),
                    Panels::Quantised(Bits::Eight, data) => {
                        tile::wide_quantised::<S, simd::Int8>(job, data, rows, at, first, count);
                    }
                    Panels::Quantised(Bits::Four, data) => {
                        tile::wide_quantised::<S, simd::Int4>(job, data, rows, at, first, count);
                    }
                }
            }
            row += rows;
        }
    }
}

#[cfg(test)]
mod tests;
