//! Stages driven directly, without a session: a job cancelled before it began takes no place.

use std::sync::Arc;
use std::time::Duration;

use omni_config::deploy::Restart;
use omni_engine::{ArConfig, ChunkConfig, CodecFrame};
use omni_pipeline::connector::{EdgeReader, EdgeWriter, edge};
use omni_pipeline::item::Item;
use omni_pipeline::stage::{
    CancelFlag, Changes, EdgeReceiver as _, EdgeSender as _, End, Recv, ReplicaId, ReplicaState,
    ReplicaStats, ReplicaStatus, StageJob,
};
use omni_tests::{
    FakeScript, FakeSpeech, Preparation, Prepared, code2wav_stage, decode_job, speech_job, speech_request,
    talker_stage,
};

/// Jobs cancelled before the one that is not.
const CANCELLED: u64 = 5;

/// Longer than anything here takes.
const STALL: Duration = Duration::from_secs(60);

fn status() -> ReplicaStatus {
    seat_of(Changes::default())
}

fn seat_of(changes: Changes) -> ReplicaStatus {
    let restart = Restart {
        first_delay: Duration::ZERO,
        max_delay: Duration::ZERO,
        healthy_after: Duration::ZERO,
    };
    ReplicaStatus::new("code2wav", ReplicaId(0), restart, changes)
}

fn backend() -> Arc<FakeSpeech> {
    Arc::new(FakeSpeech::new(FakeScript::default()))
}

fn flag(seq: u64) -> CancelFlag {
    let flag = CancelFlag::default();
    if seq < CANCELLED {
        flag.set();
    }
    flag
}

fn speak(seq: u64, tokens: EdgeReader, frames: EdgeWriter) -> StageJob {
    let mut job = speech_job(seq, speech_request("alto", 1, 10), tokens, frames);
    job.cancel = flag(seq);
    job
}

/// Steps that a talker takes to warm up.
async fn warm_up(config: ArConfig) -> u64 {
    let script = FakeScript::default();
    let changes = Changes::default();
    let status = seat_of(changes.clone());
    let mut changed = changes.follow();
    let backend = Arc::new(FakeSpeech::new(script.clone()));
    let (handle, body) = talker_stage(backend, (16, config), status.clone());
    let thread = std::thread::spawn(move || body.run());
    while status.state() != ReplicaState::Ready {
        changed.changed().await.unwrap();
    }
    let steps = script.talker.passed();
    drop(handle);
    thread.join().unwrap();
    steps
}

/// A talker and a vocoder with this preparation, when they are ready or failed: state and figures of each.
async fn prepared(preparation: &Preparation) -> [(ReplicaState, ReplicaStats); 2] {
    let script = FakeScript {
        preparation: preparation.clone(),
        ..FakeScript::default()
    };
    let backend = Arc::new(FakeSpeech::new(script));
    let talker = ArConfig {
        max_num_seqs: 7,
        ..ArConfig::default()
    };
    let code2wav = ChunkConfig {
        max_batch: 5,
        ..ChunkConfig::new(Duration::from_millis(40))
    };
    let changes = [Changes::default(), Changes::default()];
    let seats = changes.clone().map(seat_of);
    let (first, talker) = talker_stage(Arc::clone(&backend), (1, talker), seats[0].clone());
    let (second, code2wav) = code2wav_stage(backend, (1, code2wav), STALL, seats[1].clone());
    let mut results = Vec::new();
    for ((body, status), changes) in [talker, code2wav].into_iter().zip(&seats).zip(&changes) {
        let mut changed = changes.follow();
        let thread = std::thread::spawn(move || body.run());
        while !matches!(status.state(), ReplicaState::Ready | ReplicaState::Failed { .. }) {
            changed.changed().await.unwrap();
        }
        results.push((status.state(), status.stats(), thread));
    }
    drop((first, second));
    let mut results = results.into_iter().map(|(state, stats, thread)| {
        thread.join().unwrap();
        (state, stats)
    });
    [results.next().unwrap(), results.next().unwrap()]
}

