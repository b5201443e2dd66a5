//! The whole speech path of one checkpoint: loaded once, then as many talkers and vocoders as there are replicas.

mod nets;
mod options;

use omni_engine::ModelError;

use crate::audio_encoder::{self, AudioEncoder};
use crate::backend::{DryRun, GpuFigures, TellFallback};
use crate::chat::ChatTemplate;
use crate::checkpoint::{Checkpoint, CheckpointSource, LoadError, Problem};
use crate::code2wav::Code2Wav;
use crate::config::{AudioConfig, GenerationDefaults, SpeechConfig, StackConfig, TextTokens, ThinkerConfig};
use crate::loader::Loader;
use crate::talker::{KvOptions, Talker};
use crate::thinker_model::{self, ThinkerLimits, ThinkerModel};
use crate::tokenizer::Tokenizer;

pub(crate) use nets::nets;
use nets::{AnyNets, any_nets};
pub use options::{DType, Kernels, LoadOptions, Parts, Weights, probe_gpu};

/// What callers must know of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeechLimits {
    /// Names of the voices, sorted.
    pub voices: Vec<String>,
    /// Samples per second of the waveform.
    pub sample_rate: u32,
    /// Samples that a codec frame gives, except at the start of a stream.
    pub samples_per_frame: u32,
    /// Samples that the first frame of a stream gives.
    pub first_frame_samples: u32,
    /// Codec frames per second.
    pub frame_rate: f64,
    /// Codes per frame.
    pub code_groups: u32,
    /// Codes per codebook.
    pub codebook_size: u32,
    /// Longest sequence of the talker, prompt and frames together, in positions.
    pub max_positions: u32,
    /// Text tokens there are.
    pub text_vocab: u32,
}

/// Qwen3-Omni's speech path: tokenizer, talker with code predictor, code2wav.
pub struct SpeechModel {
    nets: Box<dyn AnyNets>,
    /// The checkpoint's name in messages.
    place: String,
    checkpoint: Checkpoint,
    config: SpeechConfig,
    defaults: GenerationDefaults,
    tokenizer: Tokenizer,
    newline: u32,
    limits: SpeechLimits,
}

