//! A checkpoint as the stages' model: the embedded one, one from a directory, or one of random weights.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use omni_audio::{SampleRate, SamplesPerFrame};
use omni_engine::{CodecFrame, StageGraph};
use omni_models::{
    AudioEncoder, CODE2WAV, CheckpointSource, Code2Wav, DType, ENCODER, KvOptions, QWEN3_OMNI, SpeechLimits,
    SpeechModel, TALKER, THINKER, Talker, Thinker, UserRow, Voice, VoiceSource,
};
use omni_text::{Language, Normalizer};

use super::card::{Card, Ends};
use super::chat_networks::{self, ChatNetworks, Text};
use super::loaded_models::{ComputeTarget, LoadedModels, ProcessRole, options};
use super::voice_encoder::{VoiceEncoders, cloned, silent_voice, support};
use crate::config::ModelSource;
use crate::config::deploy::{ArStage, Deploy, Weights};
use crate::stage::{
    BackendError, ChatInfo, ChatMessage, ContextRow, Detokenizer, DeviceFigures, Encode, EncodeVoice,
    KvFormat, KvPosition, ModelInfo, Prompt, PromptError, ReplicaId, Sampling, SpeechInfo, Talk,
    TalkerRequest, Terms, Think, ThinkerRequest, Vocode, VoiceInfo, Voicing,
};

/// The checkpoint inside the program: names and contents.
static EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Characters of one piece for a model that does not say.
const MAX_CHARACTERS: usize = 300;
/// The voice that the reference implementation of Qwen3-Omni takes by default (transformers, `generate(speaker="Ethan")`).
const REFERENCE_VOICE: &str = "ethan";

/// A loaded model.
#[derive(Debug)]
pub struct LoadedModel {
    loaded_models: LoadedModels,
    deploy: Deploy,
    info: SpeechInfo,
    /// The user turn in front of everything that is spoken without a conversation and without instructions.
    user: Vec<UserRow>,
    /// The cache of each talker.
    kv: KvOptions,
    /// Where what it says ends, if it does not end by itself.
    ends: Ends,
    /// The part that converses, or why there is none.
    chat_networks: Result<ChatNetworks, String>,
    /// What makes voices of recordings, if that is where its voices come from.
    voice_encoders: VoiceEncoders,
}

/// Loads what stages on threads need of a model. Takes its time; nothing is kept if it fails.
///
/// # Errors
/// With everything that is wrong with the checkpoint, or with a device.
pub fn load_model(source: &ModelSource, deploy: &Deploy, speech_only: bool) -> anyhow::Result<LoadedModel> {
    load(source, deploy, ProcessRole::Server { speech_only })
}

/// Loads what one replica of a stage needs, as [`load_model`] does.
pub(super) fn load_stage(
    source: &ModelSource,
    deploy: &Deploy,
    stage: &'static str,
    replica: u32,
) -> anyhow::Result<LoadedModel> {
    load(source, deploy, ProcessRole::Stage { stage, replica })
}

fn load(source: &ModelSource, deploy: &Deploy, role: ProcessRole) -> anyhow::Result<LoadedModel> {
    let (checkpoint, name) = match source {
        ModelSource::Embedded => (embedded_checkpoint()?, "embedded".to_owned()),
        ModelSource::Directory(path) => (CheckpointSource::Dir(path.clone()), directory_name(path)),
        ModelSource::Random(model) => (CheckpointSource::Random(*model), model.to_string()),
    };
    let loaded_models = LoadedModels::load(&checkpoint, &name, deploy, role)?;
    let model = loaded_models.any();
    let card = card(model)?;
    let chat_networks = match role {
        ProcessRole::Server { speech_only: true } => {
            Err("the server was told to serve speech only".to_owned())
        }
        role if !role.converses() => Err("this process does not converse".to_owned()),
        role => ChatNetworks::load(&loaded_models, card.as_ref(), deploy, role)?,
    };
    let card = card.unwrap_or_default();
    let ends = card.ends_after;
    let voicing = match card.text_normalization {
        None => Voicing::Tokens,
        Some(_) => Voicing::Words,
    };
    let mut info = info(model, card, name).context("omni.json does not fit the checkpoint")?;
    let user = model
        .opening_turn()
        .context("the tokenizer refuses an empty user turn")?;
    let stage = deploy.ar(TALKER);
    let position = model.talker_kv_position_bytes(options(deploy.stage(TALKER)));
    let kv = bounded(kv(stage, position)?, stage, position);
    info.max_context = info.max_context.min(longest(&kv));
    Ok(LoadedModel {
        loaded_models,
        deploy: deploy.clone(),
        info,
        user: user.into_iter().map(UserRow::Token).collect(),
        kv,
        ends,
        chat_networks: chat_networks.map(|chat_networks| chat_networks.with_voicing(voicing)),
        voice_encoders: VoiceEncoders::default(),
    })
}

