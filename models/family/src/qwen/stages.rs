//! The stages of Qwen3-Omni and Qwen3-TTS: the model of each, and requests in its form.

use std::sync::Arc;

use omni_engine::{ChunkOutput, CodecFrame, RepetitionLimit, StageGraph};
use omni_models::{
    AudioEncoder, CODE2WAV, Code2Wav, DType, ENCODER, QWEN3_OMNI, SpeechModel, TALKER, THINKER, Talker,
    Thinker, ThinkerToken, UserRow, Voice, VoiceSource,
};
use omni_pipeline::item::{AudioPiece, Item};
use omni_pipeline::request::{
    ContextRow, DecodeRequest, Sampling, SpeechHead, SpeechRequest, StageRequest, TextRequest,
};
use omni_pipeline::stage::{
    ArBackend, BackendError, ChunkBackend, KvFormat, KvPosition, Launch, OneShotBackend, ReplicaId,
    StageBody, StageFamily, StageHandle, WarmUp,
};

use super::Qwen;
use super::chat_networks::{self, ChatNetworks};
use super::loaded_models::{ComputeTarget, options, planned};
use super::voice_encoder::silent_voice;
use crate::{ChatMessage, Part, Role, Speak as _};

/// Text that warms the talker up; the audio is discarded.
const SPOKEN: &str = "hello.";
/// Most frames of the warm-up text, and the frames that warm code2wav up.
const WARM_UP_FRAMES: u32 = 8;
/// Message that warms the thinker up; the answer is discarded.
const ASKED: &str = "hello";
/// Most tokens of that answer.
const WARM_UP_TOKENS: u32 = 2;
/// Length of the silence that warms the encoder up.
const WARM_UP_AUDIO: std::time::Duration = std::time::Duration::from_secs(1);

/// The user's turns in the talker's own form.
fn user_rows(rows: &[ContextRow]) -> Vec<UserRow> {
    let rows = rows.iter().filter_map(|row| match row {
        ContextRow::Token(id) => Some(UserRow::Token(*id)),
        ContextRow::Hidden(values) => Some(UserRow::Hidden(values.to_vec())),
        // A request for speech waits for these first.
        ContextRow::Awaited(_) => None,
    });
    rows.collect()
}

/// Returns true if two BCP-47 tags have the same primary language.
fn same_primary(a: &str, b: &str) -> bool {
    let primary = |tag: &str| tag.split('-').next().unwrap_or_default().to_ascii_lowercase();
    primary(a) == primary(b)
}

impl Qwen {
    /// The model for a replica of a stage.
    fn model(&self, stage: &str, replica: ReplicaId) -> Result<&SpeechModel, BackendError> {
        let target = self.target(stage, replica)?;
        let model = self.loaded_models.at(target);
        model.ok_or_else(|| BackendError::Failed(format!("the model was not loaded for {target}")))
    }

    /// Compute target of a replica of a stage.
    fn target(&self, stage: &str, replica: ReplicaId) -> Result<ComputeTarget, BackendError> {
        let planned = planned(&self.plan, stage).map_err(|error| BackendError::Failed(error.to_string()))?;
        Ok(ComputeTarget::of(planned, replica.0))
    }

    /// User turn with style instructions.
    fn instructed(&self, instructions: &str) -> Vec<UserRow> {
        match self.loaded_models.any().instruction(instructions) {
            Ok(tokens) => tokens.into_iter().map(UserRow::Token).collect(),
            // Every text has tokens where single bytes have, as in all published vocabularies.
            Err(error) => {
                tracing::warn!(%error, "instructions ignored: tokenizing failed");
                self.user.clone()
            }
        }
    }

    pub(super) fn conversing(&self) -> Result<&ChatNetworks, BackendError> {
        self.chat_networks
            .as_deref()
            .map_err(|why| BackendError::Failed(why.clone()))
    }

