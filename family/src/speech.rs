//! What a model that speaks is to its callers.

use std::sync::Arc;

use omni_audio::{SampleRate, SamplesPerFrame};
use omni_pipeline::request::{Clip, Sampling};
use omni_pipeline::stage::{BackendError, StageFamily};
use omni_text::Normalizer;

use super::chat::{ChatInfo, ChatMessage, Detokenizer, Prompt};
use super::voice::{EncodeVoice, VoiceSupport};
use crate::compute::Device;

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
    /// True if a sequence's text stands in front of its first frame where all of it is known from the start and a caller does not say;
    /// `None` if the model reads text frame by frame only.
    pub non_streaming: Option<bool>,
    /// Its own, the default first. At least one, unless its voices come from recordings.
    pub voices: Vec<VoiceInfo>,
    /// How it gets others.
    pub voice_support: VoiceSupport,
    /// Rate of its audio.
    pub sample_rate: SampleRate,
    /// Audio of one codec frame.
    pub samples_per_frame: SamplesPerFrame,
    /// Codec frames of silence that its sequences begin with, and that are cut off, unheard; 0 if it does not
    /// say.
    pub leading_silence_frames: u32,
    /// Most codec frames of one sequence.
    pub max_frames: u32,
    /// Longest sequence of the stage that reads text, in positions.
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
    /// Other names of the model. In those of a kind, `*` stands for any characters and `?` for one.
    pub aliases: Vec<String>,
    /// True if names of models that write speech down are names of it, too.
    pub hears: bool,
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

/// A loaded model: its stages, and what it says about itself.
pub trait ModelInfo: StageFamily {
    /// What it is.
    fn info(&self) -> &SpeechInfo;

    /// Text as token ids.
    ///
    /// # Errors
    /// If the tokenizer refuses it.
    fn encode(&self, text: &str) -> Result<Vec<u32>, BackendError>;

    /// What GPUs were asked to do so far, device by device.
    fn devices(&self) -> Vec<DeviceFigures> {
        Vec::new()
    }

    /// What makes voices of recordings. Reads its weights when it is first asked, which takes its time.
    ///
    /// # Errors
    /// If the checkpoint has none, or if it cannot be read.
    fn voice_encoder(&self) -> Result<Arc<dyn EncodeVoice>, BackendError> {
        Err(BackendError::Failed(
            "this model speaks with voices of its own only".to_owned(),
        ))
    }

    /// The recording of a voice of its own, where its graph encodes that for every voice.
    fn voice_recording(&self, _voice: &str) -> Option<Clip> {
        None
    }
}

/// A model that answers conversations, if its checkpoint can.
pub trait Converse: ModelInfo {
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
}
