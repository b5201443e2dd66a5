//! Models as the engines call them: plain batches down, plain results up.
//!
//! The traits live here, beside their caller; `omni-models` implements them. A model owns tensors and per-sequence
//! numeric state (KV rows, convolution history, sampling counters); an engine owns everything that decides *what runs
//! when* (order, budgets, KV block ids). Neither knows about threads, sockets or clocks.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::content::ContentKey;
use crate::ids::{BlockId, SeqId};

/// Reason why a model could not do a step.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ModelError {
    /// The request itself cannot be served (its content, not the machine, is at fault).
    #[error("request rejected by the model: {0}")]
    Rejected(String),
    /// The computation failed; every sequence of the batch is lost.
    #[error("computation failed: {0}")]
    Compute(String),
    /// The device is lost to this process: neither this model nor another can do a step on it.
    #[error("device lost: {0}")]
    Lost(String),
}

/// The KV cache that a model has allocated, in positions ("rows") per sequence and blocks overall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvSpec {
    /// Positions per block.
    pub block_size: u32,
    /// Blocks in the pool, at least 2. The engine hands out ids `1..num_blocks`: block 0 is the model's own, for rows
    /// that are never read (the unused rows of a captured graph).
    pub num_blocks: u32,
    /// Longest sequence the model accepts, prompt and generated positions together.
    pub max_len: u32,
}

/// One sequence's part in a step: compute positions `start .. start + len`.
///
/// `len > 1` is a prefill (or a chunk of one), `len == 1` after the prompt is a decode. A step may mix both, of any
/// lengths; the batch is ragged and is never padded.
#[derive(Debug, Clone, Copy)]
pub struct SeqStep<'a> {
    /// The sequence.
    pub seq: SeqId,
    /// Positions whose KV rows are already in the cache. It starts above 0 if other sequences left the rows of the same
    /// prefix (only after [`KvCache::content_keys`] said what stands there), and it goes back when the sequence lost
    /// its blocks to a preemption: a model keeps the inputs of every position until the sequence is closed.
    pub start: u32,
    /// Positions to compute now, at least 1.
    pub len: u32,
    /// KV blocks that cover positions `0 .. start + len`: position `p` lives in `blocks[p / block_size]`, row
    /// `p % block_size`. Only rows `start .. start + len` may be written: blocks before may be other sequences' too.
    pub blocks: &'a [BlockId],
}

/// Result of sampling one sequence.
#[derive(Debug, Clone, PartialEq)]
pub enum Sampled<T> {
    /// One more output; the next step computes one more position.
    Item(T),
    /// The model chose to end (end-of-sequence token); nothing is emitted for this step.
    End,
    /// This sequence alone is broken (for example non-finite logits).
    Failed(String),
}

/// Sequences that a model has open, and what arrives for them.
///
/// Call order for a sequence: `open`, then any number of {`push`, [`execute`](StepExecutor::execute),
/// [`sample`](StepExecutor::sample)}, then `close`.
pub trait Sequences {
    /// Everything needed to begin a sequence (prompt, voice, sampling settings).
    type Request: Send + 'static;
    /// Input that arrives from upstream while the sequence runs (for the talker: text token ids).
    type Row: Send + 'static;

    /// Begins a sequence; returns the number of prompt positions. The prompt may depend on the first pushed row: it
    /// is not read before the first [`execute`](StepExecutor::execute).
    ///
    /// # Errors
    /// [`ModelError::Rejected`] if the request cannot be served; nothing is kept then.
    fn open(&mut self, seq: SeqId, request: Self::Request) -> Result<u32, ModelError>;

    /// Appends upstream rows. `last` says that no more will come.
    fn push(&mut self, seq: SeqId, rows: Vec<Self::Row>, last: bool);

    /// Forgets a sequence. Unknown ids are ignored.
    fn close(&mut self, seq: SeqId);
}

/// Computes steps over open sequences, and samples from them.
///
/// `execute` leaves the last position's hidden state and logits of every sequence addressable until the next `execute`;
/// `sample` finishes the step for those sequences whose computed positions now include everything known so far.
pub trait StepExecutor {
    /// Output of one step (for the talker: a codec frame).
    type Output: Send + 'static;

