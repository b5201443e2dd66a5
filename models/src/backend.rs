//! What the networks are written in: a few wide operations on rows, with one implementation per kind of machine.
//!
//! Every activation is `Rows`: a matrix `[rows, width]`, a row being a position of a sequence or a moment of a signal
//! (channels last). Rows of several sequences lie one after another, each sequence as long as it is; nothing is
//! padded. The networks are described once, over [`Backend`]; [`Cpu`] computes in f32 with its own kernels, [`Candle`]
//! composes tensor operations and runs in any float type on any device that candle knows.

mod candle;
mod cpu;

pub(crate) use candle::Candle;
pub(crate) use cpu::Cpu;

use crate::checkpoint::HostTensor;
use crate::loader::{Conv, Snake};

/// A computation that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ComputeError(pub(crate) String);

impl From<candle_core::Error> for ComputeError {
    fn from(error: candle_core::Error) -> Self {
        // The lines after the first are a backtrace.
        Self(error.to_string().lines().next().unwrap_or_default().to_owned())
    }
}

impl From<ComputeError> for omni_engine::ModelError {
    fn from(error: ComputeError) -> Self {
        Self::Compute(error.0)
    }
}

pub(crate) type Result<T> = std::result::Result<T, ComputeError>;

/// How weights are held.
pub(crate) trait Params: Clone + Send + Sync + 'static {
    /// A matrix `[out, in]` with an optional bias `[out]`, ready to multiply with.
    type Matrix: Send + Sync;
    /// One number per channel.
    type Vector: Send + Sync;
    /// Rows to look up.
    type Table: Send + Sync;

    /// Whether tensors are only checked: then every tensor arrives empty.
    const DRY: bool = false;

    /// `parts` are `[out_i, in]` each and are stacked along `out`.
    fn matrix(&self, parts: &[HostTensor], bias: Option<&HostTensor>) -> Result<Self::Matrix>;
    fn vector(&self, values: &HostTensor) -> Result<Self::Vector>;
    fn table(&self, values: HostTensor) -> Result<Self::Table>;
}

/// Checks a checkpoint against the networks without reading a single weight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DryRun;

impl Params for DryRun {
    type Matrix = ();
    type Vector = ();
    type Table = ();
    const DRY: bool = true;

    fn matrix(&self, _: &[HostTensor], _: Option<&HostTensor>) -> Result<()> {
        Ok(())
    }

    fn vector(&self, _: &HostTensor) -> Result<()> {
        Ok(())
    }

    fn table(&self, _: HostTensor) -> Result<()> {
        Ok(())
    }
}

/// The shape of an attention layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionShape {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) eps: f32,
    /// Keys that a query sees, itself included.
    pub(crate) window: Option<usize>,
}

impl AttentionShape {
    /// Width of the keys (and of the values) of one position.
    pub(crate) fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Width of the queries of one position.
    pub(crate) fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }
}

/// One sequence's part of a batch: queries at positions `start .. start + len`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Position of the first key in `keys`.
    pub(crate) first_key: usize,
    /// Where [`Batch::slots`] begins to list the cache rows of the positions `first_key .. start + len`.
    keys: usize,
}

impl Span {
    /// Positions that this span's queries may see.
    pub(crate) fn keys(&self) -> usize {
        self.start + self.len - self.first_key
    }
}

/// Which positions a batch computes and where their keys and values are.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    spans: Vec<Span>,
    slots: Vec<u32>,
    /// Where every row stands in time, height and width.
    axes: Vec<[u32; 3]>,
}

impl Batch {
    /// Adds a sequence; `slot(p)` is the cache row of position `p`.
    pub(crate) fn push(&mut self, start: usize, len: usize, first_key: usize, slot: impl Fn(usize) -> u32) {
        let same = |p| [u32::try_from(p).unwrap_or(u32::MAX); 3];
        self.push_at(start, len, first_key, slot, same);
    }

    /// As [`Batch::push`]; `axes(p)` is where position `p` stands in time, height and width.
    pub(crate) fn push_at(
        &mut self,
        start: usize,
        len: usize,
        first_key: usize,
        slot: impl Fn(usize) -> u32,
        axes: impl Fn(usize) -> [u32; 3],
    ) {
        let keys = self.slots.len();
        self.slots.extend((first_key..start + len).map(slot));
        self.axes.extend((start..start + len).map(axes));
        self.spans.push(Span {
            start,
            len,
            first_key,
            keys,
        });
    }

    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Cache rows of a span's keys, from position `first_key` on.
    pub(crate) fn slots(&self, span: &Span) -> &[u32] {
        &self.slots[span.keys..span.keys + span.keys()]
    }

    /// Cache rows of the positions that a span computes.
    pub(crate) fn new_slots(&self, span: &Span) -> &[u32] {
        &self.slots(span)[span.start - span.first_key..]
    }

    /// Rows of the batch.
    pub(crate) fn rows(&self) -> usize {
        self.axes.len()
    }

    /// Where every row stands in time, height and width.
    pub(crate) fn axes(&self) -> &[[u32; 3]] {
        &self.axes
    }

    /// The last row of every span.
    pub(crate) fn last_rows(&self) -> Vec<u32> {
        let mut end = 0;
        self.spans
            .iter()
            .map(|s| {
                end += s.len;
                u32::try_from(end - 1).unwrap_or(u32::MAX)
            })
            .collect()
    }
}

