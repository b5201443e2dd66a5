//! Graphs of other shapes than those of the families that are built in: three stages in a chain of frames, and an
//! encoder whose embedding is a part of speech; nothing that answers. The server runs them as they are declared.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use omni_audio::{SampleRate, SamplesPerFrame};
use omni_engine::{
    Answer, AsyncExecutor, ChunkModel, ChunkOutput, CodecFrame, Decoded, Delivery, KvCache, KvSpec,
    ModelError, OneShotModel, PayloadKind, Port, Sampled, SeqId, SeqStep, Sequences, Skipped, StageEdge,
    StageGraph, StageKind, StageNode, StepExecutor, Warmup,
};
use omni_family::{Family, Speak, SpeechInfo, VoiceInfo};
use omni_pipeline::item::{AudioPiece, FromItem, Item, ItemKind};
use omni_pipeline::request::{Clip, DecodeRequest, Payloads, StageRequest};
use omni_pipeline::stage::{
    ArBackend, BackendError, ChunkBackend, Launch, OneShotBackend, StageBody, StageFamily, StageHandle,
    WarmUp,
};
use omni_proto::v1;
use omni_tests::{TestServer, chat_config, chat_message, generate, reason, seeded, speech_request};
use tonic::Code;

/// Samples of a codec frame.
const SAMPLES: u32 = 640;
const TEXT: &str = "Four words are here. And one more.";

/// Names of the voices.
const VOICES: [&str; 2] = ["low", "high"];
/// Payloads of the stage that marks frames.
const MARKING: Payloads = Payloads {
    reads: Some(ItemKind::Frames),
    gives: ItemKind::Frames,
};

/// Names of the stages, in the order of the graph: none is known to the server.
const SOUND: &str = "sound";
const SPEAKER: &str = "speaker";
const READER: &str = "reader";
const DETAIL: &str = "detail";

/// A model whose speech passes three stages, of which the second is of this kind.
struct Chain {
    detail: StageKind,
    info: SpeechInfo,
    /// A recording of each voice.
    voices: HashMap<&'static str, Clip>,
    /// Recordings that were encoded, that of the warm-up included.
    encoded: Arc<AtomicUsize>,
}

impl Chain {
    fn new(detail: StageKind, encoded: Arc<AtomicUsize>) -> Self {
        let voice = |id: &str| VoiceInfo {
            id: id.to_owned(),
            display_name: id.to_owned(),
            description: String::new(),
        };
        let rate = SampleRate::new(16_000).expect("a usual rate");
        let frame = SamplesPerFrame(SAMPLES.try_into().expect("not zero"));
        Self {
            detail,
            info: SpeechInfo {
                display_name: "Chain".to_owned(),
                voices: VOICES.map(voice).into(),
                max_frames: 1 << 20,
                max_context: 1 << 20,
                max_characters: 80,
                ..SpeechInfo::new("chain", rate, frame)
            },
            voices: [("low", 0.25), ("high", 0.5)]
                .map(|(name, level)| (name, Clip::new(vec![level; 160])))
                .into(),
            encoded,
        }
    }
}

impl StageFamily for Chain {
    fn graph(&self) -> StageGraph {
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
        let whole = Delivery::Whole;
        let stream = Delivery::STREAM;
        use {PayloadKind as P, Port::Session, Port::Stage};
        StageGraph {
            family: "chain",
            stages: Cow::Owned(vec![
                node(SOUND, StageKind::Chunk),
                node(SPEAKER, StageKind::OneShot),
                node(READER, StageKind::Autoregressive),
                node(DETAIL, self.detail),
            ]),
            edges: Cow::Owned(vec![
                edge(Session, Stage(SPEAKER), P::Recording, whole),
                edge(Stage(SPEAKER), Stage(READER), P::Embedding, whole),
                edge(Session, Stage(READER), P::Text, stream),
                edge(Stage(READER), Stage(DETAIL), P::Frames, stream),
                edge(Stage(DETAIL), Stage(SOUND), P::Frames, stream),
                edge(Stage(SOUND), Session, P::Audio, stream),
            ]),
        }
    }

