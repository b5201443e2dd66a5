//! Inner loop for factors rounded to bf16, on AMX tiles: 16 rows times 16 columns of 32 inputs per instruction,
//! summed in f32.
//!
//! A tile of one row computes that row as a tile of 16 does, so a row is bit-identical in any batch. The matrix is
//! packed as for pairs.

use std::arch::asm;
use std::sync::OnceLock;

use super::Job;
use super::simd::{Avx512, Simd};
use super::tile::store;

/// Rows of a block: two tiles.
pub(super) const MAX_ROWS: usize = 2 * TILE_ROWS;

const TILE_ROWS: usize = 16;
const LANES: usize = Avx512::LANES;
/// Bytes of a tile's row: 32 inputs of a row, or a pair of inputs of 16 columns.
const ROW_BYTES: u16 = 64;
/// Inputs of a step.
const STEP: usize = 32;

/// Returns true if this process may use AMX tiles: the processor has them, and the system saves them for its threads.
pub(in crate::cpu) fn usable() -> bool {
    static USABLE: OnceLock<bool> = OnceLock::new();
    *USABLE.get_or_init(|| {
        const AMX_BF16_AND_TILE: u32 = 1 << 22 | 1 << 24;
        let has = std::arch::x86_64::__cpuid_count(7, 0).edx & AMX_BF16_AND_TILE == AMX_BF16_AND_TILE;
        has && is_x86_feature_detected!("avx512bf16") && permitted()
    })
}

/// Asks Linux for the registers, which it gives a process only then.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let result: isize;
    // SAFETY: the call reads and writes no memory of ours.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// Operand of `ldtilecfg`.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl TileConfig {
    /// Tiles 0 to 3 have the sums (two for each half of the rows), 4 and 5 the rows' inputs, 6 and 7 the columns'.
    fn of(first: usize, second: usize) -> Self {
        let first = first as u8;
        let second = second as u8;
        let mut config = Self {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        for (tile, rows) in [first, first, second, second, first, second, 16, 16]
            .into_iter()
            .enumerate()
        {
            if rows > 0 {
                config.rows[tile] = rows;
                config.row_bytes[tile] = ROW_BYTES;
            }
        }
        config
    }
}

/// Rows of one block times panels `first .. first + count`.
///
/// # Safety
/// As [`super::tile::wide`], with `rows` at most [`MAX_ROWS`]; tiles must be [`usable`].
pub(super) unsafe fn wide(
    job: &Job<'_>,
    data: &[u32],
    rows: usize,
    (src, dst): (usize, usize),
    first: usize,
    count: usize,
) {
    let x = job.x;
    let size = job.w.inputs() * LANES;
    let one = rows.min(TILE_ROWS);
    let config = TileConfig::of(one, rows - one);
    // SAFETY: the configuration is valid. The compiler itself uses no tiles, so they persist between blocks of
    // instructions.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack, readonly)) };
    for panel in first..first + count {
        // SAFETY: by `check` every row and tap of the block is inside `x.data`, which `rounded` is as long as, and a
        // tap is whole steps; the panels are inside `data`, and the bias has a number for each of their columns.
        unsafe {
            let bias = job.w.bias().as_ptr().add(panel * 2 * LANES);
            let a = job.rounded.as_ptr().add(src);
            let w = data.as_ptr().add(panel * size);
            if rows > TILE_ROWS {
                sums::<true>(x, bias, a, w);
            } else {
                sums::<false>(x, bias, a, w);
            }
            write(job, rows, dst, panel);
        }
    }
    // SAFETY: nothing is left in the tiles.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// Leaves the sums of a panel in tiles 0 to 3, or in 0 and 1 if there is no second half of rows.
///
/// # Safety
/// As [`wide`]; the tiles must be configured for the rows.
unsafe fn sums<const SECOND: bool>(x: &super::Lhs<'_>, bias: *const f32, a: *const u16, w: *const u32) {
    let row_bytes = 2 * x.row_stride;
    // From the end of a tap's inputs to the begin of the next one's.
    let skip = 2 * (x.tap_stride.cast_signed() - x.depth.cast_signed());
    macro_rules! sums {
        ($begin:literal, $product:literal) => {
            asm!(
                $begin,
                "2:",
                "mov {left}, {steps}",
                "3:",
                "tileloadd tmm4, [{a} + {row_bytes}]",
                "tileloadd tmm6, [{w} + {pair_bytes}]",
                "tileloadd tmm7, [{w} + {pair_bytes} + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                $product,
                "add {a}, 64",
                "add {second}, 64",
                "add {w}, 2048",
                "dec {left}",
                "jnz 3b",
                "add {a}, {skip}",
                "add {second}, {skip}",
                "dec {taps}",
                "jnz 2b",
                a = inout(reg) a => _,
                second = inout(reg) a.wrapping_add(TILE_ROWS * x.row_stride) => _,
                w = inout(reg) w => _,
                taps = inout(reg) x.taps => _,
                // Stride 0: every row of the tile loads the same bias.
                left = inout(reg) 0_usize => _,
                bias = in(reg) bias,
                steps = in(reg) x.depth / STEP,
                row_bytes = in(reg) row_bytes,
                pair_bytes = in(reg) 8 * LANES,
                skip = in(reg) skip,
                options(nostack, readonly),
            )
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        if SECOND {
            sums!(
                "tileloadd tmm0, [{bias} + {left}]
                 tileloadd tmm1, [{bias} + {left} + 64]
                 tileloadd tmm2, [{bias} + {left}]
                 tileloadd tmm3, [{bias} + {left} + 64]",
                "tileloadd tmm5, [{second} + {row_bytes}]
                 tdpbf16ps tmm2, tmm5, tmm6
                 tdpbf16ps tmm3, tmm5, tmm7"
            );
        } else {
            sums!(
                "tileloadd tmm0, [{bias} + {left}]
                 tileloadd tmm1, [{bias} + {left} + 64]",
                ""
            );
        }
    }
}

/// Writes the sums of a panel to the output, as far as it has columns.
///
/// # Safety
/// As [`wide`].
unsafe fn write(job: &Job<'_>, rows: usize, dst: usize, panel: usize) {
    let outputs = job.w.outputs();
    let column = panel * 2 * LANES;
    let whole = outputs - column >= 2 * LANES;
    let mut buffer = [[0.0_f32; 2 * LANES]; MAX_ROWS];
    // SAFETY: by `check` the rows are inside the output, and so are as many columns; the buffer has room for all tiles.
    unsafe {
        let (out, row) = if whole {
            (job.out.add(dst * outputs + column), outputs)
        } else {
            (buffer.as_mut_ptr().cast(), 2 * LANES)
        };
        asm!(
            "tilestored [{out} + {row}], tmm0",
            "tilestored [{out} + {row} + 64], tmm1",
            out = in(reg) out,
            row = in(reg) 4 * row,
            options(nostack),
        );
        if rows > TILE_ROWS {
            asm!(
                "tilestored [{out} + {row}], tmm2",
                "tilestored [{out} + {row} + 64], tmm3",
                out = in(reg) out.add(TILE_ROWS * row),
                row = in(reg) 4 * row,
                options(nostack),
            );
        }
        if !whole {
            for (m, sums) in buffer.iter().take(rows).enumerate() {
                let sums = [
                    Avx512::load(sums.as_ptr()),
                    Avx512::load(sums.as_ptr().add(LANES)),
                ];
                store::<Avx512, 2>(job, dst + m, column, &sums);
            }
        }
    }
}
