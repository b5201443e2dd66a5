//! What the networks are written in: a few wide operations on rows, with one implementation per kind of machine.
//!
//! Every activation is `Rows`: a matrix `[rows, width]`, a row being a position of a sequence or a moment of a signal
//! (channels last). Rows of several sequences lie one after another, each sequence as long as it is. The networks are
//! described once, over [`Backend`]; [`Cpu`] computes in f32 with its own kernels, [`Candle`] composes tensor operations
//! and runs in any float type on any device that candle knows.
//!
//! What the networks decide while they compute (which expert, which code) they decide by operations, so that a machine
//! apart can do a whole step without being asked. Ids are its own, too ([`Backend::Ids`]).

mod batch;
mod candle;
mod cpu;
#[cfg(any(feature = "cuda", feature = "emulator"))]
mod gpu;
mod host_ids;
mod routed;
mod signals;

pub(crate) use batch::{Batch, Span};
pub(crate) use candle::Candle;
pub(crate) use cpu::Cpu;
#[cfg(any(feature = "cuda", feature = "emulator"))]
pub(crate) use gpu::Gpu;
pub(crate) use signals::{Part, Signals};

use std::time::Duration;

#[cfg(unix)]
use crate::checkpoint::FileRows;
use crate::checkpoint::HostTensor;
use crate::loader::{Conv, Depthwise, Snake};
use crate::nn::Angles;
use crate::sampling::{Choice, Chosen, NotFinite, TextChoice};

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

/// What a matrix needs so that the model stays itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Precision {
    /// Output heads: neighbouring logits decide which code is chosen.
    Int8,
    /// Routers, and networks that compute signals.
    Stored,
}

/// How weights are held.
pub(crate) trait Params: Clone + Send + Sync + 'static {
    /// A matrix `[out, in]` with an optional bias `[out]`, ready to multiply with.
    type Matrix: Send + Sync;
    /// One number per channel.
    type Vector: Send + Sync;
    /// Rows to look up.
    type Table: Send + Sync;
    /// The experts of a mixture.
    type Experts: Send + Sync;

    /// Whether tensors are only checked: then every tensor arrives empty.
    const DRY: bool = false;

    /// The same, but that no matrix is kept in fewer bits than `least` names.
    fn with_least(&self, _least: Precision) -> Self {
        self.clone()
    }

    /// `parts` are `[out_i, in]` each and are stacked along `out`.
    fn matrix(&self, parts: &[HostTensor], bias: Option<&HostTensor>) -> Result<Self::Matrix>;
    fn vector(&self, values: &HostTensor) -> Result<Self::Vector>;
    fn table(&self, values: HostTensor) -> Result<Self::Table>;
    /// A table whose rows stay in their file, if such a one is wanted.
    #[cfg(unix)]
    fn table_in_file(&self, _rows: FileRows) -> Option<Self::Table> {
        None
    }
    /// Of every expert the matrix `[gate | up]` of shape `[2 * inner, hidden]` and `down` of shape `[hidden, inner]`.
    fn experts(&self, experts: Vec<(Self::Matrix, Self::Matrix)>) -> Result<Self::Experts>;
}

/// Checks a checkpoint against the networks without reading a single weight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DryRun;

impl Params for DryRun {
    type Matrix = ();
    type Vector = ();
    type Table = ();
    type Experts = ();
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

    fn experts(&self, _: Vec<((), ())>) -> Result<()> {
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

/// What a mixture of experts does with a row besides multiplying.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Routing {
    pub(crate) experts: usize,
    /// Experts per row.
    pub(crate) top_k: usize,
    /// Whether the chosen experts' probabilities are made to sum to 1.
    pub(crate) normalise: bool,
}

/// What was asked of a GPU so far, by all that compute on it.
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
    /// How long the device worked on graphs whose results were looked at.
    pub busy: Duration,
}

/// Is told why a step was computed with more effort than necessary.
pub type TellFallback = Box<dyn Fn(&str) + Send + Sync>;

