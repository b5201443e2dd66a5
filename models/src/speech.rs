//! The whole speech path of one checkpoint: loaded once, then as many talkers and vocoders as there are replicas.

mod gpu;
mod nets;
mod options;

use std::sync::Arc;

use omni_backend::DryRun;
use omni_backend::host::KeptPages;
use omni_engine::ModelError;

use crate::audio_encoder::{self, AudioEncoder, AudioLimits};
use crate::chat::ChatTemplate;
use crate::checkpoint::{Checkpoint, CheckpointSource, LoadError, Problem};
use crate::code2wav::Code2Wav;
use crate::config::{
    AudioConfig, GenerationDefaults, PromptFormat, SpeechConfig, StackConfig, TextTokens, ThinkerConfig,
    VoiceSource,
};
use crate::family::{self, Family};
use crate::loader::Loader;
use crate::qwen3_tts::{Qwen3TtsConfig, VoiceEncoder, encoder_nets};
use crate::talker::{KvOptions, Talker};
use crate::thinker_model::{self, ThinkerLimits, ThinkerModel};
use crate::tokenizer::Tokenizer;

use nets::{AnyNets, all_nets};
pub(crate) use nets::{Sources, nets};
pub use options::{DType, Kernels, LoadOptions, Parts, probe_gpu};

/// Properties of a model for its callers.
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
    /// Numbers of the vector of a recording's voice.
    pub voice_width: u32,
    /// Languages that a request can name; none if the model takes no language. Without one it decides by the text.
    pub languages: Vec<Language>,
    /// `true` if the user turn can carry style instructions.
    pub instructions: bool,
    /// True if the reference implementation puts all text in front of the first frame unless told otherwise
    /// ([`TalkerRequest::text`](crate::TalkerRequest::text)); `None` if text cannot stand there.
    pub non_streaming: Option<bool>,
    /// Source of voices.
    pub voice_source: VoiceSource,
}

/// A language that a model speaks on request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Language {
    /// BCP-47 tag.
    pub tag: &'static str,
    /// The checkpoint's name for it: for [`crate::TalkerRequest::language`].
    pub name: String,
}

/// The speech path: tokenizer, talker with code predictor, code2wav.
#[derive(derive_more::Debug)]
#[debug("SpeechModel {{ limits: {:?}, .. }}", self.limits)]
pub struct SpeechModel {
    nets: Box<dyn AnyNets>,
    /// The checkpoint's name in messages.
    place: String,
    newline: u32,
    limits: SpeechLimits,
    read: Arc<Read>,
}

/// Contents of a checkpoint besides weights.
struct Read {
    family: Family,
    checkpoint: Checkpoint,
    config: SpeechConfig,
    defaults: GenerationDefaults,
    tokenizer: Tokenizer,
    /// Tensors that no network uses.
    unused: Option<String>,
}

impl SpeechModel {
    /// Loads a checkpoint: first everything is checked, then everything is read.
    ///
    /// # Errors
    /// [`LoadError`] with all that is wrong with the checkpoint; nothing is kept then.
    pub fn load(source: CheckpointSource, options: LoadOptions) -> Result<Self, LoadError> {
        let mut models = Self::load_each(source, &[options])?;
        Ok(models.swap_remove(0))
    }

    /// As [`SpeechModel::load`], once for each of `options`. All but the weights is shared.
    ///
    /// # Errors
    /// As there.
    pub fn load_each(source: CheckpointSource, options: &[LoadOptions]) -> Result<Vec<Self>, LoadError> {
        let place = source.place();
        let opened = source.clone();
        let loaded = Self::load_from(source, options, &place);
        loaded.map_err(|e| {
            let hint = family::fetch_hint(&opened, &e);
            e.at(place).with_hint(hint)
        })
    }

