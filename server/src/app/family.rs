//! The families Qwen3-Omni and Qwen3-TTS as the server's model: a checkpoint (the embedded one, one from a directory, or one of random
//! weights), what it is to callers, and the models of its stages.

mod card;
mod chat_networks;
mod info;
mod kv;
mod loaded_models;
mod stages;
mod voice_encoder;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use omni_models::{CheckpointSource, KvOptions, TALKER, UserRow};
use omni_pipeline::stage::BackendError;

use crate::config::ModelSource;
use crate::config::deploy::Deploy;
use crate::model::{
    ChatInfo, ChatMessage, Converse, Detokenizer, DeviceFigures, EncodeVoice, ModelInfo, Prompt, PromptError,
    SpeechInfo, Voicing,
};
use card::Ends;
use chat_networks::{ChatNetworks, Text};
use info::{card, info};
use kv::{bounded, kv, longest};
use loaded_models::{LoadedModels, ProcessRole, options};
use voice_encoder::VoiceEncoders;

/// The checkpoint inside the program: names and contents.
static EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

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

/// The files of the checkpoint that is compiled in, none if there is none.
pub(super) fn embedded_files() -> &'static [(&'static str, &'static [u8])] {
    EMBEDDED
}

fn directory_name(path: &Path) -> String {
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    canonical
        .file_name()
        .map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}

impl ModelInfo for LoadedModel {
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

    fn devices(&self) -> Vec<DeviceFigures> {
        self.loaded_models.figures()
    }

    fn voice_encoder(&self) -> Result<Arc<dyn EncodeVoice>, BackendError> {
        self.voice_encoders.of(self.loaded_models.any())
    }
}

impl Converse for LoadedModel {
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
}