/// A causal convolution over time: `taps` rows, `dilation` apart, the last being the present one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taps {
    pub(crate) taps: usize,
    pub(crate) dilation: usize,
}

impl Taps {
    /// Past rows that the present one needs.
    pub(crate) fn past(&self) -> usize {
        (self.taps - 1) * self.dilation
    }
}

/// How much of a signal to compute in one pass; more goes in several, which bounds memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    /// Frames of one stream.
    pub(crate) per_stream: usize,
    /// Frames of all streams.
    pub(crate) in_all: usize,
}

/// The operations that the networks are made of.
pub(crate) trait Backend: Params {
    /// Activations `[rows, width]`.
    type Rows: Send;
    /// Keys and values of one layer, `[slots, kv_width]` each.
    type Kv: Send;
    /// Cosines and sines for the positions of a batch.
    type Rope;

    /// Frames that the vocoder does best to take at once.
    const SIGNAL: Pass;

    fn rows(&self, width: usize, values: Vec<f32>) -> Result<Self::Rows>;
    fn zeros(&self, rows: usize, width: usize) -> Result<Self::Rows>;
    /// Zeros that stay for long, such as a stream's memory: they take no more room than they need.
    fn lasting(&self, rows: usize, width: usize) -> Result<Self::Rows>;
    fn host(&self, x: &Self::Rows) -> Result<Vec<f32>>;
    /// The same elements as rows of another width.
    fn reshape(&self, x: Self::Rows, width: usize) -> Result<Self::Rows>;
    /// Rows `index[0], index[1], ...` of `x`.
    fn gather(&self, x: &Self::Rows, index: &[u32]) -> Result<Self::Rows>;
    /// `acc[index[i]] += weight[i] * x[i]`; no weights: 1. Rows named twice add up.
    fn scatter_add(
        &self,
        acc: Self::Rows,
        index: &[u32],
        weight: Option<&[f32]>,
        x: &Self::Rows,
    ) -> Result<Self::Rows>;
    fn lookup(&self, table: &Self::Table, ids: &[u32]) -> Result<Self::Rows>;
    /// Mean of every `group` consecutive ids' rows.
    fn lookup_mean(&self, table: &Self::Table, ids: &[u32], group: usize) -> Result<Self::Rows>;

    /// `x W^T + b`.
    fn linear(&self, w: &Self::Matrix, x: &Self::Rows) -> Result<Self::Rows>;
    /// A causal convolution of several signals of `lens` rows each, through `act` first if there is one.
    /// `past` holds, for each signal, the last [`Taps::past`] rows that went in before, and is brought up to date.
    fn conv(
        &self,
        conv: &Conv<Self>,
        act: Option<&Snake<Self>>,
        x: &Self::Rows,
        lens: &[usize],
        past: &mut [&mut Self::Rows],
    ) -> Result<Self::Rows>;
    /// As [`Backend::conv`], every channel for itself; `w` is `[taps, channels]` flattened.
    fn depthwise(
        &self,
        w: &Self::Vector,
        bias: &Self::Vector,
        taps: Taps,
        x: &Self::Rows,
        lens: &[usize],
        past: &mut [&mut Self::Rows],
    ) -> Result<Self::Rows>;

    fn rms_norm(&self, w: &Self::Vector, eps: f32, x: &Self::Rows) -> Result<Self::Rows>;
    fn layer_norm(
        &self,
        w: &Self::Vector,
        bias: &Self::Vector,
        eps: f32,
        x: &Self::Rows,
    ) -> Result<Self::Rows>;
    /// `x + scale * y` per channel; no scale: 1.
    fn add(&self, x: Self::Rows, y: &Self::Rows, scale: Option<&Self::Vector>) -> Result<Self::Rows>;
    fn silu(&self, x: Self::Rows) -> Result<Self::Rows>;
    /// The exact (erf) form.
    fn gelu(&self, x: Self::Rows) -> Result<Self::Rows>;
    /// `[gate | up]` to `silu(gate) * up`.
    fn swiglu(&self, x: &Self::Rows) -> Result<Self::Rows>;
    /// `x + sin(x * a)^2 * b` per channel.
    fn snake(&self, snake: &Snake<Self>, x: Self::Rows) -> Result<Self::Rows>;

    /// `angles` are `[rows, head_dim / 2]`.
    fn rope(&self, angles: Vec<f32>, head_dim: usize) -> Result<Self::Rope>;
    fn kv(&self, slots: usize, width: usize) -> Result<Self::Kv>;
    /// Makes room for `slots` rows in all, keeping those that are there.
    fn grow(&self, kv: &mut Self::Kv, slots: usize) -> Result<()>;
    /// Causal grouped-query attention. `qkv` is `[queries | keys | values]`; query and key heads are normalised
    /// (if `norms` are given) and rotated, keys and values stored, queries attended. Returns `[rows, q_width]`.
    fn attention(
        &self,
        shape: &AttentionShape,
        norms: Option<(&Self::Vector, &Self::Vector)>,
        qkv: Self::Rows,
        rope: &Self::Rope,
        batch: &Batch,
        kv: &mut Self::Kv,
    ) -> Result<Self::Rows>;
    /// Attention without order or cache: every row sees all rows of its block, blocks of `lens` rows lying one after
    /// another. `qkv` is `[queries | keys | values]`. Returns `[rows, q_width]`.
    fn attention_within(
        &self,
        shape: &AttentionShape,
        qkv: &Self::Rows,
        lens: &[usize],
    ) -> Result<Self::Rows>;
}
