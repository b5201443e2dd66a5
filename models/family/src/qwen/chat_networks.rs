//! The thinker of a checkpoint as the thinker stage's model.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use omni_audio::{SampleRate, Samples};
use omni_engine::RepetitionLimit;
use omni_models::{
    AUDIO_SAMPLE_RATE, AudioEncoder, AudioLimits, ChatError, ChatTemplate, ENCODER, HiddenRows, KvOptions,
    LoadError, Message, MessagePart, SpeechModel, THINKER, TextDecoder, TextSampling, Thinker, ThinkerModel,
    ThinkerToken, UserRow,
};

use super::card::{Card, CardChat, CardRepetition};
use super::kv::{kv, longest};
use super::loaded_models::{ComputeTarget, LoadedModels, options, planned, targets};
use crate::compute::{ComputePlan, ProcessRole};
use crate::{
    ChatInfo, ChatMessage, Detokenizer, Hearing, Part, Prompt, PromptError, Role, ToolPart, Voicing,
};
use omni_pipeline::item::ReplyToken;
use omni_pipeline::request::{ContextRow, PromptPiece, Sampling, TextRequest};
use omni_pipeline::stage::BackendError;

/// A thinker with its template.
#[derive(Debug)]
pub(super) struct ChatNetworks {
    thinkers: BTreeMap<ComputeTarget, ThinkerModel>,
    /// Numbers in a row of what is heard.
    hidden: usize,
    template: ChatTemplate,
    info: ChatInfo,
    kv: KvOptions,
    /// The token that opens a turn.
    im_start: u32,
    encoders: BTreeMap<ComputeTarget, AudioEncoder>,
    repetition: Option<RepetitionLimit>,
}

/// Longest audio of one message: encoding it delays all other recordings.
const MAX_AUDIO: Duration = Duration::from_secs(60);

fn limit(card: CardRepetition) -> RepetitionLimit {
    RepetitionLimit {
        min_pattern: card.min_pattern,
        max_pattern: card.max_pattern,
        count: card.count,
    }
}

