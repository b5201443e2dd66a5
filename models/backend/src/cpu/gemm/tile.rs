//! The inner loop: a few rows times a few panels, sums in registers.

#[cfg(target_arch = "x86_64")]
use super::simd::{Avx2, Avx512};
use super::simd::{Nibbles, Portable, Quantised, Simd, Storage, Widen};
use super::{Job, quant};

/// Start of a block: element of the left factor, row of the output.
type Start = (usize, usize);

/// Calls `$call` for a number of rows known only at run time.
macro_rules! with_rows {
    ($rows:expr, $call:ident, $($m:literal)*) => {
        match $rows { $($m => $call!($m),)* _ => unreachable!("a block has at most 12 rows") }
    };
}

/// Runs `$body` for the rows of a block with `$m` as a constant.
///
/// A loop over the sums would take their address, and the compiler would then write all of them to memory in every
/// round of the inner loop, which halves its speed.
macro_rules! each_row {
    ($rows:ident, |$m:ident| $body:expr) => { each_row!($rows, $m, $body, 0 1 2 3 4 5 6 7 8 9 10 11) };
    ($rows:ident, $m:ident, $body:expr, $($index:literal)*) => {$(
        if $index < $rows {
            let $m = const { if $index < $rows { $index } else { 0 } };
            $body;
        }
    )*};
}

pub(super) use {each_row, with_rows};

