//! A scripted voice with durations: a token lasts one to three frames, and a frame is a row of numbers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use omni_engine::{
    Answer, ChunkConfig, ChunkModel, ChunkOutput, CodecFrame, Decoded, Delivery, LatentFrame, ModelError,
    OneShotConfig, OneShotModel, PayloadKind, Port, SeqId, Skipped, StageEdge, StageGraph, StageKind,
    StageNode, StreamOptions,
};
use omni_pipeline::clock::Clock;
use omni_pipeline::item::{AudioPiece, Item, ItemKind};
use omni_pipeline::request::{DecodeRequest, Payloads, SpeechHead, SpeechRequest, StageRequest};
use omni_pipeline::stage::{
    BackendError, ChunkBackend, EngineSettings, Launch, OneShotBackend, ReplicaStatus, StageBody,
    StageHandle, StageSettings, WarmUp,
};
use parking_lot::{Condvar, Mutex};

use super::machine::PATIENCE;

/// Samples of a frame.
pub(crate) const PER_FRAME: usize = 4;
/// Seed of all speech here.
pub(crate) const SEED: u64 = 5;
/// The only voice that callers may have.
pub(crate) const VOICE: &str = "alto";
/// Frames that the vocoder takes from its edge ahead of its work.
pub(crate) const QUEUE: u32 = 16;
pub(crate) const ACOUSTIC: &str = "acoustic";
pub(crate) const VOCODER: &str = "vocoder";

/// Stages of a voice.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// An acoustic model, and a vocoder that needs so many frames behind one.
    Stages { look_ahead: u32 },
    /// One stage from text to audio.
    Whole,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// The acoustic model gives codec frames.
    GivesCodes,
    /// The family has no vocoder, although its graph names one.
    NoVocoder,
    /// The vocoder panics in the first step with a caller's stream.
    VocoderPanicsOnce,
}

/// Behaviour of a voice, and what it did. Clones share the latter.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) shape: Shape,
    pub(crate) fault: Option<Fault>,
    /// Locked by every step of the acoustic model.
    pub(crate) acoustic: Arc<Mutex<()>>,
    /// Steps of the acoustic model that began.
    pub(crate) entered: Count,
    /// Requests of each of its steps.
    pub(crate) batches: Arc<Mutex<Vec<usize>>>,
    /// Frames that became samples.
    pub(crate) decoded: Arc<AtomicUsize>,
    /// Streams that the vocoder has forgotten.
    pub(crate) closed: Count,
    pub(crate) panicked: Arc<AtomicBool>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            shape: Shape::Whole,
            fault: None,
            acoustic: Arc::default(),
            entered: Count::default(),
            batches: Arc::default(),
            decoded: Arc::default(),
            closed: Count::default(),
            panicked: Arc::default(),
        }
    }
}

/// A number that can be waited for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Count(Arc<(Mutex<usize>, Condvar)>);

impl Count {
    fn add(&self) {
        *self.0.0.lock() += 1;
        self.0.1.notify_all();
    }

    /// Waits until it is at least `count`.
    pub(crate) fn wait_for(&self, count: usize) {
        let mut now = self.0.0.lock();
        let waited = self.0.1.wait_while_for(&mut now, |now| *now < count, PATIENCE);
        assert!(!waited.timed_out(), "{now}, expected {count}");
    }
}

fn frames(text: &[u32], speed: f32) -> Vec<LatentFrame> {
    let lasts = |token: u32| ((token % 3 + 1) as f32 / speed) as usize;
    let frames = text.iter().flat_map(|token| vec![*token as f32; lasts(*token)]);
    let frames = frames.enumerate();
    frames
        .map(|(at, token)| LatentFrame([token, at as f32, SEED as f32].into()))
        .collect()
}

/// Samples of a frame behind another.
fn sound(before: &LatentFrame, LatentFrame(row): &LatentFrame) -> Vec<f32> {
    let level = row[0] / 512.0 + before.0[0] / 4_096.0 + row[1] / 65_536.0 + row[2];
    (0..PER_FRAME).map(|at| level + at as f32 / 64.0).collect()
}

fn nothing() -> LatentFrame {
    LatentFrame([0.0; 3].into())
}

fn samples(frames: &[LatentFrame]) -> Vec<f32> {
    let mut before = nothing();
    let sounds = frames.iter().map(|frame| {
        let sound = sound(&before, frame);
        before = frame.clone();
        sound
    });
    sounds.flatten().collect()
}

/// Audio of a text.
pub(crate) fn expected(text: &str, speed: f32) -> Vec<f32> {
    let tokens: Vec<u32> = text.chars().map(u32::from).collect();
    samples(&frames(&tokens, speed))
}