impl std::fmt::Debug for SpeechModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpeechModel")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl SpeechModel {
    /// Loads a checkpoint: first everything is checked, then everything is read.
    ///
    /// # Errors
    /// [`LoadError`] with all that is wrong with the checkpoint; nothing is kept then.
    pub fn load(source: CheckpointSource, options: LoadOptions) -> Result<Self, LoadError> {
        let place = source.place();
        Self::load_from(source, options, place.clone()).map_err(|e| e.at(place))
    }

    fn load_from(source: CheckpointSource, options: LoadOptions, place: String) -> Result<Self, LoadError> {
        let checkpoint = Checkpoint::open(source)?;
        let config = SpeechConfig::parse(&checkpoint.required("config.json")?)?;
        let defaults = GenerationDefaults::parse(checkpoint.file("generation_config.json")?.as_deref())?;
        let tokenizer = Tokenizer::load(&checkpoint)?;
        let newline = newline(&tokenizer, &config)?;
        let dry = Loader::new(&checkpoint, &DryRun);
        nets(&dry, &config)?;
        // The thinker may be another process's.
        dry.finish(|name| !name.starts_with("thinker."))?;
        let nets = any_nets(&checkpoint, &config, options)?;
        let limits = limits(&config);
        Ok(Self {
            nets,
            place,
            checkpoint,
            config,
            defaults,
            tokenizer,
            newline,
            limits,
        })
    }

    /// A talker with a cache of its own; the weights are shared.
    ///
    /// # Errors
    /// [`ModelError`] if the cache cannot be had.
    pub fn talker(&self, kv: KvOptions) -> Result<Talker, ModelError> {
        self.nets.talker(self.newline, kv)
    }

    /// Checks whether the checkpoint has a thinker that can be loaded, without reading its weights.
    ///
    /// # Errors
    /// [`LoadError`] with all that is missing or wrong.
    pub fn check_thinker(&self) -> Result<(), LoadError> {
        self.thinker_config()
            .and_then(|config| thinker_model::check(&self.checkpoint, &config))
            .map_err(|e| e.at(self.place.clone()))
    }

    /// Bytes of the talker's KV rows of one position.
    #[must_use]
    pub fn talker_kv_position_bytes(&self, dtype: DType) -> u64 {
        kv_position_bytes(&self.config.talker.stack, dtype)
    }

    /// Bytes of the thinker's KV rows of one position.
    ///
    /// # Errors
    /// [`LoadError`] if its configuration cannot be read.
    pub fn thinker_kv_position_bytes(&self, dtype: DType) -> Result<u64, LoadError> {
        let config = self.thinker_config().map_err(|e| e.at(self.place.clone()))?;
        Ok(kv_position_bytes(&config.stack, dtype))
    }

    /// What callers must know of the thinker, whose weights are not read for that.
    ///
    /// # Errors
    /// [`LoadError`] if its configuration cannot be read.
    pub fn thinker_limits(&self) -> Result<ThinkerLimits, LoadError> {
        let config = self.thinker_config().map_err(|e| e.at(self.place.clone()))?;
        Ok(thinker_model::limits(&config))
    }

    /// Reads the thinker's weights, which speaking does not need. Every call reads them anew: keep the result.
    ///
    /// # Errors
    /// [`LoadError`] with all that is missing or wrong; nothing is kept then.
    pub fn load_thinker(&self) -> Result<ThinkerModel, LoadError> {
        self.check_thinker()?;
        let (checkpoint, config) = (&self.checkpoint, self.thinker_config()?);
        self.nets
            .thinker(checkpoint, &config)
            .map_err(|e| e.at(self.place.clone()))
    }

    /// Checks whether the checkpoint has an audio encoder that can be loaded, without reading its weights.
    ///
    /// # Errors
    /// [`LoadError`] with all that is missing or wrong.
    pub fn check_audio_encoder(&self) -> Result<(), LoadError> {
        self.audio_config()
            .and_then(|config| audio_encoder::check(&self.checkpoint, &config))
            .map_err(|e| e.at(self.place.clone()))
    }

    /// Reads the audio encoder's weights. Every call reads them anew: keep the result.
    ///
    /// # Errors
    /// [`LoadError`] with all that is missing or wrong; nothing is kept then.
    pub fn load_audio_encoder(&self) -> Result<AudioEncoder, LoadError> {
        self.check_audio_encoder()?;
        let (checkpoint, config) = (&self.checkpoint, self.audio_config()?);
        self.nets
            .audio_encoder(checkpoint, &config)
            .map_err(|e| e.at(self.place.clone()))
    }

    fn audio_config(&self) -> Result<AudioConfig, LoadError> {
        let preprocessor = self.checkpoint.file("preprocessor_config.json")?;
        AudioConfig::parse(&self.checkpoint.required("config.json")?, preprocessor.as_deref())
    }

    /// How the checkpoint writes conversations; Qwen's form if it does not say.
    ///
    /// # Errors
    /// [`LoadError`] if its template is no template, or if its configuration has no thinker.
    pub fn chat_template(&self) -> Result<ChatTemplate, LoadError> {
        let audio = self.thinker_config().map(|config| config.audio);
        let load = |audio| {
            ChatTemplate::load(
                &self.checkpoint,
                &self.tokenizer,
                self.config.text,
                self.newline,
                audio,
            )
        };
        audio.and_then(load).map_err(|e| e.at(self.place.clone()))
    }

    fn thinker_config(&self) -> Result<ThinkerConfig, LoadError> {
        ThinkerConfig::parse(&self.checkpoint.required("config.json")?)
    }

    /// A vocoder with streams of its own; the weights are shared.
    ///
    /// # Errors
    /// [`ModelError`] if its state cannot be had.
    pub fn code2wav(&self) -> Result<Code2Wav, ModelError> {
        self.nets.code2wav()
    }

    /// What the GPU was asked to do so far by everything that this model computes; `None` if no GPU computes.
    #[must_use]
    pub fn gpu_figures(&self) -> Option<GpuFigures> {
        self.nets.gpu_figures()
    }

    /// Why steps were launched without a graph, in words, as far as nobody has asked yet; a bounded number.
    #[must_use]
    pub fn take_gpu_fallbacks(&self) -> Vec<String> {
        self.nets.take_gpu_fallbacks()
    }

    /// From now on tells `to` of such steps as they happen, on the threads that compute them. Once for every model: a
    /// second listener is not told.
    pub fn tell_gpu_fallbacks(&self, to: TellFallback) {
        self.nets.tell_gpu_fallbacks(to);
    }

    /// The text tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// What callers must know.
    #[must_use]
    pub fn limits(&self) -> &SpeechLimits {
        &self.limits
    }

    /// How the checkpoint wants to be sampled.
    #[must_use]
    pub fn defaults(&self) -> &GenerationDefaults {
        &self.defaults
    }

    /// Text tokens with a meaning of their own.
    #[must_use]
    pub fn text_tokens(&self) -> TextTokens {
        self.config.text
    }

    /// Samples of `frames` codec frames decoded as one stream.
    #[must_use]
    pub fn samples_of(&self, frames: usize) -> usize {
        self.config.code2wav.samples_of(frames)
    }

    /// Token ids of a user turn that says `text`: the prompt in front of what is spoken.
    ///
    /// # Errors
    /// [`crate::TokenizeError`] if the text cannot be tokenized.
    pub fn user_turn(&self, text: &str) -> Result<Vec<u32>, crate::TokenizeError> {
        let t = self.config.text;
        let mut ids = vec![t.im_start, t.user, self.newline];
        ids.extend(self.tokenizer.encode(text)?);
        ids.extend([t.im_end, self.newline]);
        Ok(ids)
    }

    /// The content of one of the checkpoint's files, `None` if it is not there.
    ///
    /// # Errors
    /// [`LoadError`] if the file is there but cannot be read.
    pub fn file(&self, name: &str) -> Result<Option<std::borrow::Cow<'static, [u8]>>, LoadError> {
        self.checkpoint.file(name)
    }
}