    fn launch(self: Arc<Self>, stage: &'static str, launch: Launch) -> (StageHandle, StageBody) {
        match (stage, self.detail) {
            (SPEAKER, _) => launch.one_shot(Speaker(self)),
            (READER, _) => launch.autoregressive(Reader),
            (DETAIL, StageKind::Autoregressive) => launch.autoregressive(Detail),
            (DETAIL, _) => launch.chunk(Detail),
            (SOUND, _) => launch.chunk(Sound),
            _ => launch.unknown(),
        }
    }
}

impl Speak for Chain {
    fn info(&self) -> &SpeechInfo {
        &self.info
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, BackendError> {
        Ok(text.chars().map(u32::from).collect())
    }

    fn voice_recording(&self, voice: &str) -> Option<Clip> {
        self.voices.get(voice).cloned()
    }
}

impl From<Chain> for Family {
    fn from(chain: Chain) -> Self {
        Self::voice(Arc::new(chain))
    }
}

/// An embedding is the level of the recording.
struct Speaker(Arc<Chain>);

struct Level(Arc<AtomicUsize>);

impl OneShotModel for Level {
    type Input = Arc<[f32]>;
    type Output = Arc<[f32]>;

    fn cost(&self, _: &Arc<[f32]>) -> Result<u32, ModelError> {
        Ok(1)
    }

    fn run(&mut self, batch: &[(SeqId, &Arc<[f32]>)]) -> Result<Vec<Answer<Arc<[f32]>>>, ModelError> {
        self.0.fetch_add(batch.len(), Ordering::SeqCst);
        Ok(batch.iter().map(|(_, clip)| Ok(vec![[clip[0]].into()])).collect())
    }
}

impl OneShotBackend for Speaker {
    type Model = Level;

    fn load(&self) -> Result<Level, BackendError> {
        Ok(Level(Arc::clone(&self.0.encoded)))
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
        Ok(StageRequest::Encode([0.0].into()))
    }
}

/// Gives a frame for every input, made by `frame` from the input and the sequence's request.
struct Rows<R> {
    frame: fn(&R, u32) -> CodecFrame,
    open: HashMap<SeqId, (u32, VecDeque<R>)>,
}

impl<R> Rows<R> {
    fn new(frame: fn(&R, u32) -> CodecFrame) -> Self {
        let open = HashMap::new();
        Self { frame, open }
    }
}

impl<R: FromItem + Send + 'static> Sequences for Rows<R> {
    type Request = u32;
    type Row = R;

    fn open(&mut self, seq: SeqId, opened: u32) -> Result<u32, ModelError> {
        self.open.insert(seq, (opened, VecDeque::new()));
        Ok(1)
    }

    fn push(&mut self, seq: SeqId, rows: Vec<R>, _last: bool) {
        self.open.get_mut(&seq).expect("it is open").1.extend(rows);
    }

    fn close(&mut self, seq: SeqId) {
        self.open.remove(&seq);
    }
}

impl<R: FromItem + Send + 'static> StepExecutor for Rows<R> {
    type Output = CodecFrame;

    fn execute(&mut self, _: &[SeqStep<'_>]) -> Result<(), ModelError> {
        Ok(())
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<CodecFrame>>, ModelError> {
        let sampled = seqs.iter().map(|seq| {
            let (opened, rows) = self.open.get_mut(seq).expect("it is open");
            match rows.pop_front() {
                Some(row) => Sampled::Item((self.frame)(&row, *opened)),
                None => Sampled::End,
            }
        });
        Ok(sampled.collect())
    }
}

impl<R: FromItem + Send + 'static> KvCache for Rows<R> {
    fn kv_spec(&self) -> KvSpec {
        KvSpec {
            block_size: 1_024,
            num_blocks: 1 << 10,
            max_len: 1 << 20,
        }
    }
}

impl<R: FromItem + Send + 'static> AsyncExecutor for Rows<R> {}

impl<R: FromItem + Send + 'static> Warmup for Rows<R> {}

/// A frame is a token and the embedding's bits.
struct Reader;

impl ArBackend for Reader {
    type Model = Rows<u32>;

    fn load(&self) -> Result<Rows<u32>, BackendError> {
        Ok(Rows::new(|token, embedding| {
            CodecFrame(Box::new([*token, embedding]))
        }))
    }