/// The checkpoint that is compiled in.
///
/// # Errors
/// If this build has none.
pub fn embedded_checkpoint() -> anyhow::Result<CheckpointSource> {
    ensure!(
        !EMBEDDED.is_empty(),
        "this build has no embedded model, give a directory with --model"
    );
    Ok(CheckpointSource::Memory(EMBEDDED))
}

/// The cache of a stage whose rows take `position` bytes per position.
pub(super) fn kv(stage: &ArStage, position: u64) -> anyhow::Result<KvOptions> {
    let block = position * u64::from(stage.kv_block_size);
    let num_blocks = match stage.kv_memory {
        None => stage.kv_blocks,
        Some(memory) => {
            ensure!(
                memory >= 2 * block,
                "kv.memory is {memory} bytes, two blocks of this checkpoint take {}",
                2 * block
            );
            let most = (1 << 31) / stage.kv_block_size;
            u32::try_from(memory / block).map_or(most, |blocks| blocks.min(most))
        }
    };
    Ok(KvOptions {
        block_size: stage.kv_block_size,
        num_blocks,
    })
}

/// Most memory for a talker's cache on a CPU unless `kv.memory` says more. A position of Qwen3-TTS takes 224 KiB.
const CPU_CACHE: u64 = 1 << 30;
/// The same where its weights are quantised, for machines with little: two minutes at 112 KiB a position.
const SMALL_CPU_CACHE: u64 = 160 << 20;

/// `kv` within [`CPU_CACHE`] or [`SMALL_CPU_CACHE`] on a CPU.
fn bounded(kv: KvOptions, stage: &ArStage, position: u64) -> KvOptions {
    if stage.kv_memory.is_some() || stage.stage.devices.iter().any(|device| device.is_gpu()) {
        return kv;
    }
    let most = match stage.stage.weights {
        Weights::Int8 | Weights::Int4 => SMALL_CPU_CACHE,
        _ => CPU_CACHE,
    };
    let fit = most / (position * u64::from(kv.block_size)).max(1);
    KvOptions {
        num_blocks: kv.num_blocks.min(u32::try_from(fit).unwrap_or(u32::MAX).max(2)),
        ..kv
    }
}

/// Positions of the longest sequence that a cache holds: its first block is not handed out.
pub(super) fn longest(kv: &KvOptions) -> u32 {
    kv.block_size.saturating_mul(kv.num_blocks.saturating_sub(1))
}

