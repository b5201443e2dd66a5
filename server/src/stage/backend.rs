//! What the server asks of a speech model.

use std::sync::Arc;

use omni_audio::{SampleRate, SamplesPerFrame};
use omni_engine::{ArModel, ChunkModel, CodecFrame, OneShotModel, Sequences, StageGraph};
use omni_text::Normalizer;

use super::chat::{ChatInfo, ChatMessage, ContextRow, Detokenizer, Prompt, ReplyToken, ThinkerRequest};
use super::events::KvPosition;
use super::replica::ReplicaId;
use super::voice::{EncodeVoice, VoicePrompt, VoiceSupport};
use crate::config::Device;

/// Why a model, or a part of it, could not be had.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct BackendError(pub String);

impl BackendError {
    pub(super) fn warm_up(error: impl std::fmt::Display) -> Self {
        Self(format!("the warm-up is refused: {error}"))
    }
}

/// Why a conversation could not be made a prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// What was said cannot be put to this model.
    #[error("{0}")]
    Refused(String),
    /// The model failed over it; the request is not at fault.
    #[error("{0}")]
    Failed(String),
}

/// One voice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceInfo {
    /// What callers ask for.
    pub id: String,
    /// For people.
    pub display_name: String,
    /// What it sounds like.
    pub description: String,
}

/// How outputs are drawn; `None` where the model's own default holds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: Option<f32>,
    /// Nucleus, in (0, 1].
    pub top_p: Option<f32>,
    /// 0 keeps all.
    pub top_k: Option<u32>,
    /// Positive, 1 changes nothing.
    pub repetition_penalty: Option<f32>,
}

impl Sampling {
    /// Itself where it says something, `other` elsewhere.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            temperature: self.temperature.or(other.temperature),
            top_p: self.top_p.or(other.top_p),
            top_k: self.top_k.or(other.top_k),
            repetition_penalty: self.repetition_penalty.or(other.repetition_penalty),
        }
    }
}

/// What a speech model says about itself.
#[derive(Debug, Clone)]
pub struct SpeechInfo {
    /// What callers ask for.
    pub id: String,
    /// For people.
    pub display_name: String,
    /// What it is, in a sentence; may be empty.
    pub description: String,
    /// BCP-47 tags; empty if it does not say.
    pub languages: Vec<String>,
    /// Whether it finds out by the text in which language to speak, where a caller names none.
    pub detects_language: bool,
    /// Whether it follows instructions for the way of speaking.
    pub instructions: bool,
    /// Its own, the default first. At least one, unless its voices come from recordings.
    pub voices: Vec<VoiceInfo>,
    /// How it gets others.
    pub voice_support: VoiceSupport,
    /// Rate of its audio.
    pub sample_rate: SampleRate,
    /// Audio of one codec frame.
    pub samples_per_frame: SamplesPerFrame,
    /// Codec frames of silence that its sequences begin with, and that are cut off before anybody hears them; 0 if it does not
    /// say.
    pub leading_silence_frames: u32,
    /// Most codec frames of one sequence.
    pub max_frames: u32,
    /// Longest sequence of the talker in positions.
    pub max_context: u32,
    /// What it uses where a caller sets nothing.
    pub default_sampling: Sampling,
    /// Writes numbers, dates and so on as words for it; `None` if it reads raw text.
    pub normalizer: Option<Normalizer>,
    /// Most characters to speak in one sequence.
    pub max_characters: usize,
    /// How requests to it are read.
    pub terms: Terms,
}

/// How the operator has requests read; no property of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// Other names of the model.
    pub aliases: Vec<String>,
    /// Whether hints that the model cannot follow are refused; otherwise they are ignored with a warning.
    pub strict: bool,
}

impl SpeechInfo {
    /// Playing time of one codec frame.
    #[must_use]
    pub fn frame_duration(&self) -> std::time::Duration {
        self.sample_rate
            .duration(self.samples_per_frame.samples(omni_audio::Frames(1)))
    }
}

/// What a GPU was asked to do so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFigures {
    /// Which.
    pub device: Device,
    /// Kernels launched one by one.
    pub launches: u64,
    /// Kernels launched in graphs, recorded or known.
    pub graph_launches: u64,
    /// Graphs recorded.
    pub graphs: u64,
    /// Graphs launched after that.
    pub replays: u64,
    /// Steps that were to be graphs and were launched kernel by kernel.
    pub fallbacks: u64,
}

impl DeviceFigures {
    /// Nothing yet.
    #[must_use]
    pub fn new(device: Device) -> Self {
        Self {
            device,
            launches: 0,
            graph_launches: 0,
            graphs: 0,
            replays: 0,
            fallbacks: 0,
        }
    }
}