impl Script {
    pub(crate) fn graph(&self) -> StageGraph {
        let node = |name, kind| StageNode {
            name,
            kind,
            shares_prefixes: false,
        };
        let edge = |from, to, payload, delivery| StageEdge {
            from,
            to,
            payload,
            delivery,
        };
        use {PayloadKind as P, Port::Session, Port::Stage};
        let acoustic = Stage(ACOUSTIC);
        let vocoder = Stage(VOCODER);
        let mut stages = vec![node(ACOUSTIC, StageKind::OneShot)];
        let mut edges = vec![edge(Session, acoustic, P::Text, Delivery::Whole)];
        match self.shape {
            Shape::Stages { look_ahead } => {
                stages.push(node(VOCODER, StageKind::Chunk));
                edges.push(edge(
                    acoustic,
                    vocoder,
                    P::Latents,
                    Delivery::Stream { look_ahead },
                ));
                edges.push(edge(vocoder, Session, P::Audio, Delivery::STREAM));
            }
            Shape::Whole => edges.push(edge(acoustic, Session, P::Audio, Delivery::STREAM)),
        }
        StageGraph {
            family: "latents",
            stages: stages.into(),
            edges: edges.into(),
        }
    }

    pub(crate) fn launch(self, stage: &'static str, status: ReplicaStatus) -> (StageHandle, StageBody) {
        let upstream = (stage == VOCODER).then_some((ACOUSTIC, PATIENCE));
        let engine = match (stage, self.shape) {
            (VOCODER, Shape::Stages { look_ahead }) => EngineSettings::Chunk {
                config: ChunkConfig::new(Duration::from_millis(40)),
                options: StreamOptions {
                    unplayed_items: 0,
                    look_ahead,
                },
                samples_per_frame: PER_FRAME as u32,
            },
            _ => EngineSettings::OneShot(OneShotConfig::default()),
        };
        let settings = StageSettings {
            mailbox: 16,
            upstream,
            engine,
        };
        let launch = Launch::new(settings, status, Clock::start());
        match (stage, self.shape, self.fault) {
            (VOCODER, _, Some(Fault::NoVocoder)) => launch.unknown(),
            (VOCODER, ..) => launch.chunk(Vocoder(self)),
            (_, Shape::Whole, _) => launch.one_shot(Speaks(self)),
            (_, _, Some(Fault::GivesCodes)) => launch.one_shot(Codes(self)),
            _ => launch.one_shot(Acoustic(self)),
        }
    }
}

/// Input of the acoustic model: text, and speed.
type Spoken = (Arc<[u32]>, f32);

fn spoken(request: StageRequest) -> Result<Spoken, BackendError> {
    match request {
        StageRequest::Speech(SpeechRequest {
            whole_text: Some(text),
            head: SpeechHead {
                speed, seed: SEED, ..
            },
            ..
        }) => Ok((text, speed)),
        other => Err(BackendError::unexpected(&other)),
    }
}

fn warm_up(gives: ItemKind) -> StageRequest {
    let head = SpeechHead {
        seed: SEED,
        ..SpeechHead::default()
    };
    StageRequest::Speech(SpeechRequest {
        head,
        payloads: Payloads { reads: None, gives },
        whole_text: Some([1, 2, 3].into()),
        ..SpeechRequest::default()
    })
}

/// The acoustic model; `give` makes its outputs of frames.
struct AcousticModel<T> {
    script: Script,
    give: fn(Vec<LatentFrame>) -> Vec<T>,
}

impl<T: Send + 'static> OneShotModel for AcousticModel<T> {
    type Input = Spoken;
    type Output = T;

    fn cost(&self, (text, _): &Spoken) -> Result<u32, ModelError> {
        Ok(text.len() as u32)
    }

    fn run(&mut self, batch: &[(SeqId, &Spoken)]) -> Result<Vec<Answer<T>>, ModelError> {
        self.script.batches.lock().push(batch.len());
        self.script.entered.add();
        drop(self.script.acoustic.lock());
        let speak = |(_, (text, speed)): &(SeqId, &Spoken)| Ok((self.give)(frames(text, *speed)));
        Ok(batch.iter().map(speak).collect())
    }
}

/// A backend of the acoustic model: outputs, their items, and their kind.
macro_rules! acoustic {
    ($backend:ident, $output:ty, $give:expr, $item:expr, $kind:expr) => {
        struct $backend(Script);

        impl OneShotBackend for $backend {
            type Model = AcousticModel<$output>;

            fn load(&self) -> Result<Self::Model, BackendError> {
                let script = self.0.clone();
                Ok(AcousticModel {
                    script,
                    give: $give,
                })
            }

            fn request(&self, request: StageRequest) -> Result<Spoken, BackendError> {
                spoken(request)
            }

            fn item(output: $output) -> Item {
                $item(output)
            }

            fn warm_up(&self) -> Result<StageRequest, BackendError> {
                Ok(warm_up($kind))
            }
        }
    };
}