#[tokio::test]
async fn models_are_prepared_before_their_first_step_and_nobody_counts_it() {
    let preparation = Preparation::new(3, None);
    for (state, stats) in prepared(&preparation).await {
        assert_eq!(state, ReplicaState::Ready);
        assert_eq!((stats.steps, stats.busy), (0, Duration::ZERO));
    }
    let pieces = |most| (0..3).map(move |nth| Prepared { nth, most, steps: 0 });
    assert_eq!(preparation.done(), pieces(7).chain(pieces(5)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_model_that_cannot_be_prepared_is_not_warm() {
    let preparation = Preparation::new(3, Some(1));
    for (state, _) in prepared(&preparation).await {
        let ReplicaState::Failed { message } = state else {
            panic!("{state:?}");
        };
        assert_eq!(
            message,
            "the warm-up failed: computation failed: the script says so"
        );
    }
}

#[tokio::test]
async fn a_sequence_without_a_place_is_excused_and_one_with_a_place_is_not() {
    let config = ArConfig {
        max_num_seqs: 1,
        ..ArConfig::default()
    };
    let script = FakeScript::default();
    let backend = Arc::new(FakeSpeech::new(script.clone()));
    let (handle, body) = talker_stage(backend, (16, config), status());
    let wake = handle.wake().clone();
    let mut frames = Vec::new();
    // These two are not cancelled.
    for seq in [CANCELLED, CANCELLED + 1] {
        let (mut tokens_in, tokens) = edge(4, None, Some(wake.clone()));
        tokens_in.put(Item::Text(vec![u32::from('a'); 8]), 1).unwrap();
        Box::new(tokens_in).end(End::Stop);
        let (frames_in, frames_out) = edge(16, Some(wake.clone()), None);
        frames.push(frames_out);
        handle.submit(speak(seq, tokens, frames_in)).unwrap();
    }
    script.talker.close();
    let warm = warm_up(config).await;
    script.talker.allow(warm);
    let thread = std::thread::spawn(move || body.run());
    while script.talker.passed() < warm {
        tokio::task::yield_now().await;
    }
    script.talker.reached().await;
    // A thread that is stuck in the first step counts as hung.
    assert!(!frames[0].is_upstream_idle() && !frames[1].is_upstream_idle());
    script.talker.allow(1);
    assert!(matches!(frames[0].next().await, Recv::Item(_)));
    script.talker.reached().await;
    assert!(!frames[0].is_upstream_idle() && frames[1].is_upstream_idle());
    script.talker.open();
    while let Recv::Item(_) = frames[0].next().await {}
    assert!(matches!(frames[1].next().await, Recv::Item(_)));
    drop(handle);
    thread.join().unwrap();
}

#[tokio::test]
async fn a_cancelled_job_takes_no_place_in_the_talker() {
    let engine = ArConfig {
        max_num_seqs: 1,
        max_waiting: 1,
        ..ArConfig::default()
    };
    let (handle, body) = talker_stage(backend(), (16, engine), status());
    let wake = handle.wake().clone();
    let mut frames = Vec::new();
    for seq in 0..=CANCELLED {
        let (mut tokens_in, tokens) = edge(4, None, Some(wake.clone()));
        tokens_in.put(Item::Text(vec![u32::from('a')]), 1).unwrap();
        Box::new(tokens_in).end(End::Stop);
        let (frames_in, frames_out) = edge(4, Some(wake.clone()), None);
        frames.push(frames_out);
        let job = speak(seq, tokens, frames_in);
        handle.submit(job).unwrap();
    }
    let thread = std::thread::spawn(move || body.run());
    let last = frames.last_mut().expect("there are some");
    assert!(matches!(last.next().await, Recv::Item(_)));
    assert_eq!(last.next().await, Recv::End(End::Stop));
    assert_eq!(frames[0].next().await, Recv::Gone);
    drop(handle);
    thread.join().unwrap();
}

#[tokio::test]
async fn a_cancelled_job_takes_no_place_in_code2wav() {
    let engine = ChunkConfig {
        max_streams: 1,
        ..ChunkConfig::new(Duration::from_millis(40))
    };
    let (handle, body) = code2wav_stage(backend(), (16, engine), STALL, status());
    let wake = handle.wake().clone();
    let mut audio = Vec::new();
    for seq in 0..=CANCELLED {
        let (mut frames_in, frames) = edge(4, None, Some(wake.clone()));
        frames_in
            .put(CodecFrame(Box::new([u32::from('a'), 0])).into(), 1)
            .unwrap();
        Box::new(frames_in).end(End::Stop);
        let (audio_in, audio_out) = edge(4, Some(wake.clone()), None);
        audio.push(audio_out);
        let mut job = decode_job(seq, frames, audio_in);
        job.cancel = flag(seq);
        handle.submit(job).unwrap();
    }
    let thread = std::thread::spawn(move || body.run());
    let last = audio.last_mut().expect("there are some");
    assert!(matches!(last.next().await, Recv::Item(_)));
    assert_eq!(last.next().await, Recv::End(End::Stop));
    drop(handle);
    thread.join().unwrap();
}
