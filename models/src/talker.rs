//! The talker: text tokens in, codec frames out, as an [`ArModel`] over many sequences.
//!
//! Flows in: a prompt (user turn, voice, sampling) and text token ids as they become known. Flows out: one
//! [`CodecFrame`] per step, its first code sampled from the talker, the others from the code predictor that continues
//! the talker's hidden state. Keys and values live in a pool addressed by the engine's block ids.
//!
//! A sequence keeps its prompt, its text and its frames, so any of its positions can be computed again: a step may
//! start at 0 after the engine took its blocks away. Layout of the positions: the rows of the prompt, which a family
//! decides on ([`prompt`]; the last one has the first text token as a rule), then one per frame, each adding the next
//! text token, then `tts_eos` once, then `tts_pad`.

mod core;
mod net;
mod predictor;
mod prompt;
mod sequence;

use std::sync::Arc;

use omni_backend::sampling::Sampling;
use omni_engine::{
    ArModel, AsyncExecutor, CodecFrame, KvCache, KvSpec, ModelError, Sampled, SeqId, SeqStep, Sequences,
    StepExecutor, VoicePrompt, Warmup,
};

pub(crate) use self::core::Core;
pub(crate) use net::TalkerNet;
pub(crate) use prompt::{FrameCodes, Prompt, PromptRow, RowCodec, Vocabulary, speaker, user_rows};

/// One row of the user turn.
#[derive(Debug, Clone, PartialEq)]
pub enum UserRow {
    /// A text token.
    Token(u32),
    /// Audio, image or video: the thinker's hidden state at the accepted layer, `[thinker hidden]`.
    Hidden(Vec<f32>),
}

/// The voice that speaks.
#[derive(Debug, Clone, PartialEq)]
pub enum Voice {
    /// One of the checkpoint's own, by its name in any case.
    Named(String),
    /// That of a recording.
    Cloned(Arc<VoicePrompt>),
    /// The one that the user turn describes (VoiceDesign checkpoints).
    Described,
}

impl From<&str> for Voice {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

/// Everything needed to begin a spoken reply.
#[derive(Debug, Clone, PartialEq)]
pub struct TalkerRequest {
    /// The user turn, `<|im_start|>user\n ... <|im_end|>\n` included; may be empty. Qwen3-TTS takes its instruction
    /// from there.
    pub user: Vec<UserRow>,
    /// The voice that speaks.
    pub voice: Voice,
    /// The language as the checkpoint calls it, such as `english`; `None`: the model decides by the text.
    pub language: Option<String>,
    /// All text, to stand in front of the first frame (Qwen3-TTS); without it text is pushed, and read frame by frame.
    pub text: Option<Vec<u32>>,
    /// Sampling of the first code of a frame.
    pub talker: Sampling,
    /// Sampling of the other codes; its `repetition_penalty` must be 1 and its `min_tokens` 0, as a frame has one
    /// code per group, each of a vocabulary of its own.
    pub predictor: Sampling,
    /// Equal seeds and requests give equal codes in any batch.
    pub seed: u64,
    /// Most frames of the speech, including `prior_frames`.
    pub max_frames: u32,
    /// Frames of the reply that another sequence made: this one continues as if it had made them.
    pub prior_frames: Vec<CodecFrame>,
}

/// The talker's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvOptions {
    /// Positions per block.
    pub block_size: u32,
    /// Blocks in all.
    pub num_blocks: u32,
}

impl Default for KvOptions {
    /// 16,384 positions: eleven minutes of speech at 25 frames per second, over all sequences.
    fn default() -> Self {
        Self {
            block_size: 16,
            num_blocks: 1024,
        }
    }
}

/// Access to intermediate results between two steps, for tests.
pub(crate) trait Inspect {
    fn logits(&self, seq: SeqId) -> Option<Vec<f32>>;
    fn hidden(&self, seq: SeqId) -> Option<Vec<f32>>;
    fn predictor_logits(&mut self, seq: SeqId, codes: &[u32]) -> Result<Vec<f32>, ModelError>;
    fn replace_frame(&mut self, seq: SeqId, codes: &[u32]) -> Result<(), ModelError>;
    fn input_rows(&self, seq: SeqId, start: u32, len: u32) -> Result<Vec<f32>, ModelError>;
}