impl ChatNetworks {
    /// Reads the thinker if `role` has it; the inner error is the reason why there is none.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    pub(super) fn load(
        loaded_models: &LoadedModels,
        card: Option<&Card>,
        plan: &ComputePlan,
        role: ProcessRole,
    ) -> anyhow::Result<Result<Self, String>> {
        let model = loaded_models.any();
        if let Err(why) = model.converses() {
            return Ok(Err(why));
        }
        // The published checkpoints of Qwen3-Omni have no card, and converse.
        let card = match card {
            None => None,
            Some(Card { chat: Some(chat), .. }) => Some(chat),
            Some(Card { chat: None, .. }) => return Ok(Err("its omni.json says nothing of chat".to_owned())),
        };
        if let Err(error) = model.check_thinker() {
            tracing::warn!(%error, "thinker unusable; the model serves speech only");
            // For callers, who learn no paths of this machine.
            return Ok(Err("its checkpoint has no thinker that can be used".to_owned()));
        }
        let template = model
            .chat_template()
            .context("the chat template cannot be used")?;
        let thinkers = targets(role, THINKER, plan).into_iter();
        let placed = thinkers.filter_map(|target| Some((target, loaded_models.at(target)?)));
        let read = placed.map(|(target, model)| Ok((target, model.load_thinker()?)));
        let thinkers = read
            .collect::<Result<_, LoadError>>()
            .context("the thinker cannot be loaded")?;
        let hears = match card {
            Some(CardChat { hears: false, .. }) => None,
            _ => audio_limits(model),
        };
        let encoders = match hears {
            None => BTreeMap::new(),
            Some(_) => encoders(loaded_models, targets(role, ENCODER, plan))?,
        };
        let limits = model.thinker_limits()?;
        let stage = planned(plan, THINKER)?;
        let kv = kv(stage, model.thinker_kv_position_bytes(options(stage))?)?;
        let trained = card.and_then(|chat| chat.max_context_tokens).unwrap_or(u32::MAX);
        let defaults = model.defaults();
        let info = ChatInfo {
            max_context: limits.max_positions.min(longest(&kv)).min(trained),
            default_max_tokens: defaults.max_tokens,
            default_sampling: plain(&defaults.thinker),
            hearing: hears.as_ref().map(hearing).transpose()?,
            tools: template.takes_tools(),
            voicing: Voicing::Tokens,
            speech_context: card.is_none_or(|CardChat { talker_context, .. }| *talker_context),
        };
        Ok(Ok(Self {
            thinkers,
            hidden: limits.hidden as usize,
            template,
            info,
            kv,
            im_start: model.text_tokens().im_start,
            encoders,
            repetition: card.and_then(|chat| chat.repetition).map(limit),
        }))
    }

    /// Sets the path of its answers to speech.
    pub(super) fn with_voicing(mut self, voicing: Voicing) -> Self {
        self.info.voicing = voicing;
        self
    }

    pub(super) fn info(&self) -> &ChatInfo {
        &self.info
    }

    /// Limit at which an answer that repeats itself is ended.
    pub(super) fn repetition(&self) -> Option<RepetitionLimit> {
        self.repetition
    }

    pub(super) fn thinker(&self, target: ComputeTarget) -> Result<Thinker, BackendError> {
        let model = self.thinkers.get(&target);
        let model =
            model.ok_or_else(|| BackendError::Failed(format!("the thinker was not loaded for {target}")))?;
        let thinker = model.thinker(self.kv);
        Ok(thinker?)
    }

    pub(super) fn encoder(&self, target: ComputeTarget) -> Result<AudioEncoder, BackendError> {
        let encoders = self.encoders.get(&target).cloned();
        encoders.ok_or_else(|| BackendError::Failed("the model takes no audio".to_owned()))
    }

    pub(super) fn prompt(&self, messages: &[ChatMessage]) -> Result<Prompt, PromptError> {
        let parts = messages.iter().flat_map(|message| &message.parts);
        let audio: Vec<_> = parts.filter_map(heard).collect::<Result<_, _>>()?;
        let width = self.hidden.max(1);
        let rows: Vec<_> = audio.iter().map(|rows| rows.len() / width).collect();
        let messages: Vec<_> = messages.iter().map(message).collect();
        let rendered = self.template.render(&messages).map_err(|error| refusal(&error))?;
        let pieces = rendered.thinker_prompt(&audio).map_err(|error| refusal(&error))?;
        let heard = rendered.talker_prompt(&rows, &numbered(rows.iter().sum()));
        let heard = heard.map_err(|error| refusal(&error))?;
        Ok(Prompt {
            pieces: joined(pieces, width),
            context: self.turns(heard.user),
            opening: heard.opening,
        })
    }

    /// The user's turns, each from the token that opens it.
    fn turns(&self, rows: Vec<UserRow>) -> Vec<Vec<ContextRow>> {
        let mut turns: Vec<Vec<ContextRow>> = Vec::new();
        for row in rows {
            if row == UserRow::Token(self.im_start) || turns.is_empty() {
                turns.push(Vec::new());
            }
            if let Some(turn) = turns.last_mut() {
                turn.push(match row {
                    UserRow::Token(id) => ContextRow::Token(id),
                    UserRow::Hidden(number) => ContextRow::Awaited(number.first().map_or(0, |n| *n as u32)),
                });
            }
        }
        turns
    }
}

/// Embedding of a part, if it is audio.
fn heard(part: &Part) -> Option<Result<Arc<[f32]>, PromptError>> {
    let Part::Audio(clip) = part else { return None };
    let rows = clip.embedding().cloned();
    Some(rows.ok_or_else(|| PromptError::Failed("a recording was not encoded".to_owned())))
}

/// Error of a conversation that has no prompt: the caller's fault or the model's.
fn refusal(error: &ChatError) -> PromptError {
    match error {
        ChatError::Template(_)
        | ChatError::ToolJson { .. }
        | ChatError::AudioPlaces { .. }
        | ChatError::Turns(_) => PromptError::Refused(error.to_string()),
        ChatError::AudioCount { .. } | ChatError::HiddenRows { .. } | ChatError::Tokenize(_) => {
            PromptError::Failed(error.to_string())
        }
    }
}

/// Limits of the audio encoder, if there is one that can be used, here or in another process.
fn audio_limits(model: &SpeechModel) -> Option<AudioLimits> {
    let limits = model.audio_limits();
    limits
        .inspect_err(|error| tracing::info!(%error, "audio input unavailable"))
        .ok()
}

/// The audio encoder at these targets.
fn encoders(
    loaded_models: &LoadedModels,
    targets: Vec<ComputeTarget>,
) -> anyhow::Result<BTreeMap<ComputeTarget, AudioEncoder>> {
    let placed = targets
        .into_iter()
        .filter_map(|target| Some((target, loaded_models.at(target)?)));
    let read = placed.map(|(target, model)| Ok((target, model.load_audio_encoder()?)));
    read.collect::<Result<_, LoadError>>()
        .context("the audio encoder cannot be loaded")
}

