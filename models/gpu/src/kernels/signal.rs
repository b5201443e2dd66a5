//! Signals and what streams remember of them: `kernels/signal.cu`.

use super::{args, kernels, launch, of, wide};
use crate::launch::{Address, Float, Launch};

kernels! { "signal":
    typed PAD = "pad"("pppppppuuuuu") 256;
    typed REMEMBER = "remember"("pppuuu") 256;
    typed DEPTHWISE = "depthwise"("pppppuuuuuuu") 256;
}

/// Threads of a block, each of which takes eight elements of a row.
const THREADS: u32 = 256;

/// Blocks for `rows` rows.
fn blocks(rows: u32, width: u32) -> u32 {
    (rows * width.div_ceil(8)).div_ceil(THREADS)
}

/// Signals of several streams, one after another, each with `keep` rows of its past.
#[derive(Debug, Clone, Copy)]
pub struct Signals {
    /// `[count + 1]` of `u32`: the row at which each signal begins, and the number of rows.
    pub from: Address,
    /// `[count]` of `u32`: rows missing at the beginning of each signal, read as zeros behind the past. Optional.
    pub lacking: Address,
    /// `[count]` of `u64`: the address of each stream's past, `[keep, width]`.
    pub past: Address,
    /// Streams.
    pub count: u32,
    /// Rows of all signals, without their pasts.
    pub rows: u32,
    /// Rows that a stream remembers.
    pub keep: u32,
}

impl Signals {
    /// Rows with their pasts in front of each.
    pub fn padded(&self) -> u32 {
        self.rows + self.count * self.keep
    }
}

/// Lays out `[past | activation(x)]` of every signal.
#[derive(Debug, Clone, Copy)]
pub struct Pad {
    /// `[padded, width]`.
    pub out: Address,
    /// `[rows, width]`.
    pub x: Address,
    /// The streams of the rows.
    pub signals: Signals,
    /// Snake's factor `[width]` of f32, or none to leave x unchanged. Pasts are stored after activation.
    pub a: Address,
    /// Snake's other factor `[width]` of f32.
    pub b: Address,
    /// Elements of a row.
    pub width: u32,
}

impl Pad {
    /// Eight elements per thread: several rows per block, or one.
    pub fn launch(&self, float: Float) -> Launch {
        let s = &self.signals;
        // A stream's past begins where rows of this width do.
        let wide = wide(self.width, &[self.out, self.x, self.a, self.b]);
        let rows_of_block = (THREADS / self.width.div_ceil(8).max(1)).max(1);
        launch(
            of(&PAD, float),
            [s.padded().div_ceil(rows_of_block), 1, 1],
            THREADS,
            args![
                self.out,
                self.x,
                s.past,
                s.from,
                s.lacking,
                self.a,
                self.b,
                s.count,
                s.keep,
                self.width,
                s.padded(),
                wide,
            ],
        )
    }
}

/// The last rows of every padded signal become its stream's past.
#[derive(Debug, Clone, Copy)]
pub struct Remember {
    /// `[padded, width]`, as [`Pad`] made it.
    pub padded: Address,
    /// The streams of the rows.
    pub signals: Signals,
    /// Elements of a row.
    pub width: u32,
}

impl Remember {
    /// Eight elements per thread.
    pub fn launch(&self, float: Float) -> Launch {
        let s = &self.signals;
        // A stream's past begins where rows of this width do.
        let wide = wide(self.width, &[self.padded]);
        launch(
            of(&REMEMBER, float),
            [blocks(s.keep, self.width), s.count, 1],
            THREADS,
            args![self.padded, s.past, s.from, s.keep, self.width, wide],
        )
    }
}

/// A causal convolution, every channel for itself.
#[derive(Debug, Clone, Copy)]
pub struct Depthwise {
    /// `[rows, width]`.
    pub out: Address,
    /// `[padded, width]`, as [`Pad`] made it.
    pub padded: Address,
    /// `[taps, width]` of f32.
    pub w: Address,
    /// `[width]` of f32.
    pub bias: Address,
    /// The streams of the rows; `keep` is `(taps - 1) * dilation`.
    pub signals: Signals,
    /// Rows that are weighed.
    pub taps: u32,
    /// Rows from one to the next.
    pub dilation: u32,
    /// Elements of a row.
    pub width: u32,
}

impl Depthwise {
    /// Eight elements per thread.
    pub fn launch(&self, float: Float) -> Launch {
        let s = &self.signals;
        let wide = wide(self.width, &[self.out, self.padded, self.w, self.bias]);
        launch(
            of(&DEPTHWISE, float),
            [blocks(s.rows, self.width), 1, 1],
            THREADS,
            args![
                self.out,
                self.padded,
                self.w,
                self.bias,
                s.from,
                s.count,
                s.keep,
                self.taps,
                self.dilation,
                self.width,
                s.rows,
                wide,
            ],
        )
    }
}
