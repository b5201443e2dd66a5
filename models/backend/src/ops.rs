//! Operations of the networks, grouped by kind.

use super::{
    AttentionShape, Batch, GpuFigures, Params, Part, Pass, Result, Routing, Signals, StepKey, Taps,
    TellFallback, TextChosen,
};
use crate::angles::Angles;
use crate::layers::{Act, BiLstm, Conv, Depthwise, Reach, Snake};
use crate::sampling::{Choice, TextChoice};

/// [`Sampler::choose_text`] by the host.
pub fn choose_on_host<B: Activations>(
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

/// The machine that computes.
pub trait ComputeDevice: Params {
    /// A clone with its own activation memory, for a worker.
    fn replica(&self) -> Result<Self> {
        Ok(self.clone())
    }
    /// As [`ComputeDevice::replica`], for a worker whose many small steps go before the large ones of others: a token
    /// loop's beside a vocoder's.
    fn urgent_replica(&self) -> Result<Self> {
        self.replica()
    }
    /// Work given to a GPU, if one computes.
    fn figures(&self) -> Option<GpuFigures> {
        None
    }
    /// Takes the reasons why steps were computed with more effort than necessary since the last call.
    fn take_fallbacks(&self) -> Vec<String> {
        Vec::new()
    }
    /// As [`ComputeDevice::take_fallbacks`], as it happens.
    fn tell_fallbacks(&self, _to: TellFallback) {}
}

/// The sizes that steps are rounded up to, so that there are few.
pub trait StepSizes {
    /// Returns true if sizes are rounded up. Then ids that a table does not have add nothing
    /// ([`Embedding::lookup_add`]).
    fn rounds_up(&self) -> bool {
        false
    }
    /// Rows with which a step of `rows` rows is computed. Padding rows are computed and discarded, so that there are
    /// few sizes.
    fn bucket(&self, rows: usize) -> usize {
        rows
    }
    /// As [`StepSizes::bucket`], for the keys that a row may see.
    fn bucket_keys(&self, keys: usize) -> usize {
        keys
    }
    /// The sizes that [`StepSizes::bucket`] gives up to that of `rows`, largest first; none if steps are not known
    /// again.
    fn buckets(&self, _rows: usize) -> Vec<usize> {
        Vec::new()
    }
    /// As [`StepSizes::buckets`], for keys.
    fn buckets_of_keys(&self, _keys: usize) -> Vec<usize> {
        Vec::new()
    }
}

/// Steps: caching between repetitions, and completion.
pub trait Steps: Params {
    /// Runs a step, which a backend may replay from an earlier step with the same key. `step` must issue the same
    /// operations on the same memory for equal keys, and must not read their results.
    fn step<T>(&self, _key: StepKey, step: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        step(self)
    }
    /// As [`Steps::step`], for a step that does not repeat: its uploads are merged, and its operations are queued
    /// once all are known. `stage` names the steps whose memory it may use.
    fn step_once<T>(&self, _stage: &'static str, step: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        step(self)
    }
    /// Waits until all queued work is complete.
    fn wait(&self) -> Result<()> {
        Ok(())
    }
    /// Returns true if work is done on another device, so that the caller can do something else meanwhile.
    fn is_apart(&self) -> bool {
        false
    }
}

/// Activations in memory.
pub trait Activations: Params {
    /// Activations `[rows, width]`.
    type Rows: Send;
    /// Memory for rows that one step leaves for another.
    type Kept: Send + Default;

    fn rows(&self, width: usize, values: Vec<f32>) -> Result<Self::Rows>;
    fn zeros(&self, rows: usize, width: usize) -> Result<Self::Rows>;
    fn host(&self, x: &Self::Rows) -> Result<Vec<f32>>;
    /// Same elements as rows of another width.
    fn reshape(&self, x: Self::Rows, width: usize) -> Result<Self::Rows>;
}

/// Rows by their numbers.
pub trait RowIndexing: Activations {
    /// Rows `index[0], index[1], ...` of `x`.
    fn gather(&self, x: &Self::Rows, index: &[u32]) -> Result<Self::Rows>;
    /// `acc[index[i]] += x[i]`. Rows named twice add up.
    fn scatter_add(&self, acc: Self::Rows, index: &[u32], x: &Self::Rows) -> Result<Self::Rows>;
}

/// Ids between the host and the machine.
pub trait IdTransfer: Params {
    /// Ids `[rows, columns]`, such as a code per codebook for every frame.
    type Ids: Send;
    /// Ids on their way to the host.
    type PendingIds: Send;

    fn ids(&self, columns: usize, ids: Vec<u32>) -> Result<Self::Ids>;
    /// All ids, row by row.
    fn host_ids(&self, ids: &Self::Ids) -> Result<Vec<u32>>;
    /// The ids, if the host has them already.
    fn known<'a>(&self, ids: &'a Self::Ids) -> Option<&'a [u32]>;
    /// As [`IdTransfer::host_ids`], but asynchronous: [`IdTransfer::wait_ids`] returns the ids, in the same order.
    /// Not inside a step.
    fn download_ids(&self, ids: &Self::Ids) -> Result<Self::PendingIds>;
    /// All ids, row by row, when they are there.
    fn wait_ids(&self, pending: Self::PendingIds) -> Result<Vec<u32>>;
}