    fn request(&self, request: StageRequest) -> Result<u32, BackendError> {
        match request {
            StageRequest::Speech(speech) => Ok(speech.embedding.map_or(0, |rows| rows[0].to_bits())),
            other => Err(BackendError::unexpected(&other)),
        }
    }

    fn item(frame: CodecFrame) -> Item {
        frame.into()
    }

    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        Ok(WarmUp {
            request: StageRequest::Speech(speech_request("low", 0, 4)),
            inputs: vec![Item::Text(vec![1, 2])],
        })
    }
}

fn warm_up_frames() -> Vec<Item> {
    vec![Item::Frames(vec![CodecFrame(Box::new([1, 0])); 4])]
}

/// Marks every frame, one by one or a chunk at a time.
struct Detail;

fn marked(frame: &CodecFrame) -> CodecFrame {
    CodecFrame([&frame.0[..], &[7]].concat().into())
}

impl ArBackend for Detail {
    type Model = Rows<CodecFrame>;

    fn load(&self) -> Result<Rows<CodecFrame>, BackendError> {
        Ok(Rows::new(|frame, _| marked(frame)))
    }

    fn request(&self, request: StageRequest) -> Result<u32, BackendError> {
        match request {
            StageRequest::Decode(decode) if decode.payloads == MARKING => Ok(0),
            other => Err(BackendError::unexpected(&other)),
        }
    }

    fn item(frame: CodecFrame) -> Item {
        frame.into()
    }

    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        Ok(WarmUp {
            request: StageRequest::Decode(DecodeRequest {
                payloads: MARKING,
                ..DecodeRequest::default()
            }),
            inputs: warm_up_frames(),
        })
    }
}

struct Marks;

impl ChunkModel for Marks {
    type Request = ();
    type Item = CodecFrame;
    type Sample = CodecFrame;

    fn open(&mut self, _: SeqId, (): (), _lead: u32) -> Result<Skipped, ModelError> {
        Ok(Skipped::default())
    }

    fn decode(&mut self, batch: &[(SeqId, &[CodecFrame])]) -> Result<Vec<Decoded<CodecFrame>>, ModelError> {
        let marks = batch
            .iter()
            .map(|(_, frames)| Ok(frames.iter().map(marked).collect()));
        Ok(marks.collect())
    }

    fn close(&mut self, _: SeqId) {}
}

impl ChunkBackend for Detail {
    type Model = Marks;

    fn load(&self) -> Result<Marks, BackendError> {
        Ok(Marks)
    }

    fn request(&self, request: StageRequest) -> Result<(), BackendError> {
        ArBackend::request(self, request).map(drop)
    }

    fn item(chunk: ChunkOutput<CodecFrame>) -> Item {
        Item::Frames(chunk.samples)
    }

    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        ArBackend::warm_up(self)
    }
}

/// A square wave whose level is the embedding; silence of a frame that is not marked.
struct Sound;

struct Wave;

impl ChunkModel for Wave {
    type Request = ();
    type Item = CodecFrame;
    type Sample = f32;

    fn open(&mut self, _: SeqId, (): (), _lead: u32) -> Result<Skipped, ModelError> {
        Ok(Skipped::default())
    }

    fn decode(&mut self, batch: &[(SeqId, &[CodecFrame])]) -> Result<Vec<Decoded<f32>>, ModelError> {
        let level = |frame: &CodecFrame| match frame.0[..] {
            [_, embedding, 7] => f32::from_bits(embedding),
            _ => 0.0,
        };
        let wave = |frame: &CodecFrame| {
            let level = level(frame);
            (0..SAMPLES).map(move |at| if at / 40 % 2 == 0 { level } else { -level })
        };
        Ok(batch
            .iter()
            .map(|(_, frames)| Ok(frames.iter().flat_map(wave).collect()))
            .collect())
    }

    fn close(&mut self, _: SeqId) {}
}

impl ChunkBackend for Sound {
    type Model = Wave;

