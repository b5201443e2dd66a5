//! The thinker: a prompt of tokens and audio in, text tokens out, as an [`ArModel`] over many sequences.
//!
//! Flows in: a prompt (token ids, and rows of the audio encoder where the prompt has audio) with the settings of its
//! sampling. Flows out: one [`ThinkerToken`] per step; the first carries, if asked for, the hidden rows of the prompt's
//! audio that the talker hears the user by. Keys and values live in a pool addressed by the engine's block ids.
//!
//! A sequence keeps its prompt and its tokens, so any of its positions can be computed again, and its prompt may be
//! computed in pieces of any size.

mod core;
mod net;
mod sequence;

use std::ops::Range;
use std::sync::Arc;

use omni_backend::sampling::TextSampling;
use omni_engine::{
    ArModel, AsyncExecutor, ContentKey, KvCache, KvSpec, ModelError, Sampled, SeqId, SeqStep, Sequences,
    StepExecutor, Warmup,
};

pub(crate) use self::core::Core;
pub(crate) use net::{ThinkerNet, embed_tokens};

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptPiece {
    /// A text token.
    Token(u32),
    /// Rows of the audio encoder, one position each: `[positions, thinker hidden]`, row after row.
    Audio(Arc<[f32]>),
}

/// Everything needed to begin a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ThinkerRequest {
    /// The prompt, at least one position.
    pub prompt: Vec<PromptPiece>,
    /// Coordinates of the prompt's positions in time, height and width; `None`: 0, 1, 2, ... on all three axes, as
    /// for text and audio. The reply continues after the largest.
    pub axes: Option<Vec<[u32; 3]>>,
    /// Sampling of a token.
    pub sampling: TextSampling,
    /// Equal seeds and requests give equal tokens in any batch.
    pub seed: u64,
    /// Tokens that end the reply; they are not emitted.
    pub stop: Vec<u32>,
    /// Most tokens of the reply.
    pub max_tokens: u32,
    /// `true` if every token comes with its log-probability.
    pub logprobs: bool,
    /// `true` if the first token comes with the hidden rows of the prompt's audio positions.
    pub export_hidden: bool,
}

/// One token of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ThinkerToken {
    /// Its id.
    pub token: u32,
    /// Natural logarithm of its probability before penalties, temperature and the like, if asked for.
    pub logprob: Option<f32>,
    /// With the first token, if requested: the talker's rows for the prompt's audio.
    pub hidden: Option<HiddenRows>,
}

/// Hidden states of the layer that the talker accepts, one row per audio position of the prompt, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HiddenRows {
    /// Numbers per row.
    pub width: usize,
    /// The rows, one after another.
    pub values: Arc<[f32]>,
}

impl HiddenRows {
    /// The rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.width.max(1))
    }
}

/// Access to intermediate results between two steps, for tests.
pub(crate) trait Inspect {
    fn logits(&self, seq: SeqId) -> Option<Vec<f32>>;
    fn hidden(&self, seq: SeqId) -> Option<Vec<f32>>;
}

pub(crate) trait AnyThinker:
    ArModel<Request = ThinkerRequest, Row = (), Output = ThinkerToken> + Inspect + Send
{
}

impl<T> AnyThinker for T where
    T: ArModel<Request = ThinkerRequest, Row = (), Output = ThinkerToken> + Inspect + Send
{
}

/// The thinker with the state of its sequences. Weights are shared between the thinkers of one
/// [`ThinkerModel`](crate::ThinkerModel).
#[derive(derive_more::Debug)]
#[debug("Thinker {{ kv: {:?}, .. }}", self.kv_spec())]
pub struct Thinker(pub(crate) Box<dyn AnyThinker>);

impl Thinker {
    /// The raw logits `[vocab]` at the last computed position of `seq`, until the next `execute`.
    pub fn logits(&self, seq: SeqId) -> Option<Vec<f32>> {
        self.0.logits(seq)
    }

    /// The hidden state `[hidden]`, after the final norm, at the last computed position of `seq`, until the next
    /// `execute`.
    pub fn hidden(&self, seq: SeqId) -> Option<Vec<f32>> {
        self.0.hidden(seq)
    }
}

impl Sequences for Thinker {
    type Request = ThinkerRequest;
    /// The thinker feeds itself.
    type Row = ();

    fn open(&mut self, seq: SeqId, request: ThinkerRequest) -> Result<u32, ModelError> {
        self.0.open(seq, request)
    }

    fn push(&mut self, seq: SeqId, rows: Vec<()>, last: bool) {
        self.0.push(seq, rows, last);
    }

    fn close(&mut self, seq: SeqId) {
        self.0.close(seq);
    }
}

impl StepExecutor for Thinker {
    type Output = ThinkerToken;

    fn execute(&mut self, batch: &[SeqStep<'_>]) -> Result<(), ModelError> {
        self.0.execute(batch)
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<ThinkerToken>>, ModelError> {
        self.0.sample(seqs)
    }

    fn token(&self, output: &ThinkerToken) -> Option<u32> {
        Some(output.token)
    }
}

impl AsyncExecutor for Thinker {}

impl KvCache for Thinker {
    fn kv_spec(&self) -> KvSpec {
        self.0.kv_spec()
    }

    /// Nothing for a prompt on three axes, or whose hidden rows are to be exported: every position must be computed.
    fn content_keys(&self, seq: SeqId, positions: Range<u32>) -> Option<Vec<ContentKey>> {
        self.0.content_keys(seq, positions)
    }
}

impl Warmup for Thinker {
    fn prepare(&mut self, nth: u32, seqs: u32) -> Result<bool, ModelError> {
        self.0.prepare(nth, seqs)
    }
}