/// One sequence for the talker, in plain data.
#[derive(Debug, Clone, PartialEq)]
pub struct TalkerRequest {
    /// One of [`SpeechInfo::voices`], or the name of what `voice_prompt` is.
    pub voice: String,
    /// The voice, if it is that of a recording.
    pub voice_prompt: Option<Arc<VoicePrompt>>,
    /// One of [`SpeechInfo::languages`], or none.
    pub language: Option<String>,
    /// How to speak, in words, for a model that follows [instructions](SpeechInfo::instructions).
    pub instructions: Option<Arc<str>>,
    /// How outputs are drawn.
    pub sampling: Sampling,
    /// Start of its random numbers.
    pub seed: u64,
    /// The user's turns that it answers, without an awaited row among them; `None` where text is spoken without a question.
    pub context: Option<Arc<[ContextRow]>>,
    /// Whether its text comes from the thinker as it writes, and not from a caller, which may take any time.
    pub thought: bool,
}

/// What a model says about itself, its tokenizer, and the devices that it computes on. Its stages can be built from it more than once:
/// a replica whose model was lost to a panic asks again.
pub trait ModelInfo: Send + Sync + 'static {
    /// The stages that it has.
    fn graph(&self) -> StageGraph;

    /// What it is.
    fn info(&self) -> &SpeechInfo;

    /// Text as token ids.
    ///
    /// # Errors
    /// If the tokenizer refuses it.
    fn encode(&self, text: &str) -> Result<Vec<u32>, BackendError>;

    /// What a position takes in the KV cache of `stage`, where that is known.
    fn kv_position(&self, _stage: &str) -> Option<KvPosition> {
        None
    }

    /// What GPUs were asked to do so far, device by device.
    fn devices(&self) -> Vec<DeviceFigures> {
        Vec::new()
    }
}

/// A model that turns text into codec frames.
pub trait Talk: ModelInfo {
    /// Text token ids in, codec frames out.
    type Talker: ArModel<Row = u32, Output = CodecFrame> + Send + 'static;

    /// The talker's own form of a request.
    fn talker_request(&self, request: TalkerRequest) -> <Self::Talker as Sequences>::Request;

    /// A talker without sequences for that replica. Called on the thread that will drive it.
    ///
    /// # Errors
    /// If it cannot be built.
    fn talker(&self, replica: ReplicaId) -> Result<Self::Talker, BackendError>;

    /// What makes voices of recordings. Reads its weights when it is first asked, which takes its time.
    ///
    /// # Errors
    /// If the checkpoint has none, or if it cannot be read.
    fn voice_encoder(&self) -> Result<Arc<dyn EncodeVoice>, BackendError> {
        Err(BackendError(
            "this model speaks with voices of its own only".to_owned(),
        ))
    }
}

/// A model that turns codec frames into samples.
pub trait Vocode: ModelInfo {
    /// Codec frames in, samples in `[-1, 1]` out.
    type Vocoder: ChunkModel<Item = CodecFrame, Sample = f32> + Send + 'static;

    /// A vocoder without streams for that replica. Called on the thread that will drive it.
    ///
    /// # Errors
    /// If it cannot be built.
    fn vocoder(&self, replica: ReplicaId) -> Result<Self::Vocoder, BackendError>;

    /// A codec frame that it decodes, whatever it sounds like: for warming up.
    fn any_frame(&self) -> CodecFrame;
}

/// A model that answers conversations, if its checkpoint can.
pub trait Think: ModelInfo {
    /// Conversations in, text tokens out.
    type Thinker: ArModel<Row = (), Output: Into<ReplyToken>> + Send + 'static;

    /// What it is in a conversation.
    ///
    /// # Errors
    /// Why it holds none; nothing below is called then.
    fn chat(&self) -> Result<ChatInfo, String>;

    /// A conversation as it reads it; every recording in it has been encoded. May take its time; not called on a thread that others wait
    /// for.
    ///
    /// # Errors
    /// [`PromptError::Refused`] if its template refuses it, [`PromptError::Failed`] if the model cannot do it.
    fn prompt(&self, messages: &[ChatMessage]) -> Result<Prompt, PromptError>;

    /// For the tokens of one answer.
    fn detokenizer(&self) -> Box<dyn Detokenizer>;

    /// The thinker's own form of a request.
    fn thinker_request(&self, request: ThinkerRequest) -> <Self::Thinker as Sequences>::Request;

    /// A thinker without sequences for that replica. Called on the thread that will drive it.
    ///
    /// # Errors
    /// If it cannot be built.
    fn thinker(&self, replica: ReplicaId) -> Result<Self::Thinker, BackendError>;
}

/// A model that encodes recordings, if its checkpoint can.
pub trait Encode: Think {
    /// Samples of a recording in, rows of a prompt out; a recording costs its frames of 10 ms.
    type Encoder: OneShotModel<Input = Arc<[f32]>, Output = Arc<[f32]>> + Send + 'static;

    /// An encoder without recordings for that replica. Called on the thread that will drive it.
    ///
    /// # Errors
    /// If it cannot be built.
    fn encoder(&self, replica: ReplicaId) -> Result<Self::Encoder, BackendError>;
}

/// A model that all stages can be built from; the graph says which it has.
pub trait SpeechBackend: Talk + Vocode + Encode {}

impl<B: Talk + Vocode + Encode> SpeechBackend for B {}
