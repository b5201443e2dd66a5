//! Operations of which the networks are written: few and wide, on rows, with one implementation per kind of machine.
//!
//! Every activation is `Rows`: a matrix `[rows, width]`, a row being a position of a sequence or a moment of a signal
//! (channels last). Rows of several sequences lie one after another, each sequence as long as it is. The networks are
//! described once, over [`Backend`] or those of its parts that they use; [`Cpu`] computes in f32 with its
//! own kernels, [`Candle`] is made of candle's layers and runs in any float type on any device that candle knows.
//!
//! What the networks decide while they compute (which expert, which code) they decide by operations, so that a machine
//! apart can do a whole step without being asked. Ids are its own, too ([`IdTransfer::Ids`]).

// Part of the models, and no library for others: items are documented where their names do not say enough.
#![allow(missing_docs, missing_debug_implementations)]

mod angles;
mod batch;
mod candle;
mod cpu;
#[cfg(any(feature = "cuda", feature = "emulator"))]
mod gpu;
pub mod host;
mod host_ids;
mod layers;
mod ops;
mod philox;
mod routed;
pub mod sampling;
mod signals;
mod weights;

pub use angles::Angles;
pub use batch::Batch;
pub(crate) use batch::Span;
pub use candle::Candle;
pub use cpu::Cpu;
pub use cpu::share_small_products;
#[cfg(any(feature = "cuda", feature = "emulator"))]
pub use gpu::Gpu;
pub use layers::{Act, BiLstm, Conv, Depthwise, Reach, Snake};
pub use ops::*;
pub use philox::normal_pair;
pub use signals::{Part, Signals};
pub use weights::Weights;

use std::time::Duration;

#[cfg(unix)]
use crate::host::FileRows;
use crate::host::HostTensor;
use crate::sampling::{Chosen, NotFinite};

/// A computation that failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ComputeError {
    /// It may work the next time.
    #[error("{0}")]
    Failed(String),
    /// The device is unusable until the process restarts.
    #[error("{0}")]
    Lost(String),
}

impl From<candle_core::Error> for ComputeError {
    fn from(error: candle_core::Error) -> Self {
        // The lines after the first are a backtrace.
        Self::Failed(error.to_string().lines().next().unwrap_or_default().to_owned())
    }
}

impl From<ComputeError> for omni_engine::ModelError {
    fn from(error: ComputeError) -> Self {
        match error {
            ComputeError::Failed(message) => Self::Compute(message),
            ComputeError::Lost(message) => Self::Lost(message),
        }
    }
}

pub type Result<T> = std::result::Result<T, ComputeError>;

/// Least precision of a matrix with which the model stays accurate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// Output heads: neighbouring logits decide which code is chosen.
    Int8,
    /// Routers, and networks that compute signals.
    Stored,
}

/// Storage of matrices.
pub trait Matrices: Clone + Send + Sync + 'static {
    /// A matrix `[out, in]` with an optional bias `[out]`, ready to multiply with.
    type Matrix: Send + Sync;
    /// The experts of a mixture.
    type Experts: Send + Sync;

    /// `true` if tensors are only checked: then every tensor arrives empty.
    const DRY: bool = false;

    /// As above, but keeps every matrix in at least the bits of `least`.
    fn with_least(&self, _least: Precision) -> Self {
        self.clone()
    }

    /// `parts` are `[out_i, in]` each and are stacked along `out`.
    fn matrix(&self, parts: &[HostTensor], bias: Option<&HostTensor>) -> Result<Self::Matrix>;
    /// Packs the matrices of all experts: `[gate | up]` of shape `[2 * inner, hidden]` and `down` of shape `[hidden,
    /// inner]` each.
    fn experts(&self, experts: Vec<(Self::Matrix, Self::Matrix)>) -> Result<Self::Experts>;
}

/// Storage of vectors and tables.
pub trait Tables: Clone + Send + Sync + 'static {
    /// One number per channel.
    type Vector: Send + Sync;
    /// Rows to look up.
    type Table: Send + Sync;

    fn vector(&self, values: &HostTensor) -> Result<Self::Vector>;
    fn table(&self, values: HostTensor) -> Result<Self::Table>;
    /// A table whose rows stay in their file, if such a one is wanted.
    #[cfg(unix)]
    fn table_in_file(&self, _rows: FileRows) -> Option<Self::Table> {
        None
    }
}

/// Storage of all weights.
pub trait Params: Matrices + Tables {}

impl<P: Matrices + Tables> Params for P {}

/// Checks a checkpoint against the networks without reading a single weight.
#[derive(Debug, Clone, Copy)]
pub struct DryRun;

impl Matrices for DryRun {
    type Matrix = ();
    type Experts = ();
    const DRY: bool = true;

    fn matrix(&self, _: &[HostTensor], _: Option<&HostTensor>) -> Result<()> {
        Ok(())
    }

    fn experts(&self, _: Vec<((), ())>) -> Result<()> {
        Ok(())
    }
}

impl Tables for DryRun {
    type Vector = ();
    type Table = ();

    fn vector(&self, _: &HostTensor) -> Result<()> {
        Ok(())
    }

    fn table(&self, _: HostTensor) -> Result<()> {
        Ok(())
    }
}

/// The shape of an attention layer.
#[derive(Debug, Clone, Copy)]
pub struct AttentionShape {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub eps: f32,
    /// Keys that a query sees, itself included.
    pub window: Option<usize>,
}

impl AttentionShape {
    /// Width of the keys (and of the values) of one position.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Width of the queries of one position.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }
}

/// A causal convolution over time: `taps` rows, `dilation` apart, the last being the present one.
#[derive(Debug, Clone, Copy)]
pub struct Taps {
    pub taps: usize,
    pub dilation: usize,
}

impl Taps {
    /// Past rows that the present one needs.
    pub fn past(&self) -> usize {
        (self.taps - 1) * self.dilation
    }
}

/// Frames of a signal computed in one pass; a longer signal takes several, which bounds memory.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// Frames of one stream.
    pub per_stream: usize,
    /// Frames of all streams.
    pub in_all: usize,
}

/// Routing of rows to the experts of a mixture.
#[derive(Debug, Clone, Copy)]
pub struct Routing {
    pub experts: usize,
    /// Experts per row.
    pub top_k: usize,
    /// Scales the probabilities of the chosen experts to a sum of 1.
    pub normalise: bool,
}

/// Work given to a GPU so far, by everything that computes on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuFigures {
    /// Launches outside of graphs.
    pub launches: u64,
    /// Graphs recorded.
    pub graphs: u64,
    /// Launches in recorded graphs.
    pub recorded_launches: u64,
    /// Graphs launched again.
    pub replays: u64,
    /// Launches in those.
    pub replayed_launches: u64,
    /// Steps that were to be a graph and were launched without.
    pub fallbacks: u64,
    /// Time that the device worked on graphs whose results were read.
    pub busy: Duration,
}

/// Callback with the reason a step was computed less efficiently than possible.
pub type TellFallback = Box<dyn Fn(&str) + Send + Sync>;

/// Identity of a step by network and size: two steps with equal keys launch the same operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StepKey {
    /// The network.
    pub stage: &'static str,
    /// Rows or frames, a bucket.
    pub rows: usize,
    /// Other size of its operations, a bucket: keys that a row sees, signals, codes of the past.
    pub also: usize,
    /// Rows (a bucket) after which logits are needed, for steps with prompts beside decodes; else 0.
    pub ends: usize,
}

/// A token, or why there is none.
pub type TextChosen = std::result::Result<Chosen, NotFinite>;
