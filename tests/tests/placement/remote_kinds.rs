//! Stages at the other end of a socket that no family has there: one that makes codec frames of codec frames, and an
//! encoder.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{
    Answer, ChunkConfig, ChunkModel, ChunkOutput, CodecFrame, Decoded, ModelError, OneShotConfig,
    OneShotModel, SeqId, Skipped, StreamOptions,
};
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::edge;
use omni_pipeline::item::{Item, ItemKind};
use omni_pipeline::request::{DecodeRequest, Payloads, StageRequest};
use omni_pipeline::stage::{
    BackendError, ChunkBackend, EdgeSender as _, End, EngineSettings, Launch, OneShotBackend, Recv,
    ReplicaStatus, StageJob, StageSettings, WarmUp,
};
use omni_tests::RemoteStage;

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn launch(engine: EngineSettings, status: ReplicaStatus) -> Launch {
    let settings = StageSettings {
        mailbox: 4,
        upstream: None,
        engine,
    };
    Launch::new(settings, status, Clock::start())
}

/// Gives every frame twice.
struct Twice;

impl ChunkModel for Twice {
    type Request = ();
    type Item = CodecFrame;
    type Sample = CodecFrame;

    fn open(&mut self, _: SeqId, (): (), _lead: u32) -> Result<Skipped, ModelError> {
        Ok(Skipped::default())
    }

    fn decode(&mut self, batch: &[(SeqId, &[CodecFrame])]) -> Result<Vec<Decoded<CodecFrame>>, ModelError> {
        let twice = |frame: &CodecFrame| [frame.clone(), frame.clone()];
        let decoded = batch
            .iter()
            .map(|(_, frames)| Ok(frames.iter().flat_map(twice).collect()));
        Ok(decoded.collect())
    }

    fn close(&mut self, _: SeqId) {}
}

struct Doubles;

impl ChunkBackend for Doubles {
    type Model = Twice;

    fn load(&self) -> Result<Twice, BackendError> {
        Ok(Twice)
    }

    fn item(chunk: ChunkOutput<CodecFrame>) -> Item {
        Item::Frames(chunk.samples)
    }

    fn request(&self, _: StageRequest) -> Result<(), BackendError> {
        Ok(())
    }

    fn warm_up(&self) -> Result<WarmUp, BackendError> {
        Ok(WarmUp {
            request: StageRequest::Decode(DecodeRequest {
                payloads: Payloads::new(ItemKind::Frames, ItemKind::Frames),
                ..DecodeRequest::default()
            }),
            inputs: vec![frame(0).into()],
        })
    }
}

fn frame(code: u32) -> CodecFrame {
    CodecFrame(Box::new([code, 1]))
}

#[tokio::test]
async fn several_frames_at_once_cross_as_they_were_made() {
    let remote = RemoteStage::start(|status| {
        let engine = EngineSettings::Chunk {
            config: ChunkConfig::new(Duration::from_millis(40)),
            options: StreamOptions::default(),
            samples_per_frame: 640,
        };
        launch(engine, status).chunk(Doubles)
    })
    .await;
    let wake = remote.handle().wake();
    let (frames_in, frames) = edge(64, None, Some(wake.clone()));
    let (outputs_in, mut outputs) = edge(4, Some(wake.clone()), None);
    let request = StageRequest::Decode(DecodeRequest {
        payloads: Payloads::new(ItemKind::Frames, ItemKind::Frames),
        ..DecodeRequest::default()
    });
    let job = StageJob::new(SeqId(1), request, outputs_in).reading(frames);
    remote.handle().submit(job).expect("it takes jobs");
    let mut frames_in = Box::new(frames_in);
    for code in 0..10 {
        frames_in.put(frame(code).into(), 1).unwrap();
    }
    frames_in.end(End::Stop);
    let mut made = Vec::new();
    let end = loop {
        let next = tokio::time::timeout(PATIENCE, outputs.next());
        match next.await.expect("an answer") {
            Recv::Item(Item::Frames(frames)) => made.extend(frames),
            Recv::End(end) => break end,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(end, End::Stop);
    let expected: Vec<_> = (0..10).flat_map(|code| [frame(code), frame(code)]).collect();
    assert_eq!(made, expected);
    let _ = remote.stop();
}

/// An embedding is the recording, backwards.
struct Backwards;

impl OneShotModel for Backwards {
    type Input = Arc<[f32]>;
    type Output = Arc<[f32]>;

    fn cost(&self, _: &Arc<[f32]>) -> Result<u32, ModelError> {
        Ok(1)
    }

    fn run(&mut self, batch: &[(SeqId, &Arc<[f32]>)]) -> Result<Vec<Answer<Arc<[f32]>>>, ModelError> {
        let backwards = |samples: &Arc<[f32]>| vec![samples.iter().rev().copied().collect()];
        Ok(batch.iter().map(|(_, samples)| Ok(backwards(samples))).collect())
    }
}

struct Encodes;

impl OneShotBackend for Encodes {
    type Model = Backwards;

    fn load(&self) -> Result<Backwards, BackendError> {
        Ok(Backwards)
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

#[tokio::test]
async fn a_recording_and_its_embedding_cross_and_what_a_stage_is_not_there_for_fails() {
    let remote = RemoteStage::start(|status| {
        let engine = EngineSettings::OneShot(OneShotConfig {
            max_batch: 4,
            max_batch_cost: 4,
            max_cost: 4,
            max_waiting: 4,
            max_waiting_cost: 16,
        });
        launch(engine, status).one_shot(Encodes)
    })
    .await;
    let ask = async |seq, request| {
        let (outputs_in, mut outputs) = edge(1, Some(remote.handle().wake().clone()), None);
        let job = StageJob::new(SeqId(seq), request, outputs_in);
        remote.handle().submit(job).expect("it takes jobs");
        tokio::time::timeout(PATIENCE, outputs.next())
            .await
            .expect("an answer")
    };
    let answer = ask(1, StageRequest::Encode([1.0, 2.0, 3.0].into())).await;
    assert_eq!(answer, Recv::Item(Item::Embedding([3.0, 2.0, 1.0].into())));
    let refused = ask(2, StageRequest::Decode(DecodeRequest::default())).await;
    assert!(
        matches!(&refused, Recv::End(End::Failed { message, .. }) if message.contains("does not make audio")),
        "{refused:?}"
    );
    let _ = remote.stop();
}