    /// Computes the positions of every entry.
    ///
    /// # Errors
    /// [`ModelError::Compute`]: the whole batch is lost.
    fn execute(&mut self, batch: &[SeqStep<'_>]) -> Result<(), ModelError>;

    /// Samples from the last computed position of each of `seqs` (a subset of the last `execute`), in that order.
    ///
    /// # Errors
    /// [`ModelError::Compute`]: the whole batch is lost.
    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<Self::Output>>, ModelError>;

    /// Outputs that the request of a sequence brought: another one made them before, and this one continues behind
    /// them. Called once, when the sequence was opened. Their positions are computed as those of outputs that it
    /// gave, and they are not given again.
    fn prior_outputs(&self, _seq: SeqId) -> Vec<Self::Output> {
        Vec::new()
    }

    /// Token of an output, if the engine is to watch for endless repetition.
    fn token(&self, _output: &Self::Output) -> Option<u32> {
        None
    }
}

/// Sampling on a device: a request, and a wait for the result. Rows may be pushed and sequences opened in between.
/// The default is a model that computes on the caller's thread.
pub trait AsyncExecutor: StepExecutor {
    /// Requests samples as of [`sample`](StepExecutor::sample) without waiting for them:
    /// [`wait_sample`](Self::wait_sample) does. Returns false, having done nothing, where the caller's own thread
    /// computes; then there is only `sample`.
    ///
    /// # Errors
    /// [`ModelError::Compute`]: the whole batch is lost, and there will be no result.
    fn submit_sample(&mut self, _seqs: &[SeqId]) -> Result<bool, ModelError> {
        Ok(false)
    }

    /// Waits for the oldest request, and gives its result in the order of its sequences. None of them was closed
    /// meanwhile.
    ///
    /// # Errors
    /// [`ModelError::Compute`]: the whole batch is lost, prompts in it included.
    fn wait_sample(&mut self) -> Result<Vec<Sampled<Self::Output>>, ModelError> {
        Err(ModelError::Compute("no sample was requested".into()))
    }

    /// Returns true if another step may be executed and submitted before the result of the last one is known. It
    /// continues `seqs`, which are all in the last one, by the position of an output that nothing has read yet: not
    /// possible if one of them has nothing to continue with. If one of them turns out to have ended, the result for
    /// its position is discarded. Steps are computed in the order in which they were executed: blocks of a sequence
    /// that has ended may belong to others in the next one.
    fn can_run_ahead(&self, _seqs: &[SeqId]) -> bool {
        false
    }
}

/// The KV cache of a model.
pub trait KvCache {
    /// The cache the engine may hand out blocks of.
    fn kv_spec(&self) -> KvSpec;

    /// Content keys of `positions` of a sequence, one each, so that others with the same beginning may share its KV
    /// rows; `None` if it never shares. See [`ContentKey`] for the contents of a key.
    ///
    /// Positions of the prompt, and of outputs that the request brought, are asked for once every row that the next
    /// output needs has been pushed, later ones after they have been computed.
    fn content_keys(&self, _seq: SeqId, _positions: Range<u32>) -> Option<Vec<ContentKey>> {
        None
    }
}

/// Work that would delay the first steps, done before them.
pub trait Warmup {
    /// Runs the `nth` piece, from 0, of work that would otherwise be done on first use: computes steps of up to
    /// `seqs` sequences, in all sizes, on padding rows. Sequences and their coming outputs are left as they are.
    /// Returns true if there was such a piece, false once all has been prepared, or if there is nothing to prepare.
    ///
    /// # Errors
    /// [`ModelError::Compute`]: the model cannot be used.
    fn prepare(&mut self, _nth: u32, _seqs: u32) -> Result<bool, ModelError> {
        Ok(false)
    }
}

/// An autoregressive model over many concurrent sequences: what [`ArEngine`](crate::ArEngine) drives.
///
/// Position `p` below the prompt length is the prompt's; position `prompt + n` is made of output `n` and, where the
/// sequence is fed from upstream, of its row. Outputs that a request brings count from 0 like those that the sequence
/// gives, for rows, random draws and limits alike: it gives what it would have given if it had made them itself. A
/// prompt may be computed in any number of pieces, and any piece of any sequence may be computed again after a
/// preemption, so embeddings laid over a prompt, audio features and hidden rows that go to the next stage are
/// addressed by absolute position: `execute` takes inputs `start .. start + len` of what `open` and `push` brought,
/// and a model that exports hidden rows keeps those of `start .. start + len` until all of the prompt's are there and
/// hands them over in its `Output`. (Such sequences are added with `reuse_prefix: false`: every prompt position is
/// then computed at least once.) What else a request carries (speaker, language) and what changes on the way (trailing
/// text) is the model's own state per sequence: `Request` brings it, `Row` updates it.
///
/// Results never depend on which other sequences share a batch: batched equals single, in any order.
pub trait ArModel: Sequences + AsyncExecutor + KvCache + Warmup {}

impl<M: Sequences + AsyncExecutor + KvCache + Warmup> ArModel for M {}

/// Samples of one stream, or why that stream failed.
pub type Decoded<S> = Result<Vec<S>, String>;

/// Outputs of one request, in order, or why it failed.
pub type Answer<T> = Result<Vec<T>, String>;

/// A stateful streaming decoder over many concurrent sequences (for example a vocoder).
pub trait ChunkModel {
    /// Everything one request brings besides its items.
    type Request: Send + 'static;
    /// One unit of input (for a vocoder: a frame of codes or of latents).
    type Item: Send + 'static;
    /// One unit of output (for a vocoder: one mono sample, f32 in [-1, 1]).
    type Sample: Send + 'static;

    /// Opens a sequence. No samples are needed for its first `lead` items; returns those of them that need not be
    /// decoded: the first ones, if the samples behind the lead do not depend on them.
    ///
    /// # Errors
    /// [`ModelError::Rejected`] if it cannot be served.
    fn open(&mut self, seq: SeqId, request: Self::Request, lead: u32) -> Result<Skipped, ModelError>;

    /// Decodes the next items of each entry; one answer per entry, in order, with its new samples. Any split of a
    /// sequence's items over calls gives the same samples as one call. An `Err` inside is the failure of that stream
    /// alone (a code out of range, a sample that is not finite), which says what was found; the engine closes the
    /// stream.
    ///
    /// # Errors
    /// [`ModelError::Compute`]: the whole batch is lost. The model may have removed its streams, whose memory is not
    /// of one moment any more; the engine closes them all.
    fn decode(&mut self, batch: &[(SeqId, &[Self::Item])]) -> Result<Vec<Decoded<Self::Sample>>, ModelError>;

    /// Gives the remaining samples of sequences whose items were all decoded, in a model with look-ahead: one that
    /// gives the samples of an item when it has seen some items behind it, or all of them. One answer per sequence, in
    /// order.
    ///
    /// # Errors
    /// As [`ChunkModel::decode`].
    fn flush(&mut self, batch: &[SeqId]) -> Result<Vec<Decoded<Self::Sample>>, ModelError> {
        Ok(batch.iter().map(|_| Ok(Vec::new())).collect())
    }

    /// Forgets a sequence. Unknown ids are ignored.
    fn close(&mut self, seq: SeqId);

    /// As [`Warmup::prepare`], for calls of [`ChunkModel::decode`] within these bounds.
    ///
    /// # Errors
    /// [`ModelError::Compute`]: the model cannot be used.
    fn prepare(&mut self, _nth: u32, _bounds: ChunkBounds) -> Result<bool, ModelError> {
        Ok(false)
    }
}

/// The beginning of a sequence that a [`ChunkModel`] does not decode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Skipped {
    /// Number of items that are not taken.
    pub items: u32,
    /// Number of samples that are not given: those of these items, and of items behind them that are taken as
    /// context.
    pub samples: u64,
}

/// Limits of a [`ChunkModel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkBounds {
    /// Streams that may be open.
    pub streams: u32,
    /// Streams decoded in one call.
    pub batch: u32,
    /// Items decoded in one call, over all its streams.
    pub items: u32,
}