fn newline(tokenizer: &Tokenizer, config: &SpeechConfig) -> Result<u32, LoadError> {
    match tokenizer.encode("\n").as_deref() {
        Ok([id]) if (*id as usize) < config.talker.text_vocab => Ok(*id),
        other => {
            let reason = format!("a line break must be one token of the model's vocabulary, found {other:?}");
            Err(LoadError::one(Problem::Malformed {
                file: "tokenizer.json".into(),
                reason,
            }))
        }
    }
}

fn limits(config: &SpeechConfig) -> SpeechLimits {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let samples_per_frame = config.code2wav.samples_per_frame();
    SpeechLimits {
        voices: config.talker.speakers.keys().cloned().collect(),
        sample_rate: config.code2wav.sample_rate,
        samples_per_frame: count(samples_per_frame),
        first_frame_samples: count(config.code2wav.samples_of(1)),
        frame_rate: f64::from(config.code2wav.sample_rate) / samples_per_frame as f64,
        code_groups: count(config.predictor.groups),
        codebook_size: count(config.code2wav.codebook),
        max_positions: count(config.talker.max_positions),
        text_vocab: count(config.talker.text_vocab),
    }
}

/// Bytes of the keys and values of one position in all layers.
pub(crate) fn kv_position_bytes(stack: &StackConfig, dtype: DType) -> u64 {
    (2 * stack.ffn.len() * stack.kv_heads * stack.head_dim) as u64 * dtype.bytes()
}
