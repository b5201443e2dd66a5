//! A talker at the other end of a socket.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{ArConfig, CodecFrame};
use omni_pipeline::connector::{EdgeReader, EdgeWriter, edge};
use omni_pipeline::item::Item;
use omni_pipeline::stage::{
    EdgeSender as _, End, Recv, ReplicaStatus, StageBody, StageHandle, StageProgress,
};
use omni_tests::{FakeScript, FakeSpeech, RemoteStage, speech_job, speech_request, talker_stage};
use tokio::sync::oneshot;

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn talker(script: FakeScript, status: ReplicaStatus) -> (StageHandle, StageBody) {
    talker_stage(
        Arc::new(FakeSpeech::new(script)),
        (16, ArConfig::default()),
        status,
    )
}

async fn remote_talker(script: FakeScript) -> RemoteStage {
    RemoteStage::start(move |status| talker(script.clone(), status)).await
}

struct Speech {
    tokens: Box<EdgeWriter>,
    frames: EdgeReader,
    done: oneshot::Receiver<()>,
    progress: StageProgress,
}

fn speech(seq: u64, stage: &StageHandle, max_frames: u32, room: u32) -> Speech {
    let wake = stage.wake();
    let (tokens_in, tokens) = edge(64, None, Some(wake.clone()));
    let (frames_in, frames) = edge(room, Some(wake.clone()), None);
    let (finished, done) = oneshot::channel();
    let speech = Speech {
        tokens: Box::new(tokens_in),
        frames,
        done,
        progress: StageProgress::default(),
    };
    let mut request = speech_request("bass", 5, max_frames);
    request.head.language = Some("en".to_owned());
    request.head.instructions = Some("kindly".into());
    let mut job = speech_job(seq, request, tokens, frames_in);
    job.progress = speech.progress.clone();
    job.finished = Some(finished);
    stage.submit(job).expect("it takes jobs");
    speech
}

#[tokio::test]
async fn a_talker_at_the_other_end_speaks_text_as_it_is_written() {
    let remote = remote_talker(FakeScript::default()).await;
    let mut speech = speech(1, remote.handle(), 100, 64);
    for spoken in "text".chars() {
        speech.tokens.put(Item::Text(vec![u32::from(spoken)]), 1).unwrap();
        let expected = CodecFrame(Box::new([u32::from(spoken), 205]));
        assert_eq!(speech.frames.next().await, Recv::Item(expected.into()));
    }
    assert_eq!(speech.progress.snapshot().outputs, 4);
    speech.tokens.end(End::Stop);
    assert_eq!(speech.frames.next().await, Recv::End(End::Stop));
    speech.done.await.unwrap_err();
    let _ = remote.stop();
}

#[tokio::test]
async fn a_talker_that_is_done_says_so_before_its_frames_are_taken() {
    let remote = remote_talker(FakeScript::default()).await;
    let mut speech = speech(1, remote.handle(), 6, 2);
    speech
        .tokens
        .put(
            Item::Text("more than it may say".chars().map(u32::from).collect()),
            1,
        )
        .unwrap();
    let done = tokio::time::timeout(PATIENCE, &mut speech.done).await;
    assert!(done.expect("it is done").is_err());
    assert!(speech.tokens.is_abandoned(), "it takes no more text");
    for _ in 0..6 {
        assert!(matches!(speech.frames.next().await, Recv::Item(_)));
    }
    assert_eq!(speech.frames.next().await, Recv::End(End::Length));
    let _ = remote.stop();
}