    fn kv_position(&self, stage: &str) -> Option<KvPosition> {
        let model = self.loaded_models.any();
        let options = options(self.plan.stages.get(stage)?);
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

    fn talker_request(&self, request: SpeechRequest) -> omni_models::TalkerRequest {
        let defaults = self.loaded_models.any().defaults();
        let head = request.head;
        let asked = head.sampling;
        let own = defaults.talker;
        let talker = omni_models::Sampling {
            temperature: asked.temperature.unwrap_or(own.temperature),
            top_p: asked.top_p.unwrap_or(own.top_p),
            top_k: asked.top_k.unwrap_or(own.top_k),
            repetition_penalty: asked.repetition_penalty.unwrap_or(own.repetition_penalty),
            ..own
        };
        // Greedy sampling applies to the predictor, too.
        let predictor = match asked.temperature {
            Some(0.0) => defaults.predictor.greedy(),
            _ => defaults.predictor,
        };
        let limits = self.loaded_models.any().limits();
        let language = head.language.as_deref().and_then(|tag| {
            let known = limits.languages.iter().find(|known| same_primary(known.tag, tag));
            known.map(|known| known.name.clone())
        });
        let user = match (request.context, head.instructions) {
            (Some(rows), _) => user_rows(&rows),
            (None, Some(instructions)) => self.instructed(&instructions),
            (None, None) => self.user.clone(),
        };
        omni_models::TalkerRequest {
            user,
            voice: match (head.voice_prompt, limits.voice_source) {
                (Some(prompt), _) => Voice::Cloned(prompt),
                (None, VoiceSource::Descriptions) => Voice::Described,
                (None, VoiceSource::Names) => Voice::Named(head.voice),
                (None, VoiceSource::Recordings) => silent_voice(limits.voice_width),
            },
            language,
            text: request.whole_text.map(|text| text.to_vec()),
            talker,
            predictor,
            seed: head.seed,
            max_frames: self.ends.frames.unwrap_or(defaults.max_frames),
            prior_frames: request.prior_frames.to_vec(),
        }
    }

    fn thinker_request(&self, request: TextRequest) -> omni_models::ThinkerRequest {
        let model = self.loaded_models.any();
        let own = model.defaults().thinker;
        let end = model.text_tokens().im_end;
        let mut request = chat_networks::thinker_request(request, own, end);
        request.max_tokens = self.ends.tokens.unwrap_or(request.max_tokens);
        request
    }
}

impl StageFamily for Qwen {
    fn graph(&self) -> StageGraph {
        match &self.chat_networks {
            Ok(chat_networks) if chat_networks.info().hearing.is_some() => QWEN3_OMNI.clone(),
            Ok(_) => QWEN3_OMNI.only(|stage| stage.name != ENCODER),
            Err(_) => QWEN3_OMNI.speech_only(),
        }
    }

    fn launch(self: Arc<Self>, stage: &'static str, launch: Launch) -> (StageHandle, StageBody) {
        let replica = launch.replica();
        match stage {
            THINKER => launch.autoregressive(ThinkerStage(self, replica)),
            TALKER => launch.autoregressive(TalkerStage(self, replica)),
            ENCODER => launch.one_shot(EncoderStage(self, replica)),
            CODE2WAV => launch.chunk(Code2WavStage(self, replica)),
            _ => launch.unknown(),
        }
    }
}

struct TalkerStage(Arc<Qwen>, ReplicaId);

impl ArBackend for TalkerStage {
    type Model = Talker;

    fn load(&self) -> Result<Talker, BackendError> {
        omni_models::share_small_products();
        let talker = self.0.model(TALKER, self.1)?.talker(self.0.kv);
        Ok(talker?)
    }

    fn request(&self, request: StageRequest) -> Result<omni_models::TalkerRequest, BackendError> {
        match request {
            StageRequest::Speech(request) => Ok(self.0.talker_request(request)),
            other => Err(BackendError::unexpected(&other)),
        }
    }

    fn item(frame: CodecFrame) -> Item {
        frame.into()
    }

    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        let info = self.0.info();
        let voice = info.voices.first().map(|voice| voice.id.clone());
        let request = SpeechRequest {
            head: SpeechHead {
                voice: voice.unwrap_or_default(),
                language: info.languages.first().cloned(),
                max_outputs: WARM_UP_FRAMES,
                ..SpeechHead::default()
            },
            ..SpeechRequest::default()
        };
        Ok(WarmUp {
            request: StageRequest::Speech(request),
            inputs: vec![Item::Text(self.0.encode(SPOKEN)?)],
        })
    }