    fn load_from(
        source: CheckpointSource,
        options: &[LoadOptions],
        place: &str,
    ) -> Result<Vec<Self>, LoadError> {
        // Before the other files: of a family that is not known, or of what does not speak, these say nothing.
        if let Some(json) = source.file("config.json")? {
            Family::of(&json)?.speaks(&json)?;
        }
        family::missing_files(&source)?;
        let family = Family::of(&source.required("config.json")?)?;
        let checkpoint = Checkpoint::open(source)?;
        let config = family.config(&checkpoint)?;
        let defaults = family.defaults(&checkpoint)?;
        let codec = family.codec_folder().map(|folder| checkpoint.folder(folder));
        let codec = codec.transpose()?;
        let sources = Sources {
            talker: &checkpoint,
            code2wav: codec.as_ref().unwrap_or(&checkpoint),
        };
        let tokenizer = Tokenizer::load(&checkpoint)?;
        let newline = newline(&tokenizer, &config)?;
        let converse = options.iter().any(|options| options.parts.converse);
        let unused = check_tensors(sources, codec.is_some(), (family, converse), &config)?;
        let nets = all_nets(sources, &config, options)?;
        let read = Arc::new(Read {
            family,
            checkpoint,
            config,
            defaults,
            tokenizer,
            unused,
        });
        let model = |nets| Self {
            nets,
            place: place.to_owned(),
            newline,
            limits: limits(&read.config),
            read: Arc::clone(&read),
        };
        Ok(nets.into_iter().map(model).collect())
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
            .and_then(|config| thinker_model::check(&self.read.checkpoint, &config))
            .map_err(|e| e.at(self.place.clone()))
    }

    /// Bytes of the talker's KV rows of one position, in a model loaded like that.
    pub fn talker_kv_position_bytes(&self, options: LoadOptions) -> u64 {
        kv_position_bytes(&self.read.config.talker.stack, options.cached().bytes())
    }

    /// Bytes of the thinker's KV rows of one position, in a model loaded like that.
    ///
    /// # Errors
    /// [`LoadError`] if its configuration cannot be read.
    pub fn thinker_kv_position_bytes(&self, options: LoadOptions) -> Result<u64, LoadError> {
        let config = self.thinker_config().map_err(|e| e.at(self.place.clone()))?;
        Ok(kv_position_bytes(&config.stack, options.cached().bytes()))
    }

    /// Properties of the thinker, whose weights are not read for that.
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
    /// [`LoadError`] with everything missing or wrong.
    pub fn load_thinker(&self) -> Result<ThinkerModel, LoadError> {
        self.check_thinker()?;
        let checkpoint = &self.read.checkpoint;
        let config = self.thinker_config()?;
        self.nets
            .thinker(checkpoint, &config)
            .map_err(|e| e.at(self.place.clone()))
    }

    /// Input and output of the audio encoder, if the checkpoint has one that can be loaded. Reads no weights.
    ///
    /// # Errors
    /// [`LoadError`] with all that is missing or wrong.
    pub fn audio_limits(&self) -> Result<AudioLimits, LoadError> {
        let checked = self.audio_config().and_then(|config| {
            audio_encoder::check(&self.read.checkpoint, &config)?;
            Ok(AudioLimits::new(config))
        });
        checked.map_err(|e| e.at(self.place.clone()))
    }

    /// Reads the audio encoder's weights. Every call reads them anew: keep the result.
    ///
    /// # Errors
    /// [`LoadError`] with everything missing or wrong.
    pub fn load_audio_encoder(&self) -> Result<AudioEncoder, LoadError> {
        self.audio_limits()?;
        let checkpoint = &self.read.checkpoint;
        let config = self.audio_config()?;
        self.nets
            .audio_encoder(checkpoint, &config)
            .map_err(|e| e.at(self.place.clone()))
    }

    fn audio_config(&self) -> Result<AudioConfig, LoadError> {
        let preprocessor = self.read.checkpoint.file("preprocessor_config.json")?;
        AudioConfig::parse(
            &self.read.checkpoint.required("config.json")?,
            preprocessor.as_deref(),
        )
    }

    /// Reads the voice encoder of a checkpoint that clones. Every call reads it anew: keep the result.
    ///
    /// # Errors
    /// [`LoadError`] with everything missing or wrong, or if this checkpoint does not clone.
    pub fn load_voice_encoder(&self) -> Result<VoiceEncoder, LoadError> {
        let load = || {
            let _pages = KeptPages::keep();
            let folder = match (self.limits.voice_source, self.read.family.codec_folder()) {
                (VoiceSource::Recordings, Some(folder)) => folder,
                _ => {
                    let reason = "only Base checkpoints of Qwen3-TTS make voices of recordings".into();
                    return Err(LoadError::one(Problem::Machine { reason }));
                }
            };
            VoiceEncoder::load(&self.read.checkpoint, &self.read.checkpoint.folder(folder)?)
        };
        load().map_err(|e| e.at(self.place.clone()))
    }

