//! The stages of the scripted model, and jobs for those that tests drive directly.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{
    ArConfig, CacheSalt, ChunkConfig, ChunkOutput, CodecFrame, SeqId, StageGraph, StageKind, StreamOptions,
};
use omni_family::{ChatMessage, Converse as _, Part, Role, Speak as _};
use omni_models::{CODE2WAV, ENCODER, QWEN3_OMNI, TALKER, THINKER};
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{EdgeReader, EdgeWriter};
use omni_pipeline::item::{AudioPiece, Item, ReplyToken};
use omni_pipeline::request::{DecodeRequest, Sampling, SpeechHead, SpeechRequest, StageRequest, TextRequest};
use omni_pipeline::stage::{
    ArBackend, BackendError, ChunkBackend, EngineSettings, Launch, OneShotBackend, ReplicaStatus, StageBody,
    StageFamily, StageHandle, StageJob, StageSettings, WarmUp,
};

use super::code2wav::FakeCode2Wav;
use super::encoder::FakeEncoder;
use super::talker::FakeTalker;
use super::thinker::FakeThinker;
use super::{FAKE_SAMPLES_PER_FRAME, FakeSpeech};

impl StageFamily for FakeSpeech {
    fn graph(&self) -> StageGraph {
        match (self.script.speech_only, self.script.hears) {
            (true, _) => QWEN3_OMNI.speech_only(),
            (false, true) => QWEN3_OMNI.clone(),
            (false, false) => QWEN3_OMNI.only(|stage| stage.kind != StageKind::OneShot),
        }
    }

    fn launch(self: Arc<Self>, stage: &'static str, launch: Launch) -> (StageHandle, StageBody) {
        match stage {
            THINKER => launch.autoregressive(Thinks(self)),
            TALKER => launch.autoregressive(Talks(self)),
            ENCODER => launch.one_shot(Encodes(self)),
            _ => launch.chunk(Vocodes(self)),
        }
    }
}

struct Talks(Arc<FakeSpeech>);

impl ArBackend for Talks {
    type Model = FakeTalker;

    fn load(&self) -> Result<FakeTalker, BackendError> {
        let script = &self.0.script;
        script.load.pass();
        Ok(FakeTalker::new(script.clone()))
    }

    fn request(&self, request: StageRequest) -> Result<SpeechRequest, BackendError> {
        match request {
            StageRequest::Speech(request) => {
                self.0.script.contexts.add(request.context.clone());
                Ok(request)
            }
            other => Err(BackendError::unexpected(&other)),
        }
    }

    fn item(frame: CodecFrame) -> Item {
        frame.into()
    }

    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        let voice = self.0.info().voices[0].id.clone();
        Ok(WarmUp {
            request: StageRequest::Speech(speech_request(&voice, 0, 8)),
            inputs: vec![Item::Text(self.0.encode("hello.")?)],
        })
    }
}

struct Thinks(Arc<FakeSpeech>);

impl ArBackend for Thinks {
    type Model = FakeThinker;

    fn load(&self) -> Result<FakeThinker, BackendError> {
        self.0.script.load.pass();
        Ok(FakeThinker::new(self.0.script.clone()))
    }

    fn request(&self, request: StageRequest) -> Result<TextRequest, BackendError> {
        match request {
            StageRequest::Text(request) => Ok(request),
            other => Err(BackendError::unexpected(&other)),
        }
    }

    fn item(token: ReplyToken) -> Item {
        Item::Reply(token)
    }

    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        let greeting = ChatMessage {
            role: Role::User,
            parts: vec![Part::Text("hello".into())],
        };
        let prompt = self.0.prompt(&[greeting]);
        let request = TextRequest {
            prompt: prompt
                .map_err(|error| BackendError::Failed(error.to_string()))?
                .pieces,
            sampling: Sampling::default(),
            seed: 0,
            export_hidden: false,
            salt: CacheSalt::default(),
            max_outputs: 2,
        };
        Ok(WarmUp {
            request: StageRequest::Text(request),
            inputs: Vec::new(),
        })
    }
}

struct Vocodes(Arc<FakeSpeech>);

impl ChunkBackend for Vocodes {
    type Model = FakeCode2Wav;

    fn load(&self) -> Result<FakeCode2Wav, BackendError> {
        self.0.script.load.pass();
        Ok(FakeCode2Wav::new(self.0.script.clone()))
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

    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        Ok(WarmUp {
            request: StageRequest::Decode(DecodeRequest::default()),
            inputs: vec![Item::Frames(vec![CodecFrame(Box::new([0, 0])); 8])],
        })
    }
}

struct Encodes(Arc<FakeSpeech>);

impl OneShotBackend for Encodes {
    type Model = FakeEncoder;

    fn load(&self) -> Result<FakeEncoder, BackendError> {
        self.0.script.load.pass();
        Ok(FakeEncoder::new(self.0.script.clone()))
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
        Ok(StageRequest::Encode(vec![0.0; 16_000].into()))
    }
}

/// Talker replica with room for a number of jobs.
pub fn talker_stage(
    model: Arc<FakeSpeech>,
    (mailbox, config): (usize, ArConfig),
    status: ReplicaStatus,
) -> (StageHandle, StageBody) {
    let settings = StageSettings {
        mailbox,
        upstream: None,
        engine: EngineSettings::Ar {
            config,
            repetition: None,
        },
    };
    model.launch(TALKER, Launch::new(settings, status, Clock::start()))
}

/// Code2wav replica with room for a number of jobs, whose upstream may stall for `stall`.
pub fn code2wav_stage(
    model: Arc<FakeSpeech>,
    (mailbox, config): (usize, ChunkConfig),
    stall: Duration,
    status: ReplicaStatus,
) -> (StageHandle, StageBody) {
    let settings = StageSettings {
        mailbox,
        upstream: Some((TALKER, stall)),
        engine: EngineSettings::Chunk {
            config,
            options: StreamOptions::default(),
            samples_per_frame: FAKE_SAMPLES_PER_FRAME,
        },
    };
    model.launch(CODE2WAV, Launch::new(settings, status, Clock::start()))
}

/// Speech of at most `max_outputs` frames.
pub fn speech_request(voice: &str, seed: u64, max_outputs: u32) -> SpeechRequest {
    SpeechRequest {
        head: SpeechHead {
            voice: voice.to_owned(),
            seed,
            max_outputs,
            ..SpeechHead::default()
        },
        ..SpeechRequest::default()
    }
}

/// A job for the talker between two edges.
pub fn speech_job(seq: u64, request: SpeechRequest, text: EdgeReader, frames: EdgeWriter) -> StageJob {
    StageJob::new(SeqId(seq), StageRequest::Speech(request), frames).reading(text)
}

/// A job for code2wav between two edges.
pub fn decode_job(seq: u64, frames: EdgeReader, audio: EdgeWriter) -> StageJob {
    StageJob::new(SeqId(seq), StageRequest::Decode(DecodeRequest::default()), audio).reading(frames)
}
