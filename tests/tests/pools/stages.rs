//! Stages driven directly, without a session: what was cancelled before it began takes no place.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{ArConfig, ChunkConfig, CodecFrame, SeqId};
use omni_server::clock::Clock;
use omni_server::config::deploy::Restart;
use omni_server::connector::{EdgeReader, EdgeWriter, edge};
use omni_server::stage::{
    AudioPiece, CancelFlag, Changes, Code2WavJob, Code2WavLimits, EdgeReceiver as _, EdgeSender as _, End,
    Recv, ReplicaId, ReplicaState, ReplicaStats, ReplicaStatus, Sampling, StageProgress, TalkerJob,
    TalkerLimits, TalkerRequest, code2wav_stage, talker_stage,
};
use omni_tests::{FakeScript, FakeSpeech, Preparation, Prepared};
use tokio::sync::oneshot;

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

fn speak(seq: u64, tokens: EdgeReader<Vec<u32>>, frames: EdgeWriter<CodecFrame>) -> TalkerJob {
    TalkerJob {
        seq: SeqId(seq),
        request: TalkerRequest {
            voice: "alto".to_owned(),
            voice_prompt: None,
            language: None,
            instructions: None,
            sampling: Sampling::default(),
            seed: 1,
            context: None,
            thought: false,
        },
        tokens: Box::new(tokens),
        max_frames: 10,
        frames: Box::new(frames),
        cancel: flag(seq),
        progress: StageProgress::default(),
        finished: oneshot::channel().0,
    }
}

/// Steps that a talker takes to warm up.
async fn warm_up(limits: TalkerLimits) -> u64 {
    let (script, changes) = (FakeScript::default(), Changes::default());
    let (status, mut changed) = (seat_of(changes.clone()), changes.follow());
    let backend = Arc::new(FakeSpeech::new(script.clone()));
    let (handle, body) = talker_stage(backend, limits, status.clone(), Clock::start());
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
    let talker = TalkerLimits {
        mailbox: 1,
        engine: ArConfig {
            max_num_seqs: 7,
            ..ArConfig::default()
        },
    };
    let code2wav = Code2WavLimits {
        mailbox: 1,
        engine: ChunkConfig {
            max_batch: 5,
            ..ChunkConfig::new(Duration::from_millis(40))
        },
        upstream_stall: STALL,
    };
    let changes = [Changes::default(), Changes::default()];
    let seats = changes.clone().map(seat_of);
    let (first, talker) = talker_stage(Arc::clone(&backend), talker, seats[0].clone(), Clock::start());
    let (second, code2wav) = code2wav_stage(backend, code2wav, seats[1].clone(), Clock::start());
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
    let limits = TalkerLimits {
        mailbox: 16,
        engine: ArConfig {
            max_num_seqs: 1,
            ..ArConfig::default()
        },
    };
    let script = FakeScript::default();
    let backend = Arc::new(FakeSpeech::new(script.clone()));
    let (handle, body) = talker_stage(backend, limits, status(), Clock::start());
    let wake = handle.wake().clone();
    let mut frames = Vec::new();
    // These two are not cancelled.
    for seq in [CANCELLED, CANCELLED + 1] {
        let (mut tokens_in, tokens) = edge(4, None, Some(wake.clone()));
        tokens_in.put(vec![u32::from('a'); 8], 1);
        Box::new(tokens_in).end(End::Stop);
        let (frames_in, frames_out) = edge::<CodecFrame>(16, Some(wake.clone()), None);
        frames.push(frames_out);
        handle.submit(speak(seq, tokens, frames_in)).unwrap();
    }
    script.talker.close();
    let warm = warm_up(limits).await;
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
    let limits = TalkerLimits { mailbox: 16, engine };
    let (handle, body) = talker_stage(backend(), limits, status(), Clock::start());
    let wake = handle.wake().clone();
    let mut frames = Vec::new();
    for seq in 0..=CANCELLED {
        let (mut tokens_in, tokens) = edge(4, None, Some(wake.clone()));
        tokens_in.put(vec![u32::from('a')], 1);
        Box::new(tokens_in).end(End::Stop);
        let (frames_in, frames_out) = edge::<CodecFrame>(4, Some(wake.clone()), None);
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
    let limits = Code2WavLimits {
        mailbox: 16,
        engine,
        upstream_stall: STALL,
    };
    let (handle, body) = code2wav_stage(backend(), limits, status(), Clock::start());
    let wake = handle.wake().clone();
    let mut audio = Vec::new();
    for seq in 0..=CANCELLED {
        let (mut frames_in, frames) = edge(4, None, Some(wake.clone()));
        frames_in.put(CodecFrame(Box::new([u32::from('a'), 0])), 1);
        Box::new(frames_in).end(End::Stop);
        let (audio_in, audio_out) = edge::<AudioPiece>(4, Some(wake.clone()), None);
        audio.push(audio_out);
        let job = Code2WavJob {
            seq: SeqId(seq),
            lead: [].into(),
            frames: Box::new(frames),
            audio: Box::new(audio_in),
            cancel: flag(seq),
            progress: StageProgress::default(),
        };
        handle.submit(job).unwrap();
    }
    let thread = std::thread::spawn(move || body.run());
    let last = audio.last_mut().expect("there are some");
    assert!(matches!(last.next().await, Recv::Item(_)));
    assert_eq!(last.next().await, Recv::End(End::Stop));
    drop(handle);
    thread.join().unwrap();
}
