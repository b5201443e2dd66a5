//! Speech models as their callers see them.

use std::sync::Arc;

use omni_audio::{SampleRate, SamplesPerFrame};
use omni_pipeline::request::{Clip, Sampling};
use omni_pipeline::stage::BackendError;
use omni_text::Normalizer;

use super::chat::{ChatInfo, ChatMessage, Detokenizer, Prompt};
use super::voice::{EncodeVoice, VoiceSupport};
use crate::compute::Device;

/// Reason why a conversation has no prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// The conversation is not one that this model takes.
    #[error("{0}")]
    Refused(String),
    /// The model failed on it; the request is not at fault.
    #[error("{0}")]
    Failed(String),
}

/// One voice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceInfo {
    /// Name by which callers select it.
    pub id: String,
    /// For people.
    pub display_name: String,
    /// Description of the sound.
    pub description: String,
}

/// Properties of a speech model.
#[derive(Debug, Clone)]
pub struct SpeechInfo {
    /// Name by which callers select it.
    pub id: String,
    /// For people.
    pub display_name: String,
    /// Description in a sentence; may be empty.
    pub description: String,
    /// BCP-47 tags; empty if they are not known.
    pub languages: Vec<String>,
    /// `true` if it detects the language of the text where a caller names none.
    pub detects_language: bool,
    /// `true` if it follows instructions on the way of speaking.
    pub instructions: bool,
    /// Default for text that is known from the start: `true` if the prompt contains the whole text; `None` if the
    /// model reads text frame by frame only.
    pub non_streaming: Option<bool>,
    /// `true` if it speaks slower and faster by itself, as a request says; else its audio is stretched.
    pub own_speed: bool,
    /// Its own, the default first. At least one, unless its voices come from recordings.
    pub voices: Vec<VoiceInfo>,
    /// Voices besides its own.
    pub voice_support: VoiceSupport,
    /// Rate of its audio.
    pub sample_rate: SampleRate,
    /// Audio of one frame that the stage before the last one gives: codes or latents.
    pub samples_per_frame: SamplesPerFrame,
    /// Frames of silence that its sequences begin with, and that are trimmed; 0 if it is not known.
    pub leading_silence_frames: u32,
    /// Most frames of one sequence.
    pub max_frames: u32,
    /// Longest sequence of the stage that reads text, in positions.
    pub max_context: u32,
    /// Sampling where a caller sets nothing.
    pub default_sampling: Sampling,
    /// Writes numbers, dates and so on as words for it; `None` if it reads raw text.
    pub normalizer: Option<Normalizer>,
    /// Most characters to speak in one sequence.
    pub max_characters: usize,
    /// The operator's reading of requests to it.
    pub terms: Terms,
}

/// The operator's reading of requests; not properties of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// Other names of the model. In a pattern, `*` stands for any characters and `?` for one.
    pub aliases: Vec<String>,
    /// `true` if names of transcription models are accepted as its names, too.
    pub hears: bool,
    /// Refuses hints that the model cannot follow; otherwise they are ignored with a warning.
    pub strict: bool,
}

impl SpeechInfo {
    /// Properties of a model of that name about which nothing else is known: it has no voice yet, and no limits.
    pub fn new(id: &str, sample_rate: SampleRate, samples_per_frame: SamplesPerFrame) -> Self {
        Self {
            id: id.to_owned(),
            display_name: id.to_owned(),
            description: String::new(),
            languages: Vec::new(),
            detects_language: false,
            instructions: false,
            non_streaming: None,
            own_speed: false,
            voices: Vec::new(),
            voice_support: VoiceSupport::default(),
            sample_rate,
            samples_per_frame,
            leading_silence_frames: 0,
            max_frames: u32::MAX,
            max_context: u32::MAX,
            default_sampling: Sampling::default(),
            normalizer: None,
            max_characters: usize::MAX,
            terms: Terms::default(),
        }
    }

    /// Playing time of one frame.
    pub fn frame_duration(&self) -> std::time::Duration {
        self.sample_rate
            .duration(self.samples_per_frame.samples(omni_audio::Frames(1)))
    }
}

/// Work given to one GPU so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFigures {
    /// The GPU.
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
    /// Creates figures that are all zero.
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

/// The part of a model that speaks.
pub trait Speak: Send + Sync + 'static {
    /// Properties of the model.
    fn info(&self) -> &SpeechInfo;

    /// Text as token ids.
    ///
    /// # Errors
    /// If the tokenizer refuses it.
    fn encode(&self, text: &str) -> Result<Vec<u32>, BackendError>;

    /// Work given to GPUs so far, device by device.
    fn devices(&self) -> Vec<DeviceFigures> {
        Vec::new()
    }

    /// Encoder that turns recordings into voices. The first call reads its weights, and takes as long as that does.
    ///
    /// # Errors
    /// If the checkpoint has none, or if it cannot be read.
    fn voice_encoder(&self) -> Result<Arc<dyn EncodeVoice>, BackendError> {
        Err(BackendError::Failed(
            "this model speaks with voices of its own only".to_owned(),
        ))
    }

    /// Recording of one of its own voices, if its graph encodes a recording for every voice.
    fn voice_recording(&self, _voice: &str) -> Option<Clip> {
        None
    }
}

/// The part of a model that answers conversations.
pub trait Converse: Send + Sync + 'static {
    /// Chat properties of the model.
    fn chat(&self) -> ChatInfo;

    /// Builds the prompt of a conversation; every recording in it has been encoded. May take long; not called on a
    /// thread that others wait for.
    ///
    /// # Errors
    /// [`PromptError::Refused`] if its template refuses it, [`PromptError::Failed`] if the model cannot do it.
    fn prompt(&self, messages: &[ChatMessage]) -> Result<Prompt, PromptError>;

    /// Creates the detokenizer of one answer.
    fn detokenizer(&self) -> Box<dyn Detokenizer>;
}