acoustic!(
    Acoustic,
    LatentFrame,
    |frames| frames,
    Item::from,
    ItemKind::Latents
);
acoustic!(
    Codes,
    CodecFrame,
    |frames| vec![CodecFrame([1].into()); frames.len()],
    Item::from,
    ItemKind::Frames
);
acoustic!(
    Speaks,
    Vec<f32>,
    |frames| samples(&frames).chunks(PER_FRAME).map(<[f32]>::to_vec).collect(),
    |samples| Item::Audio(AudioPiece {
        samples,
        frames: 1,
        codes: Vec::new(),
    }),
    ItemKind::Audio
);

struct Vocoder(Script);

impl ChunkBackend for Vocoder {
    type Model = VocoderModel;

    fn load(&self) -> Result<VocoderModel, BackendError> {
        Ok(VocoderModel {
            script: self.0.clone(),
            open: HashMap::new(),
        })
    }

    fn request(&self, request: StageRequest) -> Result<SpeechHead, BackendError> {
        match request {
            StageRequest::Decode(decode) => Ok(decode.head),
            other => Err(BackendError::unexpected(&other)),
        }
    }

    fn item(chunk: ChunkOutput<f32>) -> Item {
        Item::Audio(AudioPiece {
            samples: chunk.samples,
            frames: chunk.items,
            codes: Vec::new(),
        })
    }

    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        Ok(WarmUp {
            request: StageRequest::Decode(DecodeRequest::default()),
            inputs: frames(&[1, 2, 3], 1.0).into_iter().map(Item::from).collect(),
        })
    }
}

struct VocoderModel {
    script: Script,
    open: HashMap<SeqId, Stream>,
}

/// A stream: a caller's, unless it is the warm-up; its last frame with samples; and frames without.
struct Stream {
    calls: bool,
    before: LatentFrame,
    held: Vec<LatentFrame>,
}

impl VocoderModel {
    /// Samples of all held frames but the last `keep`.
    fn sound(&mut self, seq: SeqId, keep: usize) -> Vec<f32> {
        let stream = self.open.get_mut(&seq).expect("it is open");
        let ripe = stream.held.len().saturating_sub(keep);
        self.script.decoded.fetch_add(ripe, Ordering::SeqCst);
        let mut samples = Vec::new();
        for frame in stream.held.drain(..ripe) {
            samples.extend(sound(&stream.before, &frame));
            stream.before = frame;
        }
        samples
    }
}

impl ChunkModel for VocoderModel {
    type Request = SpeechHead;
    type Item = LatentFrame;
    type Sample = f32;

    fn open(&mut self, seq: SeqId, head: SpeechHead, _lead: u32) -> Result<Skipped, ModelError> {
        let calls = !head.voice.is_empty();
        if calls && head.voice != VOICE {
            return Err(ModelError::Rejected(format!(
                "{} does not speak here",
                head.voice
            )));
        }
        let stream = Stream {
            calls,
            before: nothing(),
            held: Vec::new(),
        };
        self.open.insert(seq, stream);
        Ok(Skipped::default())
    }

    fn decode(&mut self, batch: &[(SeqId, &[LatentFrame])]) -> Result<Vec<Decoded<f32>>, ModelError> {
        let Shape::Stages { look_ahead } = self.script.shape else {
            return Err(ModelError::Compute("there is no vocoder".to_owned()));
        };
        let mut decoded = Vec::new();
        for (seq, frames) in batch {
            let stream = self.open.get_mut(seq).expect("it is open");
            let panics = stream.calls && self.script.fault == Some(Fault::VocoderPanicsOnce);
            assert!(
                !panics || self.script.panicked.swap(true, Ordering::SeqCst),
                "the script says so"
            );
            stream.held.extend_from_slice(frames);
            decoded.push(Ok(self.sound(*seq, look_ahead as usize)));
        }
        Ok(decoded)
    }

    fn flush(&mut self, batch: &[SeqId]) -> Result<Vec<Decoded<f32>>, ModelError> {
        Ok(batch.iter().map(|seq| Ok(self.sound(*seq, 0))).collect())
    }

    fn close(&mut self, seq: SeqId) {
        if self.open.remove(&seq).is_some() {
            self.script.closed.add();
        }
    }
}
