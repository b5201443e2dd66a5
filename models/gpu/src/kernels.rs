//! Kernels, each as a struct of its arguments.
//!
//! `launch` makes the [`Launch`] and chooses threads and blocks. Rows are `[rows, width]`, contiguous, of the
//! launch's float type; per-channel values (weights of norms, biases, scales) are f32. An optional [`Address`]
//! ([`Address::NONE`]) is documented as such. This module runs nothing.

mod attend;
mod attention;
mod gemm;
mod gemv;
mod linear;
mod moe;
mod norm;
mod pointwise;
mod random;
mod rope;
mod rows;
mod sample;
mod signal;
mod text;

pub use attend::Attend;
pub use attention::{Attention, RANGE};
pub use gemm::{Convolve, ExpertLinear};
pub use gemv::FEW_ROWS;
pub use linear::{COUNTERS, Gated, GatedBeside, Linear, Scratch};
pub use moe::{Combine, Dispatch, ExpertDown, ExpertGated, Route, SharedExpert};
pub use norm::{LayerNorm, RmsNorm};
pub use pointwise::{Activate, Activation, Add, FromF32, Snake, Swiglu, ToF32};
pub use random::Uniform;
pub use rope::{MAX_HEAD_DIM, RotateAndStore};
pub use rows::{Copy, Fill, Gather, LookupMean, LookupSum, PairRows, Put, ScatterAdd, Take};
pub use sample::{Argmax, Embedded, MAX_SAMPLED, Sample, SampleRow};
pub use signal::{Depthwise, Pad, Remember, Signals};
pub use text::{MAX_TEXT_VOCAB, Text, TextChange, TextRow};

use crate::launch::{Address, Args, Dims, Float, Kernel, Launch};

/// A row index or id that names nothing: it reads as zeros and is never written.
pub const NO_ROW: u32 = u32::MAX;

/// Every kernel there is.
pub fn all() -> impl Iterator<Item = &'static Kernel> {
    let topics = [
        attend::KERNELS,
        attention::KERNELS,
        gemm::KERNELS,
        gemv::KERNELS,
        moe::KERNELS,
        norm::KERNELS,
        pointwise::KERNELS,
        random::KERNELS,
        rope::KERNELS,
        rows::KERNELS,
        sample::KERNELS,
        signal::KERNELS,
        text::KERNELS,
    ];
    topics.into_iter().flatten().copied().flatten()
}

/// One kernel for each float type.
type Typed = [Kernel; 2];

fn of(kernels: &'static Typed, float: Float) -> &'static Kernel {
    &kernels[usize::from(float == Float::Bf16)]
}

/// `block` threads in each of `grid` blocks.
fn launch(kernel: &'static Kernel, grid: [u32; 3], block: u32, args: &[(u8, u64)]) -> Launch {
    Launch {
        kernel,
        grid: Dims(grid),
        block: Dims([block, 1, 1]),
        shared: 0,
        args: Args::new(args),
    }
}

/// Threads for `items` pieces of work: whole warps, at most `most`.
fn threads(items: u32, most: u32) -> u32 {
    items.min(most).next_multiple_of(32).clamp(32, most)
}

/// Returns true if rows of `width` elements at these addresses can be moved 8 elements at once.
fn wide(width: u32, addresses: &[Address]) -> bool {
    width.is_multiple_of(8) && addresses.iter().all(|a| a.is_wide())
}

/// Declares a topic's kernels. A typed one is an array of two, the others are one: `NAME = "symbol"(types of its
/// parameters) threads of a block`, and `large` if it may have more shared memory than comes without asking.
macro_rules! kernels {
    ($module:literal: $($kind:tt $name:ident = $symbol:literal ($params:literal) $threads:literal $($large:ident)?;)*) => {
        $(kernels!(@$kind $module $name $symbol $params $threads $($large)?);)*
        pub(super) const KERNELS: &[&[$crate::launch::Kernel]] = &[$(&$name),*];
    };
    (@typed $module:literal $name:ident $symbol:literal $params:literal $threads:literal) => {
        static $name: super::Typed = [
            kernels!(@one $module concat!($symbol, "_f32"), $params, $threads, $crate::launch::MAX_SHARED),
            kernels!(@one $module concat!($symbol, "_bf16"), $params, $threads, $crate::launch::MAX_SHARED),
        ];
    };
    (@plain $module:literal $name:ident $symbol:literal $params:literal $threads:literal) => {
        static $name: [$crate::launch::Kernel; 1] =
            [kernels!(@one $module $symbol, $params, $threads, $crate::launch::MAX_SHARED)];
    };
    (@plain $module:literal $name:ident $symbol:literal $params:literal $threads:literal large) => {
        static $name: [$crate::launch::Kernel; 1] =
            [kernels!(@one $module $symbol, $params, $threads, $crate::launch::LARGE_SHARED)];
    };
    (@one $module:literal $symbol:expr, $params:literal, $threads:literal, $shared:expr) => {
        $crate::launch::Kernel {
            name: $symbol,
            module: $module,
            params: $params,
            threads: $threads,
            shared: $shared,
        }
    };
}
use kernels;

/// The arguments of a launch.
macro_rules! args {
    ($($value:expr),* $(,)?) => { &[$($crate::launch::Arg::arg($value)),*] };
}
use args;