    /// Chat template of the checkpoint; Qwen's if it has none.
    ///
    /// # Errors
    /// [`LoadError`] if its template is no template, or if its configuration has no thinker.
    pub fn chat_template(&self) -> Result<ChatTemplate, LoadError> {
        let load = |thinker: ThinkerConfig| {
            ChatTemplate::load(
                &self.read.checkpoint,
                &self.read.tokenizer,
                self.read.config.text,
                self.newline,
                &thinker,
            )
        };
        let config = self.thinker_config();
        config.and_then(load).map_err(|e| e.at(self.place.clone()))
    }

    /// Checks that models like this one hold conversations.
    ///
    /// # Errors
    /// The reason why not, in words.
    pub fn converses(&self) -> Result<(), String> {
        match self.read.family {
            Family::Qwen3Omni => Ok(()),
            Family::Qwen3Tts => Err(format!(
                "{} is speech-only, it has no thinker",
                self.read.family.title()
            )),
        }
    }

    fn thinker_config(&self) -> Result<ThinkerConfig, LoadError> {
        self.converses()
            .map_err(|reason| LoadError::one(Problem::Machine { reason }))?;
        ThinkerConfig::parse(&self.read.checkpoint.required("config.json")?)
    }

    /// A vocoder with streams of its own; the weights are shared.
    ///
    /// # Errors
    /// [`ModelError`] if its state cannot be had.
    pub fn code2wav(&self) -> Result<Code2Wav, ModelError> {
        self.nets.code2wav()
    }

    /// The text tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.read.tokenizer
    }

    /// Properties of the model.
    pub fn limits(&self) -> &SpeechLimits {
        &self.limits
    }

    /// Tensors of the checkpoint that no network of it uses, if there are any: how many, and the first names.
    pub fn unused(&self) -> Option<&str> {
        self.read.unused.as_deref()
    }

    /// Sampling defaults of the checkpoint.
    pub fn defaults(&self) -> &GenerationDefaults {
        &self.read.defaults
    }

    /// Text tokens with a meaning of their own.
    pub fn text_tokens(&self) -> TextTokens {
        self.read.config.text
    }

    /// Samples of `frames` codec frames decoded as one stream.
    pub fn samples_of(&self, frames: usize) -> usize {
        self.read.config.code2wav.samples_of(frames)
    }

    /// Token ids of the user turn in front of text that answers nothing: an empty one where there must be one.
    ///
    /// # Errors
    /// [`crate::TokenizeError`] if the turn cannot be tokenized.
    pub fn opening_turn(&self) -> Result<Vec<u32>, crate::TokenizeError> {
        match self.read.family {
            Family::Qwen3Omni => self.user_turn(""),
            Family::Qwen3Tts => Ok(Vec::new()),
        }
    }

    /// Token ids of a user turn with speaking instructions ([`SpeechLimits::instructions`]). Names of special tokens
    /// are plain text.
    ///
    /// # Errors
    /// [`crate::TokenizeError`] if the text cannot be tokenized.
    pub fn instruction(&self, text: &str) -> Result<Vec<u32>, crate::TokenizeError> {
        self.turn(self.read.tokenizer.encode_plain(text)?)
    }

    /// Token ids of a user turn with `text`: the prompt in front of the spoken text.
    ///
    /// # Errors
    /// [`crate::TokenizeError`] if the text cannot be tokenized.
    pub fn user_turn(&self, text: &str) -> Result<Vec<u32>, crate::TokenizeError> {
        self.turn(self.read.tokenizer.encode(text)?)
    }

    fn turn(&self, text: Vec<u32>) -> Result<Vec<u32>, crate::TokenizeError> {
        let t = self.read.config.text;
        let mut ids = vec![t.im_start];
        match self.read.config.user {
            Some(user) => ids.push(user),
            None => ids.extend(self.read.tokenizer.encode_plain("user")?),
        }
        ids.push(self.newline);
        ids.extend(text);
        ids.extend([t.im_end, self.newline]);
        Ok(ids)
    }

    /// The content of one of the checkpoint's files, `None` if it is not there.
    ///
    /// # Errors
    /// [`LoadError`] if the file is there but cannot be read.
    pub fn file(&self, name: &str) -> Result<Option<std::borrow::Cow<'static, [u8]>>, LoadError> {
        self.read.checkpoint.file(name)
    }
}

