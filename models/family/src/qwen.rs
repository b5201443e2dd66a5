//! The families Qwen3-Omni and Qwen3-TTS: a checkpoint (the embedded one, one from a directory, or one of random
//! weights), its properties for callers, and the models of its stages.

mod card;
mod chat_networks;
mod info;
mod kv;
mod loaded_models;
mod stages;
mod voice_encoder;

use std::sync::Arc;

use anyhow::Context as _;
use omni_models::{KvOptions, TALKER, UserRow};
use omni_pipeline::stage::BackendError;

use crate::compute::{ComputePlan, ProcessRole};
use crate::source::ModelSource;
use crate::{
    ChatInfo, ChatMessage, Converse, Detokenizer, DeviceFigures, EncodeVoice, Family, Prompt, PromptError,
    Speak, SpeechInfo, Voicing,
};
use card::Ends;
use chat_networks::{ChatNetworks, Text};
use info::{card, info};
use kv::{bounded, kv, longest};
use loaded_models::{LoadedModels, converses, options, planned};
use voice_encoder::VoiceEncoders;

/// A loaded model.
#[derive(Debug)]
pub(crate) struct Qwen {
    loaded_models: LoadedModels,
    plan: ComputePlan,
    info: SpeechInfo,
    /// The user turn in front of everything that is spoken without a conversation and without instructions.
    user: Vec<UserRow>,
    /// The cache of each talker.
    kv: KvOptions,
    /// Bounds of its speech, for a model that finds no end by itself.
    ends: Ends,
    /// The part that converses, or the reason why there is none.
    chat_networks: Result<Arc<ChatNetworks>, String>,
    /// Encoders that turn recordings into voices, for a model whose voices are recordings.
    voice_encoders: VoiceEncoders,
}

impl Qwen {
    /// Loads the part of a model that `role` needs. May take long; nothing is kept if it fails.
    ///
    /// # Errors
    /// All problems of the checkpoint, or of a device.
    pub(crate) fn load(source: &ModelSource, plan: &ComputePlan, role: ProcessRole) -> anyhow::Result<Self> {
        let (checkpoint, name) = source.checkpoint()?;
        let loaded_models = LoadedModels::load(&checkpoint, &name, plan, role)?;
        let model = loaded_models.any();
        let card = card(model)?;
        let chat_networks = match role {
            ProcessRole::Server { speech_only: true } => {
                Err("the server was told to serve speech only".to_owned())
            }
            role if !converses(role) => Err("this process does not converse".to_owned()),
            role => ChatNetworks::load(&loaded_models, card.as_ref(), plan, role)?,
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
        let stage = planned(plan, TALKER)?;
        let position = model.talker_kv_position_bytes(options(stage));
        let kv = bounded(kv(stage, position)?, stage, position);
        info.max_context = info.max_context.min(longest(&kv));
        Ok(Self {
            loaded_models,
            plan: plan.clone(),
            info,
            user: user.into_iter().map(UserRow::Token).collect(),
            kv,
            ends,
            chat_networks: chat_networks.map(|chat_networks| Arc::new(chat_networks.with_voicing(voicing))),
            voice_encoders: VoiceEncoders::default(),
        })
    }
}

impl Speak for Qwen {
    fn info(&self) -> &SpeechInfo {
        &self.info
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, BackendError> {
        self.loaded_models
            .any()
            .tokenizer()
            .encode(text)
            .map_err(|error| BackendError::Failed(error.to_string()))
    }

    fn devices(&self) -> Vec<DeviceFigures> {
        self.loaded_models.figures()
    }

    fn voice_encoder(&self) -> Result<Arc<dyn EncodeVoice>, BackendError> {
        self.voice_encoders.of(self.loaded_models.any())
    }
}

/// The part of a model that converses.
struct Chat {
    model: Arc<Qwen>,
    chat_networks: Arc<ChatNetworks>,
}

impl From<Qwen> for Family {
    fn from(model: Qwen) -> Self {
        let model = Arc::new(model);
        let chat = model.chat_networks.clone().map(|chat_networks| {
            let model = Arc::clone(&model);
            Arc::new(Chat { model, chat_networks }) as Arc<dyn Converse>
        });
        Self {
            chat,
            ..Self::voice(model)
        }
    }
}

impl Converse for Chat {
    fn chat(&self) -> ChatInfo {
        self.chat_networks.info().clone()
    }

    fn prompt(&self, messages: &[ChatMessage]) -> Result<Prompt, PromptError> {
        self.chat_networks.prompt(messages)
    }

    fn detokenizer(&self) -> Box<dyn Detokenizer> {
        Box::new(Text(self.model.loaded_models.any().tokenizer().decoder()))
    }
}
