//! `config.json` and `generation_config.json`, read once and checked: no option is left open, nothing is defaulted
//! that the networks' shapes depend on.
//!
//! Both spellings of the published files are read (`num_experts` and `num_local_experts`, `rope_theta` and
//! `rope_parameters.rope_theta`). All problems are reported together, each with its field.

mod audio;
mod fields;
mod generation;
mod read;
mod thinker;

use std::collections::BTreeMap;

use crate::qwen3_tts::Qwen3TtsConfig;

pub(crate) use audio::{AudioConfig, CONVOLUTIONS, shortened};
pub(crate) use fields::{Fields, WIDEST};
pub use generation::GenerationDefaults;
pub(crate) use generation::parse_json as generation_json;
pub(crate) use read::{
    CONTROL_CODES, FILE, MOST_LAYERS, Paths, code2wav, codec_tokens, contradictions, finished,
    full_attention, parsed, predictor, stack, text_tokens,
};
pub(crate) use thinker::{AudioTokens, Roles, ThinkerConfig};

/// Kind of a model's voices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VoiceSource {
    /// It has voices of its own, with names.
    #[default]
    Names,
    /// Recordings.
    Recordings,
    /// Descriptions in words.
    Descriptions,
}

/// Ids of text tokens with a meaning of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextTokens {
    /// `<|im_start|>`, which opens a turn.
    pub im_start: u32,
    /// `<|im_end|>`, which closes a turn.
    pub im_end: u32,
    /// The word `assistant`.
    pub assistant: u32,
    /// Fills the text track before the text begins and after it has ended.
    pub tts_pad: u32,
    /// Opens the spoken text.
    pub tts_bos: u32,
    /// Closes the spoken text.
    pub tts_eos: u32,
}

/// Ids of the talker's control codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodecTokens {
    /// Pads the codec track.
    pub(crate) pad: u32,
    /// Opens the codec track.
    pub(crate) bos: u32,
    /// Ends the speech.
    pub(crate) eos: u32,
    /// No language is named.
    pub(crate) nothink: u32,
    /// Opens the language part.
    pub(crate) think_bos: u32,
    /// Closes the language part.
    pub(crate) think_eos: u32,
}

/// The feed-forward part of a decoder layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FfnConfig {
    Dense {
        intermediate: usize,
    },
    Moe {
        experts: usize,
        top_k: usize,
        intermediate: usize,
        shared: usize,
        normalise: bool,
    },
}

/// A stack of decoder layers.
#[derive(Debug, Clone)]
pub(crate) struct StackConfig {
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) rope_theta: f32,
    /// Rotations of a head for time, height and width; `None`: all for time.
    pub(crate) mrope: Option<[usize; 3]>,
    pub(crate) eps: f32,
    /// RMSNorm of every query and key head.
    pub(crate) qk_norm: bool,
    /// Learned scales on both residual branches.
    pub(crate) layer_scale: bool,
    /// Keys that a query sees, itself included; `None`: all.
    pub(crate) window: Option<usize>,
    /// One per layer.
    pub(crate) ffn: Vec<FfnConfig>,
}

/// The talker: text rows and codec frames in, first code of the next frame out.
#[derive(Debug, Clone)]
pub(crate) struct TalkerConfig {
    pub(crate) stack: StackConfig,
    pub(crate) text_vocab: usize,
    /// Width of the text embeddings, and of the thinker's hidden states where there is a thinker.
    pub(crate) text_hidden: usize,
    /// Inner width of the text and hidden projections.
    pub(crate) projection: usize,
    pub(crate) vocab: usize,
    pub(crate) max_positions: usize,
    pub(crate) codec: CodecTokens,
    /// Code of each voice, by lower-case name.
    pub(crate) speakers: BTreeMap<String, u32>,
    pub(crate) prompt: PromptFormat,
}

/// Prompt format of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PromptFormat {
    Qwen3Omni,
    Qwen3Tts(Qwen3TtsConfig),
}

/// The code predictor: the codes of a frame after the first.
#[derive(Debug, Clone)]
pub(crate) struct PredictorConfig {
    pub(crate) stack: StackConfig,
    pub(crate) vocab: usize,
    /// Codes per frame, the talker's included.
    pub(crate) groups: usize,
}

/// Front end of the vocoder: from a frame's codes to its first row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code2WavFront {
    /// The mean of the codes' embeddings.
    Mean,
    /// The vectors of a split residual quantizer, of `width` numbers when put together, through a convolution to
    /// `latent` channels.
    Quantizer { width: usize, latent: usize },
}

/// The vocoder.
#[derive(Debug, Clone)]
pub(crate) struct Code2WavConfig {
    pub(crate) front: Code2WavFront,
    pub(crate) stack: StackConfig,
    pub(crate) codebook: usize,
    pub(crate) groups: usize,
    /// Strides of the first, plain upsampling stages.
    pub(crate) upsampling_ratios: Vec<usize>,
    /// Strides of the decoder's stages.
    pub(crate) upsample_rates: Vec<usize>,
    /// Channels at the decoder's entry.
    pub(crate) decoder_dim: usize,
    pub(crate) sample_rate: u32,
}

impl Code2WavConfig {
    /// Samples per frame once a stream runs.
    pub(crate) fn samples_per_frame(&self) -> usize {
        self.upsampling_ratios
            .iter()
            .chain(&self.upsample_rates)
            .product()
    }

    /// Channels of the rows that are upsampled.
    pub(crate) fn latent(&self) -> usize {
        match self.front {
            Code2WavFront::Mean => self.stack.hidden,
            Code2WavFront::Quantizer { latent, .. } => latent,
        }
    }

    /// Returns true if every transposed convolution of the decoder drops its first outputs of a stream: the reference
    /// implementation of Qwen3-Omni cuts both of its ends, that of Qwen3-TTS only the last one.
    pub(crate) fn drops_first(&self) -> bool {
        self.front == Code2WavFront::Mean
    }

    /// Samples of a whole stream of `frames` frames.
    pub(crate) fn samples_of(&self, frames: usize) -> usize {
        if !self.drops_first() {
            return frames * self.samples_per_frame();
        }
        let rows = frames * self.upsampling_ratios.iter().product::<usize>();
        self.upsample_rates
            .iter()
            .fold(rows, |n, rate| n.saturating_sub(1) * rate)
    }
}

/// The whole speech path.
#[derive(Debug, Clone)]
pub(crate) struct SpeechConfig {
    pub(crate) text: TextTokens,
    /// The word `user` as a token, where the configuration names it.
    pub(crate) user: Option<u32>,
    pub(crate) talker: TalkerConfig,
    pub(crate) predictor: PredictorConfig,
    pub(crate) code2wav: Code2WavConfig,
}