fn hearing(limits: &AudioLimits) -> anyhow::Result<Hearing> {
    let sample_rate = SampleRate::new(AUDIO_SAMPLE_RATE)?;
    let longest = sample_rate.duration(Samples(limits.max_samples() as u64));
    Ok(Hearing {
        sample_rate,
        min_audio: sample_rate.duration(Samples(limits.min_samples() as u64)),
        max_audio: longest.min(MAX_AUDIO),
        rows_per_second: u32::try_from(limits.rows_of(AUDIO_SAMPLE_RATE as usize))?,
        row_bytes: u32::try_from(limits.width() * size_of::<f32>())?,
    })
}

/// Rows that hold their own number: the talker's view of a prompt is built before the thinker has computed the rows.
fn numbered(rows: usize) -> HiddenRows {
    HiddenRows {
        width: 1,
        values: (0..rows).map(|n| n as f32).collect(),
    }
}

fn message(message: &ChatMessage) -> Message {
    let part = |part: &Part| match part {
        Part::Text(text) => MessagePart::Text(text.to_string()),
        Part::Audio(_) => MessagePart::Audio,
        Part::Tool(ToolPart::Offer(json)) => MessagePart::Tool(json.to_string()),
        Part::Tool(ToolPart::Call { name, arguments }) => MessagePart::ToolCall {
            name: name.to_string(),
            arguments: arguments.to_string(),
        },
        Part::Tool(ToolPart::Result(text)) => MessagePart::ToolResult(text.to_string()),
    };
    Message {
        role: match message.role {
            Role::System => omni_models::Role::System,
            Role::User => omni_models::Role::User,
            Role::Assistant => omni_models::Role::Assistant,
        },
        parts: message.parts.iter().map(part).collect(),
    }
}

/// Neighbouring tokens as one piece.
fn joined(pieces: Vec<omni_models::PromptPiece>, width: usize) -> Vec<PromptPiece> {
    let mut joined: Vec<PromptPiece> = Vec::new();
    for piece in pieces {
        match (piece, joined.last_mut()) {
            (omni_models::PromptPiece::Token(id), Some(PromptPiece::Tokens(tokens))) => tokens.push(id),
            (omni_models::PromptPiece::Token(id), _) => joined.push(PromptPiece::Tokens(vec![id])),
            (omni_models::PromptPiece::Audio(values), _) => {
                let rows = u32::try_from(values.len() / width).unwrap_or(u32::MAX);
                joined.push(PromptPiece::Audio { rows, values });
            }
        }
    }
    joined
}

fn plain(sampling: &TextSampling) -> Sampling {
    Sampling {
        temperature: Some(sampling.temperature),
        top_p: Some(sampling.top_p),
        top_k: Some(sampling.top_k),
        repetition_penalty: Some(sampling.repetition_penalty),
        min_p: Some(sampling.min_p),
        presence_penalty: Some(sampling.presence_penalty),
        frequency_penalty: Some(sampling.frequency_penalty),
    }
}

/// A request in the thinker's own form; `end` closes its turn.
pub(super) fn thinker_request(
    request: TextRequest,
    own: TextSampling,
    end: u32,
) -> omni_models::ThinkerRequest {
    let asked = request.sampling;
    let pieces = request.prompt.into_iter().flat_map(|piece| match piece {
        PromptPiece::Tokens(ids) => ids.into_iter().map(omni_models::PromptPiece::Token).collect(),
        PromptPiece::Audio { values, .. } => vec![omni_models::PromptPiece::Audio(values)],
    });
    omni_models::ThinkerRequest {
        prompt: pieces.collect(),
        axes: None,
        sampling: TextSampling {
            temperature: asked.temperature.unwrap_or(own.temperature),
            top_p: asked.top_p.unwrap_or(own.top_p),
            top_k: asked.top_k.unwrap_or(own.top_k),
            repetition_penalty: asked.repetition_penalty.unwrap_or(own.repetition_penalty),
            min_p: asked.min_p.unwrap_or(own.min_p),
            presence_penalty: asked.presence_penalty.unwrap_or(own.presence_penalty),
            frequency_penalty: asked.frequency_penalty.unwrap_or(own.frequency_penalty),
            ..own
        },
        seed: request.seed,
        stop: vec![end],
        max_tokens: u32::MAX,
        logprobs: false,
        export_hidden: request.export_hidden,
    }
}

/// Converts a token to an item.
pub(super) fn reply(token: ThinkerToken) -> ReplyToken {
    let hidden = token.hidden.unwrap_or_default();
    ReplyToken {
        id: token.token,
        hidden: hidden.rows().map(Arc::from).collect(),
    }
}

/// Decodes tokens to text by the checkpoint's own rules.
#[derive(Debug)]
pub(super) struct Text(pub(super) TextDecoder);

impl Detokenizer for Text {
    fn push(&mut self, token: u32) -> String {
        self.0.push(token)
    }

    fn finish(&mut self) -> String {
        self.0.finish()
    }
}