/// A model that answers each request in one step (an audio encoder, a text encoder with durations).
///
/// Results never depend on which other requests share a batch.
pub trait OneShotModel {
    /// Everything one request brings.
    type Input: Send + 'static;
    /// One output of a request (for an audio encoder: all rows of a recording; for a voice: a frame of latents).
    type Output: Send + 'static;

    /// Units of its consumer's room that an output takes.
    fn units(_output: &Self::Output) -> u32 {
        1
    }

    /// Cost of a request, in the unit of the step's budget (for an audio encoder: frames).
    ///
    /// # Errors
    /// [`ModelError::Rejected`] if it cannot be served.
    fn cost(&self, input: &Self::Input) -> Result<u32, ModelError>;

    /// Computes all of `batch`; one answer per entry, in order. An `Err` inside is the failure of that request alone.
    ///
    /// # Errors
    /// [`ModelError::Compute`]: the whole batch is lost.
    fn run(&mut self, batch: &[(SeqId, &Self::Input)]) -> Result<Vec<Answer<Self::Output>>, ModelError>;
}

/// One codec frame: one code per codebook, coarsest first.
#[derive(Clone, PartialEq, Eq)]
pub struct CodecFrame(pub Box<[u32]>);

impl fmt::Debug for CodecFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CodecFrame{:?}", self.0)
    }
}

/// One frame of continuous values, as a stage without codebooks passes it to the next: a row of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct LatentFrame(pub Box<[f32]>);

/// Voice made from a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct VoicePrompt {
    /// The speaker encoder's vector, as wide as a hidden state of the model that speaks.
    pub x_vector: Vec<f32>,
    /// The recording itself, which is continued in context; without it the vector alone decides.
    pub reference: Option<VoiceReference>,
}

/// A recording as a model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceReference {
    /// Its codec frames.
    pub frames: Vec<CodecFrame>,
    /// Text tokens of its transcript.
    pub text: Vec<u32>,
}

impl VoicePrompt {
    /// Frames that the last stage decodes first without output: those of the recording, if it is continued in
    /// context.
    pub fn lead(&self) -> Arc<[CodecFrame]> {
        let frames = self.reference.as_ref().map(|reference| &reference.frames[..]);
        frames.unwrap_or_default().into()
    }
}