/// Ids that stay from step to step.
pub trait IdStore: IdTransfer {
    /// Grows ids that persist between steps to `rows` rows, keeping their content; new rows are 0.
    fn grow_ids(&self, ids: &mut Self::Ids, rows: usize) -> Result<()>;
    /// `to[rows[i]] = from[i]`, `rows` naming no row twice. A row that there is not is left out.
    fn put_ids(&self, to: &mut Self::Ids, rows: &[u32], from: &Self::Ids) -> Result<()>;
    /// Gathers rows of ids; rows out of range have arbitrary content.
    fn take_ids(&self, from: &Self::Ids, rows: &[u32]) -> Result<Self::Ids>;
}

/// Tables that ids are looked up in.
pub trait Embedding: RowIndexing + IdStore + Pointwise {
    /// Rows of a table by the ids of one column. A failure in the place of an id ([`crate::sampling::chosen`]) gives
    /// any finite row.
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
    /// [`Embedding::lookup_add`] of the rows of `ids` that `rows` names, without an index; of a row that there is not
    /// nothing is added.
    fn lookup_add_of(
        &self,
        acc: Self::Rows,
        tables: &[&Self::Table],
        ids: &Self::Ids,
        rows: &[u32],
    ) -> Result<Self::Rows> {
        self.lookup_add(acc, tables, &self.take_ids(ids, rows)?, None)
    }
    /// Rows of `width` in pairs: row `index[i]` of `x`, then the table's row by the first id of row `i` of `ids`.
    fn pair_with_lookup(
        &self,
        width: usize,
        x: &Self::Rows,
        index: &[u32],
        table: &Self::Table,
        ids: &Self::Ids,
    ) -> Result<Self::Rows> {
        let count = 2 * u32::try_from(index.len()).unwrap_or(u32::MAX / 2);
        let (first, second): (Vec<u32>, Vec<u32>) = (0..count).partition(|row| row % 2 == 0);
        let pairs = self.zeros(2 * index.len(), width)?;
        let pairs = self.scatter_add(pairs, &first, &self.gather(x, index)?)?;
        self.scatter_add(pairs, &second, &self.lookup(table, ids, 0)?)
    }
    /// For every row of ids, the mean of their rows in a table.
    fn lookup_mean(&self, table: &Self::Table, ids: &Self::Ids) -> Result<Self::Rows>;
}