    fn kv_position(&self) -> Option<KvPosition> {
        self.0.kv_position(TALKER)
    }
}

struct ThinkerStage(Arc<Qwen>, ReplicaId);

impl ArBackend for ThinkerStage {
    type Model = Thinker;

    fn load(&self) -> Result<Thinker, BackendError> {
        omni_models::share_small_products();
        let target = self.0.target(THINKER, self.1)?;
        self.0.conversing()?.thinker(target)
    }

    fn request(&self, request: StageRequest) -> Result<omni_models::ThinkerRequest, BackendError> {
        match request {
            StageRequest::Text(request) => Ok(self.0.thinker_request(request)),
            other => Err(BackendError::unexpected(&other)),
        }
    }

    fn item(token: ThinkerToken) -> Item {
        Item::Reply(chat_networks::reply(token))
    }

    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        let greeting = ChatMessage {
            role: Role::User,
            parts: vec![Part::Text(ASKED.into())],
        };
        let prompt = self.0.conversing()?.prompt(&[greeting]);
        let prompt =
            prompt.map_err(|error| BackendError::Failed(format!("the warm-up is refused: {error}")))?;
        let request = TextRequest {
            prompt: prompt.pieces,
            sampling: Sampling::default(),
            seed: 0,
            export_hidden: false,
            salt: omni_engine::CacheSalt::default(),
            max_outputs: WARM_UP_TOKENS,
        };
        Ok(WarmUp {
            request: StageRequest::Text(request),
            inputs: Vec::new(),
        })
    }

    fn kv_position(&self) -> Option<KvPosition> {
        self.0.kv_position(THINKER)
    }

    fn repetition(&self) -> Option<RepetitionLimit> {
        self.0.conversing().ok()?.repetition()
    }
}

struct Code2WavStage(Arc<Qwen>, ReplicaId);

impl ChunkBackend for Code2WavStage {
    type Model = Code2Wav;

    fn load(&self) -> Result<Code2Wav, BackendError> {
        let code2wav = self.0.model(CODE2WAV, self.1)?.code2wav();
        Ok(code2wav?)
    }

    fn item(chunk: ChunkOutput<f32>) -> Item {
        Item::Audio(AudioPiece {
            samples: chunk.samples,
            frames: chunk.items,
            codes: Vec::new(),
        })
    }

    fn request(&self, request: StageRequest) -> Result<(), BackendError> {
        match request {
            StageRequest::Decode(_) => Ok(()),
            other => Err(BackendError::unexpected(&other)),
        }
    }

    /// Any valid frame; its sound does not matter.
    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        let groups = self.0.loaded_models.any().limits().code_groups as usize;
        let frame = CodecFrame(vec![0; groups].into());
        Ok(WarmUp {
            request: StageRequest::Decode(DecodeRequest::default()),
            inputs: vec![Item::Frames(vec![frame; WARM_UP_FRAMES as usize])],
        })
    }
}

struct EncoderStage(Arc<Qwen>, ReplicaId);

impl OneShotBackend for EncoderStage {
    type Model = AudioEncoder;

    fn load(&self) -> Result<AudioEncoder, BackendError> {
        let target = self.0.target(ENCODER, self.1)?;
        self.0.conversing()?.encoder(target)
    }

    fn request(&self, request: StageRequest) -> Result<Arc<[f32]>, BackendError> {
        match request {
            StageRequest::Encode(samples) => Ok(samples),
            other => Err(BackendError::unexpected(&other)),
        }
    }

    fn item(rows: Arc<[f32]>) -> Item {
        Item::Embedding(rows)
    }

    fn warm_up(&self) -> Result<StageRequest, BackendError> {
        let hearing = self.0.conversing()?.info().hearing;
        let hearing = hearing.ok_or_else(|| BackendError::Failed("the model takes no audio".to_owned()))?;
        let samples = hearing.sample_rate.samples(WARM_UP_AUDIO.min(hearing.max_audio));
        Ok(StageRequest::Encode(vec![0.0; samples.len()].into()))
    }
}