fn directory_name(path: &Path) -> String {
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    canonical
        .file_name()
        .map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn card(model: &SpeechModel) -> anyhow::Result<Option<Card>> {
    let json = model.file("omni.json")?;
    json.map(|json| serde_json::from_slice(&json).context("omni.json cannot be read"))
        .transpose()
}

fn info(model: &SpeechModel, card: Card, name: String) -> anyhow::Result<SpeechInfo> {
    let (limits, defaults) = (model.limits(), model.defaults());
    if let Some(rate) = card.sample_rate {
        ensure!(
            rate == limits.sample_rate,
            "sample_rate is {rate}, the model has {}",
            limits.sample_rate
        );
    }
    tracing::debug!(license = card.license, "model card");
    let samples_per_frame = limits
        .samples_per_frame
        .try_into()
        .context("a frame has no samples")?;
    let voices = voices(&card, limits)?;
    let languages = match card.languages.is_empty() {
        true => limits.languages.iter().map(|l| l.tag.to_owned()).collect(),
        false => card.languages,
    };
    let talker = defaults.talker;
    let name = card.name.unwrap_or(name);
    Ok(SpeechInfo {
        display_name: name.clone(),
        id: name,
        description: card.description.unwrap_or_default(),
        detects_language: !limits.languages.is_empty(),
        instructions: limits.instructions,
        languages,
        voices,
        voice_support: support(model)?,
        sample_rate: SampleRate::new(limits.sample_rate)?,
        samples_per_frame: SamplesPerFrame(samples_per_frame),
        leading_silence_frames: card.leading_silence_frames.unwrap_or(0),
        max_frames: defaults.max_frames,
        max_context: limits.max_positions,
        default_sampling: Sampling {
            temperature: Some(talker.temperature),
            top_p: Some(talker.top_p),
            top_k: Some(talker.top_k),
            repetition_penalty: Some(talker.repetition_penalty),
        },
        normalizer: normalizer(
            card.text_normalization.as_deref(),
            card.speakable_characters.as_deref(),
        )?,
        max_characters: card.max_characters.unwrap_or(MAX_CHARACTERS).max(1),
        terms: Terms::default(),
    })
}

fn voices(card: &Card, limits: &SpeechLimits) -> anyhow::Result<Vec<VoiceInfo>> {
    let known = &limits.voices;
    match limits.voice_source {
        VoiceSource::Names => ensure!(!known.is_empty(), "the checkpoint has no voices"),
        VoiceSource::Descriptions => return Ok(vec![described()]),
        // Callers bring them.
        VoiceSource::Recordings => return Ok(Vec::new()),
    }
    for voice in &card.voices {
        let exists = known.iter().any(|name| name.eq_ignore_ascii_case(&voice.id));
        ensure!(
            exists,
            "voice {:?} is not in the checkpoint, which has {}",
            voice.id,
            known.join(", ")
        );
    }
    if !card.voices.is_empty() {
        let voices = card.voices.iter().map(|voice| VoiceInfo {
            id: voice.id.clone(),
            display_name: voice.display_name.clone(),
            description: voice.description.clone(),
        });
        return Ok(voices.collect());
    }
    let mut voices: Vec<_> = known
        .iter()
        .map(|name| VoiceInfo {
            id: name.clone(),
            display_name: name.clone(),
            description: String::new(),
        })
        .collect();
    voices.sort_by_key(|voice| !voice.id.eq_ignore_ascii_case(REFERENCE_VOICE));
    Ok(voices)
}

/// The voice of a checkpoint that is told in words how to sound.
fn described() -> VoiceInfo {
    VoiceInfo {
        id: "described".to_owned(),
        display_name: "As described".to_owned(),
        description: "The voice that the style instructions of a request describe.".to_owned(),
    }
}

fn normalizer(language: Option<&str>, speakable: Option<&str>) -> anyhow::Result<Option<Normalizer>> {
    match (language, speakable) {
        (None, _) => Ok(None),
        (Some("en"), Some(speakable)) => Ok(Some(Normalizer::new(Language::English, speakable)?)),
        (Some("en"), None) => bail!("text_normalization needs speakable_characters"),
        (Some(other), _) => bail!("text_normalization is {other:?}, expected \"en\""),
    }
}

/// The user's turns in the talker's own form.
fn user_rows(rows: &[ContextRow]) -> Vec<UserRow> {
    let rows = rows.iter().filter_map(|row| match row {
        ContextRow::Token(id) => Some(UserRow::Token(*id)),
        ContextRow::Heard(values) => Some(UserRow::Hidden(values.to_vec())),
        // A request for speech waits for it first.
        ContextRow::Awaited(_) => None,
    });
    rows.collect()
}

/// Whether two BCP-47 tags are of one language, wherever that is spoken.
fn same_primary(a: &str, b: &str) -> bool {
    let primary = |tag: &str| tag.split('-').next().unwrap_or_default().to_ascii_lowercase();
    primary(a) == primary(b)
}

impl LoadedModel {
    /// The model for a replica of a stage.
    fn model(&self, stage: &str, replica: ReplicaId) -> Result<&SpeechModel, BackendError> {
        let target = ComputeTarget::of(self.deploy.stage(stage), replica.0);
        let model = self.loaded_models.at(target);
        model.ok_or_else(|| BackendError(format!("the model was not loaded for {target}")))
    }

    /// The user turn that tells how to speak.
    fn instructed(&self, instructions: &str) -> Vec<UserRow> {
        match self.loaded_models.any().instruction(instructions) {
            Ok(tokens) => tokens.into_iter().map(UserRow::Token).collect(),
            // Every text has tokens where single bytes have, as in all published vocabularies.
            Err(error) => {
                tracing::warn!(%error, "instructions are left out");
                self.user.clone()
            }
        }
    }

    fn conversing(&self) -> Result<&ChatNetworks, BackendError> {
        self.chat_networks
            .as_ref()
            .map_err(|why| BackendError(why.clone()))
    }
}

impl ModelInfo for LoadedModel {
    fn graph(&self) -> StageGraph {
        match &self.chat_networks {
            Ok(chat_networks) if chat_networks.info().hearing.is_some() => QWEN3_OMNI.clone(),
            Ok(_) => QWEN3_OMNI.only(|stage| stage.name != ENCODER),
            Err(_) => QWEN3_OMNI.speech_only(),
        }
    }

    fn info(&self) -> &SpeechInfo {
        &self.info
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, BackendError> {
        self.loaded_models
            .any()
            .tokenizer()
            .encode(text)
            .map_err(|error| BackendError(error.to_string()))
    }

    fn kv_position(&self, stage: &str) -> Option<KvPosition> {
        let model = self.loaded_models.any();
        let options = options(self.deploy.stage(stage));
        let bytes = match stage {
            TALKER => model.talker_kv_position_bytes(options),
            THINKER => model.thinker_kv_position_bytes(options).ok()?,
            _ => return None,
        };
        let format = match options.cached() {
            DType::F32 => KvFormat::Float32,
            DType::Bf16 => KvFormat::Bfloat16,
            DType::F16 => KvFormat::Float16,
        };
        Some(KvPosition { bytes, format })
    }

    fn devices(&self) -> Vec<DeviceFigures> {
        self.loaded_models.figures()
    }
}

impl Talk for LoadedModel {
    type Talker = Talker;

    fn talker_request(&self, request: TalkerRequest) -> omni_models::TalkerRequest {
        let defaults = self.loaded_models.any().defaults();
        let (asked, own) = (request.sampling, defaults.talker);
        let talker = omni_models::Sampling {
            temperature: asked.temperature.unwrap_or(own.temperature),
            top_p: asked.top_p.unwrap_or(own.top_p),
            top_k: asked.top_k.unwrap_or(own.top_k),
            repetition_penalty: asked.repetition_penalty.unwrap_or(own.repetition_penalty),
            ..own
        };
        // Greedy means greedy throughout.
        let predictor = match asked.temperature {
            Some(0.0) => defaults.predictor.greedy(),
            _ => defaults.predictor,
        };
        let limits = self.loaded_models.any().limits();
        let language = request.language.as_deref().and_then(|tag| {
            let known = limits.languages.iter().find(|known| same_primary(known.tag, tag));
            known.map(|known| known.name.clone())
        });
        let user = match (request.context, request.instructions) {
            (Some(rows), _) => user_rows(&rows),
            (None, Some(instructions)) => self.instructed(&instructions),
            (None, None) => self.user.clone(),
        };
        omni_models::TalkerRequest {
            user,
            voice: match (&request.voice_prompt, limits.voice_source) {
                (Some(prompt), _) => cloned(prompt),
                (None, VoiceSource::Descriptions) => Voice::Described,
                (None, VoiceSource::Names) => Voice::Named(request.voice),
                (None, VoiceSource::Recordings) => silent_voice(limits.voice_width),
            },
            language,
            text: None,
            talker,
            predictor,
            seed: request.seed,
            max_frames: self.ends.frames.unwrap_or(defaults.max_frames),
        }
    }

    fn talker(&self, replica: ReplicaId) -> Result<Talker, BackendError> {
        self.model(TALKER, replica)?
            .talker(self.kv)
            .map_err(|error| BackendError(error.to_string()))
    }

    fn voice_encoder(&self) -> Result<Arc<dyn EncodeVoice>, BackendError> {
        self.voice_encoders.of(self.loaded_models.any())
    }
}

impl Vocode for LoadedModel {
    type Vocoder = Code2Wav;

    fn vocoder(&self, replica: ReplicaId) -> Result<Code2Wav, BackendError> {
        self.model(CODE2WAV, replica)?
            .code2wav()
            .map_err(|error| BackendError(error.to_string()))
    }

    fn any_frame(&self) -> CodecFrame {
        CodecFrame(vec![0; self.loaded_models.any().limits().code_groups as usize].into())
    }
}

impl Think for LoadedModel {
    type Thinker = Thinker;

    fn chat(&self) -> Result<ChatInfo, String> {
        self.chat_networks
            .as_ref()
            .map(|c| c.info().clone())
            .map_err(Clone::clone)
    }

    fn prompt(&self, messages: &[ChatMessage]) -> Result<Prompt, PromptError> {
        let chat_networks = self.conversing().map_err(|error| PromptError::Failed(error.0))?;
        chat_networks.prompt(messages)
    }

    fn detokenizer(&self) -> Box<dyn Detokenizer> {
        Box::new(Text(self.loaded_models.any().tokenizer().decoder()))
    }

    fn thinker_request(&self, request: ThinkerRequest) -> omni_models::ThinkerRequest {
        let model = self.loaded_models.any();
        let (own, end) = (model.defaults().thinker, model.text_tokens().im_end);
        let mut request = chat_networks::thinker_request(request, own, end);
        request.max_tokens = self.ends.tokens.unwrap_or(request.max_tokens);
        request
    }

    fn thinker(&self, replica: ReplicaId) -> Result<Thinker, BackendError> {
        let target = ComputeTarget::of(self.deploy.stage(THINKER), replica.0);
        self.conversing()?.thinker(target)
    }
}

impl Encode for LoadedModel {
    type Encoder = AudioEncoder;

    fn encoder(&self, replica: ReplicaId) -> Result<AudioEncoder, BackendError> {
        let target = ComputeTarget::of(self.deploy.stage(ENCODER), replica.0);
        self.conversing()?.encoder(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::deploy::resolve;

    fn talker(sets: &[&str]) -> ArStage {
        let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
        resolve(None, &sets, 1).unwrap().deploy.ar(TALKER).clone()
    }

    #[test]
    fn blocks_on_a_cpu_are_bounded_unless_their_memory_is_given() {
        let blocks = |sets: &[&str]| {
            let stage = talker(sets);
            let kv = kv(&stage, 224 << 10).unwrap();
            bounded(kv, &stage, 224 << 10).num_blocks
        };
        assert_eq!(blocks(&[]), (1 << 30) / (16 * (224 << 10)));
        assert_eq!(
            blocks(&["stages.talker.weights=int8"]),
            (160 << 20) / (16 * (224 << 10))
        );
        assert_eq!(blocks(&["stages.talker.kv.blocks=100"]), 100);
        assert_eq!(
            blocks(&["stages.talker.kv.memory=2GiB"]),
            (2 << 30) / (16 * (224 << 10))
        );
    }

    #[test]
    fn a_cache_has_the_blocks_that_were_asked_for_or_as_many_as_fit() {
        let blocks = |sets: &[&str]| {
            kv(&talker(sets), 1024)
                .map(|kv| (kv.block_size, kv.num_blocks))
                .unwrap()
        };
        assert_eq!(blocks(&["stages.talker.kv.blocks=7"]), (16, 7));
        assert_eq!(blocks(&["stages.talker.kv.memory=1MiB"]), (16, 64));
        assert_eq!(
            blocks(&[
                "stages.talker.kv.memory=1000KiB",
                "stages.talker.kv.block_size=32"
            ]),
            (32, 31)
        );
    }

    #[test]
    fn the_first_block_of_a_cache_holds_no_sequence() {
        let kv = kv(&talker(&["stages.talker.kv.blocks=7"]), 1024).unwrap();
        assert_eq!(longest(&kv), 96);
    }

    #[test]
    fn a_cache_too_small_for_two_blocks_is_refused_with_the_numbers() {
        let error = kv(&talker(&["stages.talker.kv.memory=31KiB"]), 1024).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("two blocks of this checkpoint take 32768"),
            "{error}"
        );
    }
}