/// Which step is computed, and how large it is: two steps with equal keys launch the same operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StepKey {
    /// The network.
    pub(crate) stage: &'static str,
    /// Rows or frames, a bucket.
    pub(crate) rows: usize,
    /// What else decides how large its operations are, a bucket: keys that a row sees, signals, codes of the past.
    pub(crate) also: usize,
}

/// A token, or why there is none.
pub(crate) type TextChosen = std::result::Result<Chosen, NotFinite>;

/// [`Backend::choose_text`] by the host.
fn choose_on_host<B: Backend>(
    b: &B,
    logits: &B::Rows,
    vocab: usize,
    rows: &[u32],
    choices: &[TextChoice<'_>],
) -> Result<Vec<TextChosen>> {
    let logits = b.host(logits)?;
    let row = |row: u32| &logits[row as usize * vocab..(row as usize + 1) * vocab];
    Ok(rows
        .iter()
        .zip(choices)
        .map(|(&i, choice)| choice.make(row(i)))
        .collect())
}

/// The operations that the networks are made of.
pub(crate) trait Backend: Params {
    /// Activations `[rows, width]`.
    type Rows: Send;
    /// Ids `[rows, columns]`, such as a code per codebook for every frame.
    type Ids: Send;
    /// Ids on their way to the host.
    type Coming: Send;
    /// Samples on their way to the host.
    type ComingSamples: Send;
    /// Keys and values of one layer, `[slots, kv_width]` each.
    type Kv: Send;
    /// The past of one convolution for a number of streams, `[streams, past rows, width]`.
    type Past: Send;
    /// Memory for rows that one step leaves for another.
    type Kept: Send + Default;
    /// What all layers need of a batch: rotations, cache rows.
    type Places;
    /// What all convolutions need of the signals of a batch.
    type Layout: Send;

    /// Frames that the vocoder does best to take at once.
    const SIGNAL: Pass;

    /// As a clone, but with memory for activations of its own: a worker's.
    fn replica(&self) -> Result<Self> {
        Ok(self.clone())
    }

    /// What a GPU was asked to do, if one computes.
    fn figures(&self) -> Option<GpuFigures> {
        None
    }

    /// Why steps were computed with more effort than necessary, as far as nobody has asked yet.
    fn take_fallbacks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Rows with which a step of so many rows is computed. More than given: the rest is computed and thrown away, so
    /// that there are few sizes.
    fn bucket(&self, rows: usize) -> usize {
        rows
    }

    /// As [`Backend::bucket`], for the keys that a row may see.
    fn bucket_keys(&self, keys: usize) -> usize {
        keys
    }

    /// As [`Backend::take_fallbacks`], as it happens.
    fn tell_fallbacks(&self, _to: TellFallback) {}

    /// The sizes that [`Backend::bucket`] gives up to that of `rows`, largest first; none if steps are not known again.
    fn buckets(&self, _rows: usize) -> Vec<usize> {
        Vec::new()
    }

    /// As [`Backend::buckets`], for keys.
    fn buckets_of_keys(&self, _keys: usize) -> Vec<usize> {
        Vec::new()
    }

    /// Computes a step, most of whose operations a backend may know already from a step with this key. `step` must do
    /// the same operations on the same memory whenever the key is the same, and must not look at what they computed.
    fn step<T>(&self, _key: StepKey, step: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        step(self)
    }

    /// Waits until all that was asked for is done.
    fn wait(&self) -> Result<()> {
        Ok(())
    }

    /// Whether what is asked for is done elsewhere, so that there is something else to do meanwhile.
    fn is_apart(&self) -> bool {
        false
    }

    fn rows(&self, width: usize, values: Vec<f32>) -> Result<Self::Rows>;
    fn zeros(&self, rows: usize, width: usize) -> Result<Self::Rows>;
    fn host(&self, x: &Self::Rows) -> Result<Vec<f32>>;
    /// The same rows where such rows always are, for steps that go on with them; they stay until the next are kept.
    fn keep(&self, x: Self::Rows, kept: &mut Self::Kept) -> Result<Self::Rows>;
    /// The same elements as rows of another width.
    fn reshape(&self, x: Self::Rows, width: usize) -> Result<Self::Rows>;
    /// Rows `index[0], index[1], ...` of `x`.
    fn gather(&self, x: &Self::Rows, index: &[u32]) -> Result<Self::Rows>;
    /// `acc[index[i]] += x[i]`. Rows named twice add up.
    fn scatter_add(&self, acc: Self::Rows, index: &[u32], x: &Self::Rows) -> Result<Self::Rows>;

    fn ids(&self, columns: usize, ids: Vec<u32>) -> Result<Self::Ids>;
    /// All ids, row by row.
    fn host_ids(&self, ids: &Self::Ids) -> Result<Vec<u32>>;
    /// The ids where looking at them costs nothing and holds nobody up.
    fn known<'a>(&self, ids: &'a Self::Ids) -> Option<&'a [u32]>;
    /// As [`Backend::host_ids`], without waiting: [`Backend::come`] does, in the same order. Not inside of a step.
    fn order_ids(&self, ids: &Self::Ids) -> Result<Self::Coming>;
    /// All ids, row by row, when they are there.
    fn come(&self, coming: Self::Coming) -> Result<Vec<u32>>;
    /// Makes room for so many rows of ids that stay from step to step, keeping what is there; new ones are 0.
    fn grow_ids(&self, ids: &mut Self::Ids, rows: usize) -> Result<()>;
    /// `to[rows[i]] = from[i]`, `rows` naming no row twice. A row that there is not is left out.
    fn put_ids(&self, to: &mut Self::Ids, rows: &[u32], from: &Self::Ids) -> Result<()>;
    /// Rows of ids; anything where there is no such row.
    fn take_ids(&self, from: &Self::Ids, rows: &[u32]) -> Result<Self::Ids>;
    /// Rows of a table by the ids of one column. A failure in the place of an id ([`crate::sampling::chosen`]) gives any
    /// finite row.
    fn lookup(&self, table: &Self::Table, ids: &Self::Ids, column: usize) -> Result<Self::Rows>;
    /// `acc[index[i]] += sum over g of tables[g][ids[i, g]]`, `index` naming no row twice; without an index row `i`.
    fn lookup_add(
        &self,
        mut acc: Self::Rows,
        tables: &[&Self::Table],
        ids: &Self::Ids,
        index: Option<&[u32]>,
    ) -> Result<Self::Rows> {
        for (column, table) in tables.iter().enumerate() {
            let rows = self.lookup(table, ids, column)?;
            acc = match index {
                Some(index) => self.scatter_add(acc, index, &rows)?,
                None => self.add(acc, &rows, None)?,
            };
        }
        Ok(acc)
    }
    /// For every row of ids, the mean of their rows of a table.
    fn lookup_mean(&self, table: &Self::Table, ids: &Self::Ids) -> Result<Self::Rows>;
    /// Chooses an id for every row of `logits` and puts it into a column of `ids`, which is also the group of the
    /// random draw. Where that fails, see [`crate::sampling::chosen`]. The first column of `said` is what [`Choice::said`]
    /// names; only a backend that [is apart](Backend::is_apart) is asked for that.
    fn sample(
        &self,
        logits: &Self::Rows,
        choices: &[Choice<'_>],
        said: Option<&Self::Ids>,
        ids: &mut Self::Ids,
        column: usize,
    ) -> Result<()>;

    /// Chooses a token for each of `choices`, from the row of `logits [any number, vocab]` that `rows` names, and gives it
    /// to the host. Not inside of a step.
    fn choose_text(
        &self,
        logits: &Self::Rows,
        vocab: usize,
        rows: &[u32],
        choices: &[TextChoice<'_>],
    ) -> Result<Vec<TextChosen>> {
        choose_on_host(self, logits, vocab, rows, choices)
    }

    /// `x W^T + b`.
    fn linear(&self, w: &Self::Matrix, x: &Self::Rows) -> Result<Self::Rows>;
    /// `silu(g) * u` for `[g | u] = x W^T`.
    fn gated(&self, w: &Self::Matrix, x: &Self::Rows) -> Result<Self::Rows> {
        self.swiglu(&self.linear(w, x)?)
    }
    /// The experts' share of every row of `x`: `sum p_e expert_e(x)` over the `top_k` experts with the highest scores,
    /// `p` being the softmax over all scores, and an expert being `down(silu(gate(x)) * up(x))`. `scores` are
    /// `[rows, experts]`, and with a shared expert `[rows, experts + 1]`: then `sigmoid(last score) * shared` is added.
    fn mixture(
        &self,
        experts: &Self::Experts,
        routing: Routing,
        scores: &Self::Rows,
        x: &Self::Rows,
        shared: Option<&Self::Rows>,
    ) -> Result<Self::Rows>;

    /// Prepares for causal convolutions over these streams.
    fn signals(&self, parts: Vec<Part>) -> Result<Signals<Self>>;
    /// A convolution's memory, of no stream yet.
    fn past(&self, taps: Taps, width: usize) -> Result<Self::Past>;
    /// Makes room for `streams` in all, keeping what is there.
    fn grow_past(&self, past: &mut Self::Past, streams: usize) -> Result<()>;
    /// Forgets what a stream had: zeros.
    fn clear_past(&self, past: &mut Self::Past, stream: u32) -> Result<()>;
    /// A causal convolution of several signals, through `act` first if there is one. `past` holds the last
    /// [`Taps::past`] rows that went in before, and is brought up to date.
    fn conv(
        &self,
        conv: &Conv<Self>,
        act: Option<&Snake<Self>>,
        x: &Self::Rows,
        signals: &Signals<Self>,
        past: &mut Self::Past,
    ) -> Result<Self::Rows>;
    /// As [`Backend::conv`], every channel for itself; `w` is `[taps, channels]` flattened.
    fn depthwise(
        &self,
        conv: &Depthwise<Self>,
        x: &Self::Rows,
        signals: &Signals<Self>,
        past: &mut Self::Past,
    ) -> Result<Self::Rows>;
    /// Rows of which the `dropped` first of every stream are to go (which [`Signals::drop_first`] has noted), without
    /// them, or with anything in their place if that suits the convolutions better.
    fn trim(&self, x: Self::Rows, signals: &Signals<Self>, dropped: usize) -> Result<Self::Rows>;
    /// Asks for the rows `[rows, 1]` of every stream and does not wait: [`Backend::come_samples`] does, in the same order.
    fn order_samples(&self, x: &Self::Rows, signals: &Signals<Self>) -> Result<Self::ComingSamples>;
    /// The samples of every stream, when they are there.
    fn come_samples(&self, coming: Self::ComingSamples) -> Result<Vec<Vec<f32>>>;

    fn rms_norm(&self, w: &Self::Vector, eps: f32, x: &Self::Rows) -> Result<Self::Rows>;
    fn layer_norm(
        &self,
        w: &Self::Vector,
        bias: &Self::Vector,
        eps: f32,
        x: &Self::Rows,
    ) -> Result<Self::Rows>;
    /// [`Backend::add`], then [`Backend::rms_norm`] of the sum: both.
    fn add_norm(
        &self,
        x: Self::Rows,
        y: &Self::Rows,
        scale: Option<&Self::Vector>,
        w: &Self::Vector,
        eps: f32,
    ) -> Result<(Self::Rows, Self::Rows)> {
        let x = self.add(x, y, scale)?;
        let normal = self.rms_norm(w, eps, &x)?;
        Ok((x, normal))
    }
    /// `x + scale * y` per channel; no scale: 1.
    fn add(&self, x: Self::Rows, y: &Self::Rows, scale: Option<&Self::Vector>) -> Result<Self::Rows>;
    fn silu(&self, x: Self::Rows) -> Result<Self::Rows>;
    /// The exact (erf) form.
    fn gelu(&self, x: Self::Rows) -> Result<Self::Rows>;
    /// `[gate | up]` to `silu(gate) * up`.
    fn swiglu(&self, x: &Self::Rows) -> Result<Self::Rows>;
    /// `x + sin(x * a)^2 * b` per channel.
    fn snake(&self, snake: &Snake<Self>, x: Self::Rows) -> Result<Self::Rows>;

    fn places(&self, batch: &Batch, angles: &Angles, shape: &AttentionShape) -> Result<Self::Places>;
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
        places: &Self::Places,
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