pub(crate) trait AnyTalker:
    ArModel<Request = TalkerRequest, Row = u32, Output = CodecFrame> + Inspect + Send
{
}

impl<T> AnyTalker for T where
    T: ArModel<Request = TalkerRequest, Row = u32, Output = CodecFrame> + Inspect + Send
{
}

/// Talker and code predictor with the state of their sequences. Weights are shared between talkers of one model.
#[derive(derive_more::Debug)]
#[debug("Talker {{ kv: {:?}, .. }}", self.kv_spec())]
pub struct Talker(pub(crate) Box<dyn AnyTalker>);

impl Talker {
    /// The talker's raw logits `[vocab]` at the last computed position of `seq`, until the next `execute`.
    pub fn logits(&self, seq: SeqId) -> Option<Vec<f32>> {
        self.0.logits(seq)
    }

    /// The talker's hidden state `[hidden]`, after the final norm, at the last computed position of `seq`, until the
    /// next `execute`.
    pub fn hidden(&self, seq: SeqId) -> Option<Vec<f32>> {
        self.0.hidden(seq)
    }

    /// The code predictor's raw logits `[codes of that group]` of the code that follows `codes`, the first ones of the
    /// frame that comes next, at the last computed position of `seq`, until the next `execute`.
    ///
    /// # Errors
    /// [`ModelError::Compute`] if nothing was computed for the sequence, or if `codes` are none or a whole frame.
    pub fn predictor_logits(&mut self, seq: SeqId, codes: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.0.predictor_logits(seq, codes)
    }

    /// Replaces the last frame of `seq`, which continues as if it had sampled it: for comparing predictions along a
    /// reference.
    ///
    /// # Errors
    /// [`ModelError::Compute`] if there is no such sequence, or if it has no frame yet.
    pub fn replace_frame(&mut self, seq: SeqId, codes: &[u32]) -> Result<(), ModelError> {
        self.0.replace_frame(seq, codes)
    }

    /// The talker's input rows `[len, hidden]` at positions `start .. start + len` of `seq`.
    ///
    /// # Errors
    /// [`ModelError::Compute`] if the sequence or the text for those positions is not known.
    pub fn input_rows(&self, seq: SeqId, start: u32, len: u32) -> Result<Vec<f32>, ModelError> {
        self.0.input_rows(seq, start, len)
    }
}

impl Sequences for Talker {
    type Request = TalkerRequest;
    /// A text token id.
    type Row = u32;

    fn open(&mut self, seq: SeqId, request: TalkerRequest) -> Result<u32, ModelError> {
        self.0.open(seq, request)
    }

    fn push(&mut self, seq: SeqId, rows: Vec<u32>, last: bool) {
        self.0.push(seq, rows, last);
    }

    fn close(&mut self, seq: SeqId) {
        self.0.close(seq);
    }
}

impl StepExecutor for Talker {
    type Output = CodecFrame;

    fn execute(&mut self, batch: &[SeqStep<'_>]) -> Result<(), ModelError> {
        self.0.execute(batch)
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<CodecFrame>>, ModelError> {
        self.0.sample(seqs)
    }

    fn prior_outputs(&self, seq: SeqId) -> Vec<CodecFrame> {
        self.0.prior_outputs(seq)
    }
}

impl AsyncExecutor for Talker {
    fn submit_sample(&mut self, seqs: &[SeqId]) -> Result<bool, ModelError> {
        self.0.submit_sample(seqs)
    }

    fn wait_sample(&mut self) -> Result<Vec<Sampled<CodecFrame>>, ModelError> {
        self.0.wait_sample()
    }

    fn can_run_ahead(&self, seqs: &[SeqId]) -> bool {
        self.0.can_run_ahead(seqs)
    }
}

impl KvCache for Talker {
    fn kv_spec(&self) -> KvSpec {
        self.0.kv_spec()
    }
}

impl Warmup for Talker {
    fn prepare(&mut self, nth: u32, seqs: u32) -> Result<bool, ModelError> {
        self.0.prepare(nth, seqs)
    }
}