    fn load(&self) -> Result<Wave, BackendError> {
        Ok(Wave)
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
            // Every stage has the request's voice.
            StageRequest::Decode(decode) if VOICES.contains(&&*decode.head.voice) => Ok(()),
            other => Err(BackendError::unexpected(&other)),
        }
    }

    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        let head = speech_request(VOICES[0], 0, 4).head;
        let request = DecodeRequest {
            head,
            ..DecodeRequest::default()
        };
        Ok(WarmUp {
            request: StageRequest::Decode(request),
            inputs: warm_up_frames(),
        })
    }
}

/// The loudest sample, between 0 and 1.
fn level(pcm: &[u8]) -> f32 {
    let samples = pcm
        .chunks_exact(2)
        .map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
    samples
        .map(|sample| f32::from(sample).abs() / 32_768.0)
        .fold(0.0, f32::max)
}

/// Speech as samples, and how it ended. The rules that other tests share know the stages of the families that are
/// built in.
async fn spoken(server: &TestServer, voice: &str) -> (Vec<u8>, v1::Outcome) {
    use v1::synthesize_response::Event as E;
    let request = v1::SynthesizeRequest {
        config: Some(v1::SpeechConfig {
            voice: voice.to_owned(),
            ..seeded(1)
        }),
        text: TEXT.to_owned(),
    };
    let mut responses = server.speech().synthesize(request).await.unwrap().into_inner();
    let mut audio = Vec::new();
    let mut outcome = None;
    while let Some(response) = responses.message().await.unwrap() {
        match response.event.expect("an event") {
            E::Audio(chunk) => audio.extend_from_slice(&chunk.data),
            E::Done(done) => outcome = done.outcome,
            E::Ready(_) | E::Warning(_) | E::Alignment(_) => {}
        }
    }
    (audio, outcome.expect("a call that ends well has a done"))
}

async fn speaks(detail: StageKind) {
    let encoded = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&encoded);
    let mut server = TestServer::launch(&[], move || Ok(Chain::new(detail, counted))).await;
    server.app.ready().await.expect("the graph can be run");
    let before = encoded.load(Ordering::SeqCst);
    let (low, outcome) = spoken(&server, "low").await;
    assert!(
        (level(&low) - 0.25).abs() < 0.01,
        "the embedding is heard: {}",
        level(&low)
    );
    let frames = outcome.usage.expect("its usage").output_audio_tokens;
    assert!(frames > 20, "a frame for each character: {frames}");
    let timings = outcome.timings.expect("its timings");
    let stages: Vec<_> = timings.stages.iter().map(|stage| stage.stage.as_str()).collect();
    assert_eq!(stages, [READER, DETAIL, SOUND]);
    assert!(timings.stages.iter().all(|stage| stage.replica == "0"));

    let (high, _) = spoken(&server, "high").await;
    assert!(
        (level(&high) - 0.5).abs() < 0.01,
        "another voice: {}",
        level(&high)
    );
    let (again, _) = spoken(&server, "low").await;
    assert_eq!(again, low);
    assert_eq!(
        encoded.load(Ordering::SeqCst) - before,
        2,
        "each recording is encoded once"
    );

    let hops = server.edges.all();
    let hops: BTreeSet<_> = hops
        .iter()
        .map(|edge| (edge.hop.from.stage, edge.hop.to.stage))
        .collect();
    let expected = [
        ("session", READER),
        (READER, DETAIL),
        (DETAIL, SOUND),
        (SOUND, "session"),
        (SPEAKER, "session"),
    ];
    assert_eq!(hops, BTreeSet::from(expected));
    server.stop().await;
}

#[tokio::test]
async fn a_chain_of_three_stages_with_an_encoded_voice_speaks() {
    speaks(StageKind::Chunk).await;
}

#[tokio::test]
async fn the_stage_in_the_middle_may_be_autoregressive() {
    speaks(StageKind::Autoregressive).await;
}

#[tokio::test]
async fn a_graph_without_a_stage_that_answers_refuses_conversations() {
    let load = || Ok(Chain::new(StageKind::Chunk, Arc::default()));
    let mut server = TestServer::launch(&[], load).await;
    server.app.ready().await.expect("the graph can be run");
    let said = vec![chat_message(v1::Role::User, "hello")];
    let refused = generate(&mut server.chat(), chat_config(false), said).await;
    let status = refused.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unimplemented, "CHAT_NOT_SUPPORTED")
    );
    server.stop().await;
}