/// Checks both lists of tensors against the networks' requests and reports all problems; returns the optional parts
/// found. The voice encoder is required only where there are no other voices, the conversation files only if wanted.
fn check_tensors(
    sources: Sources<'_>,
    apart: bool,
    (family, converse): (Family, bool),
    config: &SpeechConfig,
) -> Result<Option<String>, LoadError> {
    let talker = Loader::new(sources.talker, &DryRun);
    let code2wav = Loader::new(sources.code2wav, &DryRun);
    let vocoder = if apart { &code2wav } else { &talker };
    nets(&talker, vocoder, config)?;
    if limits(config).voice_source == VoiceSource::Recordings {
        encoder_nets(sources.talker, &talker, vocoder)?;
    }
    let json = sources.talker.required("config.json")?;
    let conversing = Loader::new(sources.talker, &DryRun);
    // Problems of their configuration are reported when they are loaded.
    let thinker = ThinkerConfig::parse(&json);
    let hears = AudioConfig::parse(&json, sources.talker.file("preprocessor_config.json")?.as_deref());
    if family == Family::Qwen3Omni {
        if let Ok(thinker) = &thinker {
            thinker_model::nets(&conversing, thinker)?;
        }
        if let Ok(hears) = &hears {
            audio_encoder::nets(&conversing, hears)?;
        }
    }
    let mut unused = talker.extra();
    if apart {
        unused.extend(code2wav.extra());
    }
    unused.retain(|name| family.speaks_with(name));
    let known = |name: &&str| {
        let reader = if name.starts_with(audio_encoder::NAME) {
            hears.is_ok()
        } else {
            thinker.is_ok()
        };
        reader && family.converses_with(name)
    };
    unused.extend(conversing.extra().into_iter().filter(known));
    let unused = listed(&unused);
    let mut problems = talker.problems();
    if apart {
        problems.extend(code2wav.problems());
    }
    if converse {
        let files = conversing
            .problems()
            .into_iter()
            .filter(|problem| problem.file().is_some());
        problems.extend(
            files
                .filter(|problem| !problems.contains(problem))
                .collect::<Vec<_>>(),
        );
    }
    LoadError::unless_empty(problems)?;
    Ok(unused)
}

/// Number of names, and the first ones.
fn listed(names: &[&str]) -> Option<String> {
    const FIRST: usize = 3;
    let first = names[..names.len().min(FIRST)].join(", ");
    match names.len() {
        0 => None,
        count @ ..=FIRST => Some(format!("{count} ({first})")),
        count => Some(format!("{count} ({first} and {} more)", count - FIRST)),
    }
}

/// BCP-47 tags of the languages that checkpoints name.
const LANGUAGES: [(&str, &str); 10] = [
    ("zh", "chinese"),
    ("en", "english"),
    ("de", "german"),
    ("it", "italian"),
    ("pt", "portuguese"),
    ("es", "spanish"),
    ("ja", "japanese"),
    ("ko", "korean"),
    ("fr", "french"),
    ("ru", "russian"),
];

fn languages(own: &Qwen3TtsConfig) -> Vec<Language> {
    let known = LANGUAGES
        .into_iter()
        .filter(|(_, name)| own.languages.contains_key(*name));
    known
        .map(|(tag, name)| Language {
            tag,
            name: name.to_owned(),
        })
        .collect()
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
    let own = match &config.talker.prompt {
        PromptFormat::Qwen3Omni => None,
        PromptFormat::Qwen3Tts(own) => Some(own),
    };
    SpeechLimits {
        languages: own.map(languages).unwrap_or_default(),
        instructions: own.is_some_and(|own| own.instructions),
        non_streaming: own.map(|own| own.kind.non_streaming()),
        voice_source: own.map_or(VoiceSource::Names, |own| own.kind.voice_source()),
        voices: config.talker.speakers.keys().cloned().collect(),
        sample_rate: config.code2wav.sample_rate,
        samples_per_frame: count(samples_per_frame),
        first_frame_samples: count(config.code2wav.samples_of(1)),
        frame_rate: f64::from(config.code2wav.sample_rate) / samples_per_frame as f64,
        code_groups: count(config.predictor.groups),
        codebook_size: count(config.code2wav.codebook),
        max_positions: count(config.talker.max_positions),
        text_vocab: count(config.talker.text_vocab),
        voice_width: count(config.talker.stack.hidden),
    }
}

/// Bytes of the keys and values of one position in all layers, with `number` bytes per element.
pub(crate) fn kv_position_bytes(stack: &StackConfig, number: u64) -> u64 {
    (2 * stack.ffn.len() * stack.kv_heads * stack.head_dim) as u64 * number
}