/// Choices from logits.
pub trait Sampler: Embedding {
    /// Chooses an id for every row of `logits` and stores it in a column of `ids`, whose number is also the group of
    /// the random draw. For failures see [`crate::sampling::chosen`]. The first column of `said` is the one of
    /// [`Choice::said`], which is used only with a backend that [is apart](Steps::is_apart).
    fn sample(
        &self,
        logits: &Self::Rows,
        choices: &[Choice<'_>],
        said: Option<&Self::Ids>,
        ids: &mut Self::Ids,
        column: usize,
    ) -> Result<()>;
    /// [`Sampler::sample`] of the rows of `logits` that `rows` names.
    fn sample_of(
        &self,
        logits: &Self::Rows,
        rows: &[u32],
        choices: &[Choice<'_>],
        said: Option<&Self::Ids>,
        ids: &mut Self::Ids,
        column: usize,
    ) -> Result<()> {
        self.sample(&self.gather(logits, rows)?, choices, said, ids, column)
    }
    /// [`Sampler::sample`], and the chosen ids' rows of a table as [`Embedding::lookup`] gives them.
    fn sample_and_lookup(
        &self,
        logits: &Self::Rows,
        choices: &[Choice<'_>],
        ids: &mut Self::Ids,
        column: usize,
        table: &Self::Table,
    ) -> Result<Self::Rows> {
        self.sample(logits, choices, None, ids, column)?;
        self.lookup(table, ids, column)
    }
    /// Chooses a token for each of `choices`, from the row of `logits [any number, vocab]` that `rows` names, and
    /// gives it to the host. Not inside of a step.
    fn choose_text(
        &self,
        logits: &Self::Rows,
        vocab: usize,
        rows: &[u32],
        choices: &[TextChoice<'_>],
    ) -> Result<Vec<TextChosen>> {
        choose_on_host(self, logits, vocab, rows, choices)
    }
}

/// Weight of an RMS norm, with its epsilon.
pub struct Norm<'a, P: Params> {
    pub weight: &'a P::Vector,
    pub eps: f32,
}

impl<P: Params> Clone for Norm<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Params> Copy for Norm<'_, P> {}

/// A mixture of experts.
pub struct Mixture<'a, P: Params> {
    /// `[experts (+ 1: the shared expert's gate), hidden]`.
    pub router: &'a P::Matrix,
    pub experts: &'a P::Experts,
    /// The shared expert's `[gate | up]` and `down`.
    pub shared: Option<(&'a P::Matrix, &'a P::Matrix)>,
    pub routing: Routing,
}

/// [`Products::norm_mixture_add`], operation by operation.
pub fn add_mixture<B: Products>(
    b: &B,
    x: B::Rows,
    norm: Norm<'_, B>,
    mixture: &Mixture<'_, B>,
    scale: Option<&B::Vector>,
) -> Result<B::Rows> {
    let normal = b.rms_norm(norm.weight, norm.eps, &x)?;
    let scores = b.linear(mixture.router, &normal)?;
    let shared = |(gate_up, down)| b.linear(down, &b.gated(gate_up, &normal)?);
    let shared = mixture.shared.map(shared).transpose()?;
    let experts = mixture.experts;
    let routing = mixture.routing;
    let shared = shared.as_ref();
    match scale {
        None => b.mixture_add(x, experts, routing, &scores, &normal, shared),
        Some(_) => b.add(x, &b.mixture(experts, routing, &scores, &normal, shared)?, scale),
    }
}

/// Products with matrices.
pub trait Products: Normalisation {
    /// `x W^T + b`.
    fn linear(&self, w: &Self::Matrix, x: &Self::Rows) -> Result<Self::Rows>;
    /// [`Products::linear`] of the normalised rows.
    fn norm_linear(&self, norm: Norm<'_, Self>, w: &Self::Matrix, x: &Self::Rows) -> Result<Self::Rows> {
        self.linear(w, &self.rms_norm(norm.weight, norm.eps, x)?)
    }
    /// `x + scale * (y W^T + b)` per channel; no scale: 1.
    fn linear_add(
        &self,
        x: Self::Rows,
        scale: Option<&Self::Vector>,
        w: &Self::Matrix,
        y: &Self::Rows,
    ) -> Result<Self::Rows> {
        self.add(x, &self.linear(w, y)?, scale)
    }
    /// [`Pointwise::silu`] of [`Products::linear`].
    fn linear_silu(&self, w: &Self::Matrix, x: &Self::Rows) -> Result<Self::Rows> {
        self.silu(self.linear(w, x)?)
    }
    /// Normalised rows and their product, both at fixed addresses for following steps; valid until the next call.
    fn keep_norm_linear(
        &self,
        norm: Norm<'_, Self>,
        w: &Self::Matrix,
        x: &Self::Rows,
        _kept: (&mut Self::Kept, &mut Self::Kept),
    ) -> Result<(Self::Rows, Self::Rows)> {
        let normal = self.rms_norm(norm.weight, norm.eps, x)?;
        let product = self.linear(w, &normal)?;
        Ok((normal, product))
    }
    /// [`Pointwise::gelu`] of [`Products::linear`].
    fn linear_gelu(&self, w: &Self::Matrix, x: &Self::Rows) -> Result<Self::Rows> {
        self.gelu(self.linear(w, x)?)
    }
    /// `silu(g) * u` for `[g | u] = x W^T`.
    fn gated(&self, w: &Self::Matrix, x: &Self::Rows) -> Result<Self::Rows> {
        self.swiglu(&self.linear(w, x)?)
    }
    /// [`Products::gated`] of the normalised rows.
    fn norm_gated(&self, norm: Norm<'_, Self>, w: &Self::Matrix, x: &Self::Rows) -> Result<Self::Rows> {
        self.gated(w, &self.rms_norm(norm.weight, norm.eps, x)?)
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
    /// `onto +` [`Products::mixture`].
    fn mixture_add(
        &self,
        onto: Self::Rows,
        experts: &Self::Experts,
        routing: Routing,
        scores: &Self::Rows,
        x: &Self::Rows,
        shared: Option<&Self::Rows>,
    ) -> Result<Self::Rows> {
        self.add(onto, &self.mixture(experts, routing, scores, x, shared)?, None)
    }
    /// `x` plus the mixture of experts of its normalised rows.
    fn norm_mixture_add(
        &self,
        x: Self::Rows,
        norm: Norm<'_, Self>,
        mixture: &Mixture<'_, Self>,
    ) -> Result<Self::Rows> {
        add_mixture(self, x, norm, mixture, None)
    }
}

/// Memory of convolutions for the streams that pass through them.
pub trait StreamMemory: Params {
    /// The past of one convolution for a number of streams, `[streams, past rows, width]`.
    type Past: Send;
    /// Signals of a batch, as all convolutions need them.
    type Layout: Send;

    /// Frames that the vocoder does best to take at once.
    const SIGNAL: Pass;

    /// Prepares for causal convolutions over these streams.
    fn signals(&self, parts: Vec<Part>) -> Result<Signals<Self>>;
    /// A convolution's memory, of no stream yet.
    fn past(&self, taps: Taps, width: usize) -> Result<Self::Past>;
    /// Grows to `streams` streams, keeping their content.
    fn grow_past(&self, past: &mut Self::Past, streams: usize) -> Result<()>;
    /// Zeroes the state of a stream.
    fn clear_past(&self, past: &mut Self::Past, stream: u32) -> Result<()>;
}

/// Causal convolutions of several signals.
pub trait Convolutions: Pointwise + StreamMemory {
    /// Samples on their way to the host.
    type PendingSamples: Send;

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
    /// [`Pointwise::snake`] by `after` of [`Convolutions::conv`].
    fn conv_snake(
        &self,
        conv: &Conv<Self>,
        act: Option<&Snake<Self>>,
        x: &Self::Rows,
        signals: &Signals<Self>,
        past: &mut Self::Past,
        after: &Snake<Self>,
    ) -> Result<Self::Rows> {
        self.snake(after, self.conv(conv, act, x, signals, past)?)
    }
    /// As [`Convolutions::conv`], every channel for itself; `w` is `[taps, channels]` flattened.
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
    /// Starts a download of the rows `[rows, 1]` of every stream; [`Convolutions::wait_samples`] returns them, in the
    /// same order.
    fn download_samples(&self, x: &Self::Rows, signals: &Signals<Self>) -> Result<Self::PendingSamples>;
    /// The samples of every stream, when they are there.
    fn wait_samples(&self, pending: Self::PendingSamples) -> Result<Vec<Vec<f32>>>;
}

/// Operations on whole signals, which see both ends of them. The signals of a batch lie one after another, `lens` rows
/// each, and do not see each other.
pub trait WholeSignals: Products + Attention + Embedding {
    /// A convolution of rows that pass `act` first.
    fn convolve(
        &self,
        conv: &Conv<Self>,
        act: Act<'_, Self>,
        x: &Self::Rows,
        lens: &[usize],
        reach: Reach,
    ) -> Result<Self::Rows>;
    /// As [`WholeSignals::convolve`], centred, of rows that are normalised before: of every channel of a signal the mean
    /// is subtracted, and the rest divided by its deviation (`1e-5` is added to the variance), multiplied by `1 + gain`
    /// and shifted. `style` is `[signals, gains | shifts]`. The result is added to `plus`.
    fn adapt_convolve(
        &self,
        conv: &Conv<Self>,
        style: &Self::Rows,
        act: Act<'_, Self>,
        x: &Self::Rows,
        lens: &[usize],
        plus: Option<&Self::Rows>,
    ) -> Result<Self::Rows>;
    /// Input of [`WholeSignals::adapt_convolve`].
    fn adapt(
        &self,
        style: &Self::Rows,
        act: Act<'_, Self>,
        x: &Self::Rows,
        lens: &[usize],
    ) -> Result<Self::Rows>;
    /// A centred convolution of every channel for itself.
    fn convolve_depthwise(
        &self,
        conv: &Depthwise<Self>,
        x: &Self::Rows,
        lens: &[usize],
    ) -> Result<Self::Rows>;
    /// `[first direction | second direction]` of every row.
    fn bilstm(&self, lstm: &BiLstm<Self>, x: &Self::Rows, lens: &[usize]) -> Result<Self::Rows>;
    /// `max(x, slope * x)`.
    fn leaky(&self, slope: f32, x: Self::Rows) -> Result<Self::Rows>;
    /// The form with tanh.
    fn gelu_tanh(&self, x: Self::Rows) -> Result<Self::Rows>;
}

/// Norms of rows.
pub trait Normalisation: Pointwise {
    fn rms_norm(&self, w: &Self::Vector, eps: f32, x: &Self::Rows) -> Result<Self::Rows>;
    fn layer_norm(
        &self,
        w: &Self::Vector,
        bias: &Self::Vector,
        eps: f32,
        x: &Self::Rows,
    ) -> Result<Self::Rows>;
}

/// Operations on every element, or on all of a channel.
pub trait Pointwise: Activations {
    /// `x + scale * y` per channel; no scale: 1.
    fn add(&self, x: Self::Rows, y: &Self::Rows, scale: Option<&Self::Vector>) -> Result<Self::Rows>;
    fn silu(&self, x: Self::Rows) -> Result<Self::Rows>;
    /// The exact (erf) form.
    fn gelu(&self, x: Self::Rows) -> Result<Self::Rows>;
    /// `[gate | up]` to `silu(gate) * up`.
    fn swiglu(&self, x: &Self::Rows) -> Result<Self::Rows>;
    /// `x + sin(x * a)^2 * b` per channel.
    fn snake(&self, snake: &Snake<Self>, x: Self::Rows) -> Result<Self::Rows>;
}

/// Attention and its cache of keys and values.
pub trait Attention: Activations {
    /// Keys and values of one layer, `[slots, kv_width]` each.
    type Kv: Send;
    /// Rotations and cache rows of a batch, which all layers share.
    type Places;

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

/// All operations of the networks.
pub trait Backend:
    ComputeDevice + StepSizes + Steps + IdStore + Embedding + Sampler + Products + Convolutions + Attention
{
}

impl<B> Backend for B where
    B: ComputeDevice
        + StepSizes
        + Steps
        + IdStore
        + Embedding
        + Sampler
        + Products
        + Convolutions
        + Attention
{
}