/// Tile kernels, each a function of its own: inlined into one, they take the compiler minutes.
///
/// # Safety
/// As the functions of the same names below.
pub(super) unsafe trait Tiles: Nibbles {
    unsafe fn block<W: Storage, const M: usize, const P: usize>(
        job: &Job<'_>,
        data: &[W::Element],
        at: Start,
        panel: usize,
    );
    unsafe fn quantised_block<Q: Quantised, const M: usize, const P: usize>(
        job: &Job<'_>,
        data: &[u32],
        at: Start,
        panel: usize,
    );
    unsafe fn tail_block<const M: usize>(job: &Job<'_>, at: Start);
}

macro_rules! tiles {
    ($simd:ident, $(#[$features:meta])?) => {
        // SAFETY: compiled with the instructions that the vector type needs.
        unsafe impl Tiles for $simd {
            $(#[$features])?
            unsafe fn block<W: Storage, const M: usize, const P: usize>(
                job: &Job<'_>,
                data: &[W::Element],
                at: Start,
                panel: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { block::<Self, W, M, P>(job, data, at, panel) }
            }

            $(#[$features])?
            unsafe fn quantised_block<Q: Quantised, const M: usize, const P: usize>(
                job: &Job<'_>,
                data: &[u32],
                at: Start,
                panel: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { quantised_block::<Self, Q, M, P>(job, data, at, panel) }
            }

            $(#[$features])?
            unsafe fn tail_block<const M: usize>(job: &Job<'_>, at: Start) {
                // SAFETY: the caller's promise.
                unsafe { tail_block::<Self, M>(job, at) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
tiles!(Avx512, #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]);
#[cfg(target_arch = "x86_64")]
tiles!(Avx2, #[target_feature(enable = "avx2,fma")]);
tiles!(Portable,);

/// Rows of one block times panels `first .. first + count`.
///
/// # Safety
/// As `run_group`; the block's rows and the panels must exist, `rows` be at most `S::MAX_ROWS`.
pub(super) unsafe fn wide<S: Tiles, W: Storage>(
    job: &Job<'_>,
    data: &[W::Element],
    rows: usize,
    at: Start,
    first: usize,
    count: usize,
) {
    let mut panel = first;
    let end = first + count;
    while panel < end {
        let left = end - panel;
        // Few rows: several panels at once, or the sums' chains are too few to keep the units busy.
        let panels = match rows {
            1 if left >= 4 => 4,
            1..=4 if left >= 2 => 2,
            _ => 1,
        };
        macro_rules! tile {
            ($m:literal) => {
                // SAFETY: the caller's promise.
                unsafe {
                    // The arms that such a number of rows never takes must not be compiled for it.
                    match panels {
                        4 => S::block::<W, $m, { if $m == 1 { 4 } else { 1 } }>(job, data, at, panel),
                        2 => S::block::<W, $m, { if $m <= 4 { 2 } else { 1 } }>(job, data, at, panel),
                        _ => S::block::<W, $m, 1>(job, data, at, panel),
                    }
                }
            };
        }
        if S::MAX_ROWS > 6 {
            with_rows!(rows, tile, 1 2 3 4 5 6 7 8 9 10 11 12);
        } else {
            with_rows!(rows, tile, 1 2 3 4 5 6);
        }
        panel += panels;
    }
}

/// `M` rows times `P` panels.
///
/// # Safety
/// As [`wide`].
#[inline(always)]
unsafe fn block<S: Widen, W: Storage, const M: usize, const P: usize>(
    job: &Job<'_>,
    data: &[W::Element],
    (src, dst): Start,
    panel: usize,
) {
    let x = job.x;
    let lanes = S::LANES;
    let size = job.w.inputs() * lanes * W::VECTORS;
    // SAFETY: by `check` every row and tap of the block is inside `x.data`; the panels are inside `data`, and the bias
    // has a number for each of their columns.
    unsafe {
        let mut acc = [[[S::splat(0.0); 2]; P]; M];
        for p in 0..P {
            let bias = job.w.bias().as_ptr().add((panel + p) * 2 * lanes);
            let bias = [S::load(bias), S::load(bias.add(lanes))];
            for row in &mut acc {
                row[p] = bias;
            }
        }
        let panels = data.as_ptr().add(panel * size);
        let mut k = 0;
        for tap in 0..x.taps {
            let rows = x.data.as_ptr().add(src + tap * x.tap_stride);
            for d in 0..x.depth {
                let mut w = [[S::splat(0.0); 2]; P];
                for (p, w) in w.iter_mut().enumerate() {
                    *w = W::row::<S>(panels.add(p * size), k);
                }
                for (m, acc) in acc.iter_mut().enumerate() {
                    let v = S::splat(*rows.add(m * x.row_stride + d));
                    for (acc, w) in acc.iter_mut().zip(&w) {
                        acc[0] = S::fma(v, w[0], acc[0]);
                        acc[1] = S::fma(v, w[1], acc[1]);
                    }
                }
                k += 1;
            }
        }
        each_row!(M, |m| {
            for (p, sums) in acc[m].iter().enumerate() {
                store::<S, 2>(job, dst + m, (panel + p) * 2 * lanes, sums);
            }
        });
    }
}

/// As [`wide`], for quantised panels.
///
/// # Safety
/// As [`wide`], with `rows` at most `S::MAX_QUANTISED_ROWS`.
pub(super) unsafe fn wide_quantised<S: Tiles, Q: Quantised>(
    job: &Job<'_>,
    data: &[u32],
    rows: usize,
    at: Start,
    first: usize,
    count: usize,
) {
    let mut panel = first;
    let end = first + count;
    while panel < end {
        let left = end - panel;
        // SAFETY: the caller's promise.
        let panels = unsafe {
            match rows {
                // One panel's two sums are too short a chain to keep the units busy.
                1 if S::MAX_QUANTISED_ROWS >= 4 && left >= 4 => {
                    S::quantised_block::<Q, 1, 4>(job, data, at, panel);
                    4
                }
                1 => {
                    S::quantised_block::<Q, 1, 1>(job, data, at, panel);
                    1
                }
                2 if S::MAX_QUANTISED_ROWS >= 2 => {
                    S::quantised_block::<Q, 2, 1>(job, data, at, panel);
                    1
                }
                3 if S::MAX_QUANTISED_ROWS >= 4 => {
                    S::quantised_block::<Q, 3, 1>(job, data, at, panel);
                    1
                }
                4 if S::MAX_QUANTISED_ROWS >= 4 => {
                    S::quantised_block::<Q, 4, 1>(job, data, at, panel);
                    1
                }
                _ => unreachable!("a block of quantised panels has at most 4 rows"),
            }
        };
        panel += panels;
    }
}

/// `M` rows times `P` quantised panels: the sums of a group, then these times its scales.
///
/// # Safety
/// As [`wide_quantised`].
#[inline(always)]
unsafe fn quantised_block<S: Nibbles, Q: Quantised, const M: usize, const P: usize>(
    job: &Job<'_>,
    data: &[u32],
    (src, dst): Start,
    panel: usize,
) {
    let x = job.x;
    let lanes = S::LANES;
    let group_words = Q::BITS.group_words(lanes);
    let size = job.w.inputs() / quant::GROUP * group_words;
    // SAFETY: by `check` every row and tap of the block is inside `x.data`, and a tap is whole groups; the panels are
    // inside `data`, and the bias has a number for each of their columns.
    unsafe {
        let mut acc = [[[S::splat(0.0); 2]; P]; M];
        for p in 0..P {
            let bias = job.w.bias().as_ptr().add((panel + p) * 2 * lanes);
            let bias = [S::load(bias), S::load(bias.add(lanes))];
            for row in &mut acc {
                row[p] = bias;
            }
        }
        let mut group = data.as_ptr().add(panel * size);
        for tap in 0..x.taps {
            let rows = x.data.as_ptr().add(src + tap * x.tap_stride);
            for d in (0..x.depth).step_by(quant::GROUP) {
                let mut sums = [[[S::splat(0.0); 2]; P]; M];
                Q::group::<S, M, P>(group.add(lanes), size, rows.add(d), x.row_stride, &mut sums);
                for p in 0..P {
                    let scales = S::halves(group.add(p * size));
                    for (acc, sums) in acc.iter_mut().zip(&sums) {
                        acc[p][0] = S::fma(sums[p][0], scales[0], acc[p][0]);
                        acc[p][1] = S::fma(sums[p][1], scales[1], acc[p][1]);
                    }
                }
                group = group.add(group_words);
            }
        }
        each_row!(M, |m| {
            for (p, sums) in acc[m].iter().enumerate() {
                store::<S, 2>(job, dst + m, (panel + p) * 2 * lanes, sums);
            }
        });
    }
}

/// Rows of one block times the last, narrow panel.
///
/// # Safety
/// As [`wide`]; the matrix must have a tail.
pub(super) unsafe fn tail<S: Tiles>(job: &Job<'_>, rows: usize, at: Start) {
    macro_rules! tile {
        ($m:literal) => {
            // SAFETY: the caller's promise.
            unsafe { S::tail_block::<$m>(job, at) }
        };
    }
    if S::MAX_ROWS > 6 {
        with_rows!(rows, tile, 1 2 3 4 5 6 7 8 9 10 11 12);
    } else {
        with_rows!(rows, tile, 1 2 3 4 5 6);
    }
}

/// # Safety
/// As [`tail`].
#[inline(always)]
unsafe fn tail_block<S: Simd, const M: usize>(job: &Job<'_>, (src, dst): Start) {
    let x = job.x;
    let first = job.w.panels() * 2 * S::LANES;
    // SAFETY: as in `block`; the tail has one vector per `k`.
    unsafe {
        let mut acc = [S::load(job.w.bias().as_ptr().add(first)); M];
        let mut w = job.w.tail().as_ptr();
        for tap in 0..x.taps {
            let rows = x.data.as_ptr().add(src + tap * x.tap_stride);
            for d in 0..x.depth {
                let column = S::load(w);
                w = w.add(S::LANES);
                for (m, acc) in acc.iter_mut().enumerate() {
                    *acc = S::fma(S::splat(*rows.add(m * x.row_stride + d)), column, *acc);
                }
            }
        }
        each_row!(M, |m| store::<S, 1>(job, dst + m, first, &[acc[m]]));
    }
}

/// Writes sums to columns `column ..` of an output row, as far as there are columns.
///
/// # Safety
/// As [`wide`].
#[inline(always)]
pub(super) unsafe fn store<S: Simd, const V: usize>(
    job: &Job<'_>,
    row: usize,
    column: usize,
    sums: &[S::V; V],
) {
    let outputs = job.w.outputs();
    let left = outputs - column;
    // SAFETY: by `check` the row is inside the output; only its columns are written.
    unsafe {
        let out = job.out.add(row * outputs + column);
        for (v, sums) in sums.iter().enumerate() {
            let at = v * S::LANES;
            if left >= at + S::LANES {
                S::store(out.add(at), *sums);
            } else if left > at {
                S::store_first(out.add(at), *sums, left - at);
            }
        }
    }
}
