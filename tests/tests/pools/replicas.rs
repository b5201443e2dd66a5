//! Several replicas of a stage: they share the work, die alone, hand over sequences without output, come and go.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::FutureExt as _;
use omni_pipeline::stage::{ReplicaId, ReplicaState, ReplicaView, StagePool};
use omni_proto::v1;
use omni_tests::{Call, FakeScript, TestServer, audio_of, endless, finish, seeded, text};

const TEXT: &str = "This is a sentence. And here is one more, a longer one, to be spoken after it.";

/// Words are spoken as they come.
fn eager(seed: u64) -> v1::SpeechConfig {
    v1::SpeechConfig {
        buffering: v1::TextBuffering::Eager.into(),
        ..seeded(seed)
    }
}

/// A call on a connection of its own.
async fn configured(server: &TestServer, settings: v1::SpeechConfig) -> Call {
    let mut client = v1::speech_service_client::SpeechServiceClient::new(server.connect().await);
    Call::open(&mut client).await.configured(settings).await
}

const TWO: [&str; 4] = [
    "--set",
    "stages.talker.replicas=2",
    "--set",
    "stages.code2wav.replicas=2",
];

/// Two replicas of each stage, and these arguments.
async fn two(script: &FakeScript, args: &[&str]) -> TestServer {
    TestServer::fake(script.clone(), &[&TWO, args].concat()).await
}

/// Audio that one caller alone receives.
async fn expected(settings: v1::SpeechConfig, text: &str) -> Vec<u8> {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let (audio, _) = audio_of(&mut server.speech(), settings, text).await.unwrap();
    server.stop().await;
    audio
}

fn pool<'s>(server: &'s TestServer, stage: &str) -> &'s StagePool {
    server
        .app
        .orchestrator()
        .pool(stage)
        .expect("there is such a stage")
}

fn replicas(server: &TestServer, stage: &str) -> Vec<ReplicaView> {
    pool(server, stage).replicas()
}

async fn all_ready(server: &TestServer) {
    let ready = |stage| {
        replicas(server, stage)
            .iter()
            .all(|view| view.state == ReplicaState::Ready)
    };
    server
        .until("every replica is ready", || ready("talker") && ready("code2wav"))
        .await;
}

#[tokio::test]
async fn they_share_the_work_and_nobody_hears_which_one_did_it() {
    let script = FakeScript::default();
    let server = two(&script, &[]).await;
    let alone = expected(seeded(9), TEXT).await;
    let crowd = (0..8).map(|_| {
        let mut client = server.speech();
        async move { audio_of(&mut client, seeded(9), TEXT).await.unwrap() }
    });
    let heard = futures::future::join_all(crowd).await;
    assert!(heard.iter().all(|(audio, _)| *audio == alone));
    for stage in ["talker", "code2wav"] {
        let timings = heard.iter().filter_map(|(_, outcome)| outcome.timings.as_ref());
        let stages = timings
            .flat_map(|timings| &timings.stages)
            .filter(|timing| timing.stage == stage);
        let used: BTreeSet<_> = stages.map(|timing| timing.replica.as_str()).collect();
        assert_eq!(used, BTreeSet::from(["0", "1"]), "{stage}");
    }
    server.idle(8).await;
    for view in replicas(&server, "talker")
        .iter()
        .chain(&replicas(&server, "code2wav"))
    {
        assert_eq!(
            (view.in_flight, view.stats.running, view.stats.waiting),
            (0, 0, 0),
            "{view:?}"
        );
        assert!(view.stats.steps > 0 && view.stats.decode_tokens > 0, "{view:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_passes_between_stages_is_measured_chunk_by_chunk() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let warm = server.edges.all().len();
    let (_, outcome) = audio_of(&mut server.speech(), seeded(1), "One short sentence.")
        .await
        .unwrap();
    let frames = outcome.usage.expect("usage").output_audio_tokens;
    server.idle(1).await;
    let edges = server.edges.all().split_off(warm);
    let edge = |from, to| {
        let found = edges
            .iter()
            .find(|edge| edge.hop.from.stage == from && edge.hop.to.stage == to);
        found
            .unwrap_or_else(|| panic!("no edge from {from} to {to} in {edges:?}"))
            .clone()
    };
    let codes = edge("talker", "code2wav");
    assert_eq!((codes.chunks, codes.bytes), (frames, 8 * u64::from(frames)));
    assert_eq!(
        (codes.hop.from.replica, codes.hop.to.replica),
        (Some(ReplicaId(0)), Some(ReplicaId(0)))
    );
    let audio = edge("code2wav", "session");
    assert_eq!(audio.bytes, 4 * 640 * u64::from(frames));
    assert!(edge("session", "talker").chunks > 0);
    server.stop().await;
}

/// One speaker of two replicas is killed in mid-speech; the other speaks on.
async fn only_the_dead_ones_utterances_fail(script: FakeScript, stage: &str) {
    // Little may be ahead of the listener, so that some is heard when the model dies at the end of the sentence.
    let args = [
        "--max-buffered-audio",
        "100ms",
        "--set",
        "stages.talker.output.capacity=2",
        "--set",
        "stages.code2wav.ramp=[1, 2]",
        "--set",
        "stages.talker.restart.first_delay=1ms",
        "--set",
        "stages.code2wav.restart.first_delay=1ms",
    ];
    let server = two(&script, &args).await;
    let long = endless();
    let mut other = configured(&server, seeded(3)).await;
    other.send(text(&long)).await;
    other.send(finish()).await;
    other.first_audio().await;

    let mut victim = configured(&server, seeded(4)).await;
    victim
        .send(text(
            "A sentence that is long enough to be heard before the end of it # comes.",
        ))
        .await;
    victim.send(finish()).await;
    victim.first_audio().await;
    let failed = victim.utterance().await;
    assert_eq!(
        (failed.finish(), failed.error_reason().as_str()),
        (v1::FinishReason::Error, "STAGE_FAILED")
    );
    let message = failed.outcome.error.expect("an error").message;
    assert!(message.contains(stage), "{message}");

    let heard = other.utterance().await;
    assert_eq!(heard.finish(), v1::FinishReason::Stop);
    all_ready(&server).await;
    let deaths: Vec<_> = replicas(&server, stage)
        .iter()
        .map(|view| view.stats.deaths)
        .collect();
    assert_eq!(deaths.iter().sum::<u64>(), 1, "{deaths:?}");
    // The same call continues, and both replicas serve.
    for _ in 0..2 {
        victim.send(text("Fine again.")).await;
        victim.send(finish()).await;
        assert_eq!(victim.utterance().await.finish(), v1::FinishReason::Stop);
    }
    assert!(heard.audio == expected(seeded(3), &long).await);
    drop((victim, other));
    server.idle(4).await;
    server.stop().await;
}

#[tokio::test]
async fn a_talker_that_dies_in_mid_speech_takes_only_its_own_utterances_along() {
    let script = FakeScript {
        talker_panics_on: Some('#'),
        ..Default::default()
    };
    only_the_dead_ones_utterances_fail(script, "talker").await;
}

#[tokio::test]
async fn a_code2wav_that_dies_in_mid_speech_takes_only_its_own_utterances_along() {
    let script = FakeScript {
        code2wav_panics_on: Some('#'),
        ..Default::default()
    };
    only_the_dead_ones_utterances_fail(script, "code2wav").await;
}

/// The talker dies in its first step of an utterance.
async fn nothing_heard_yet(args: &[&str]) {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), args).await;
    script.talker.close();
    let mut call = configured(&server, seeded(5)).await;
    call.send(text(TEXT)).await;
    call.send(finish()).await;
    script.talker.reached().await;
    script.talker_dies.light();
    script.talker.open();
    let utterance = call.utterance().await;
    assert_eq!(
        utterance.finish(),
        v1::FinishReason::Stop,
        "{:?}",
        utterance.outcome
    );
    assert!(utterance.audio == expected(seeded(5), TEXT).await);
    assert_eq!(
        replicas(&server, "talker")
            .iter()
            .map(|view| view.stats.deaths)
            .sum::<u64>(),
        1
    );
    drop(call);
    server.idle(1).await;
    server.stop().await;
}

#[tokio::test]
async fn what_nobody_has_heard_yet_is_spoken_by_another_replica() {
    // The dead one stays away: only another can have done it.
    nothing_heard_yet(&[&TWO, &["--set", "stages.talker.restart.first_delay=30s"] as &[_]].concat()).await;
}

#[tokio::test]
async fn what_nobody_has_heard_yet_is_spoken_by_the_only_replica_when_it_is_back() {
    nothing_heard_yet(&["--set", "stages.talker.restart.first_delay=1ms"]).await;
}

#[tokio::test]
async fn a_process_whose_device_is_lost_ends_with_that_error_as_soon_as_no_replica_can_work() {
    let script = FakeScript::default();
    let mut server = two(&script, &[]).await;
    assert!(server.app.failed().now_or_never().is_none());
    script.talker_device_dies.light();
    let mut call = configured(&server, seeded(5)).await;
    call.send(text(TEXT)).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Error);
    let error = format!("{:#}", server.app.failed().await.unwrap_err());
    assert!(
        error.contains("a stage has failed for good")
            && error.contains("stage talker failed: ")
            && error.contains("the fuse"),
        "{error}"
    );
    let deaths = replicas(&server, "talker")
        .into_iter()
        .map(|view| view.stats.deaths);
    assert_eq!(
        deaths.collect::<Vec<_>>(),
        [1, 1],
        "the one without work was told"
    );
    drop(call);
    server.stop().await;
}

/// The same as in a server's process, whose exit code is 1 where this is an error.
#[tokio::test]
async fn a_server_whose_device_is_lost_drains_and_ends_by_itself() {
    let script = FakeScript::default();
    let server = two(&script, &[]).await;
    let mut call = configured(&server, seeded(5)).await;
    let address = server.app.address();
    let served = tokio::spawn(server.app.serve(async || std::future::pending().await));
    // It serves before the device is lost, and continues.
    call.send(text("One.")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    assert!(!served.is_finished(), "there is no reason yet");
    script.talker_device_dies.light();
    call.send(text(TEXT)).await;
    call.send(finish()).await;
    assert_eq!(
        call.utterance().await.finish(),
        v1::FinishReason::Error,
        "an open call is told before the end"
    );
    let status = call.end().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert!(status.message().contains("shutting down"), "{status:?}");
    let ended = tokio::time::timeout(Duration::from_secs(60), served).await;
    let ended = ended.expect("it ends by itself").expect("no panic");
    let error = format!("{:#}", ended.unwrap_err());
    assert!(
        error.contains("a stage has failed for good") && error.contains("stage talker failed: "),
        "{error}"
    );
    let refused = tokio::net::TcpStream::connect(address).await;
    assert!(refused.is_err(), "nothing listens any more");
}

#[tokio::test]
async fn a_server_whose_device_is_lost_ends_when_the_calls_in_use_have_been_told() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--drain-timeout", "1h"]).await;
    let mut client = server.speech();
    // All of its frames are made, and wait for a vocoder that has begun to decode them.
    script.code2wav.close();
    script.code2wav.allow(1);
    let mut busy = configured(&server, seeded(5)).await;
    busy.send(text("This takes a while.")).await;
    busy.send(finish()).await;
    busy.first_audio().await;
    script.code2wav.reached().await;
    server
        .until("the talker has nothing to do", || {
            replicas(&server, "talker")[0].stats.running == 0
        })
        .await;
    let idle = configured(&server, seeded(6)).await;
    let other = configured(&server, seeded(7)).await;
    let served = tokio::spawn(server.app.serve(async || std::future::pending().await));
    script.talker_device_dies.light();
    other.send(text(TEXT)).await;
    other.send(finish()).await;
    // It drains: a call without work ends, new ones are refused, and those in use are waited for.
    assert_eq!(omni_tests::reason(&idle.end().await.unwrap_err()), "DRAINING");
    let refused = audio_of(&mut client, seeded(8), "Too late.").await.unwrap_err();
    assert_eq!(omni_tests::reason(&refused), "DRAINING");
    assert!(!served.is_finished(), "calls are in use");
    script.code2wav.open();
    for mut call in [busy, other] {
        assert_eq!(call.utterance().await.finish(), v1::FinishReason::Error);
        assert_eq!(omni_tests::reason(&call.end().await.unwrap_err()), "DRAINING");
    }
    let ended = tokio::time::timeout(Duration::from_secs(60), served).await;
    let ended = ended.expect("nothing is left to wait for").expect("no panic");
    let error = format!("{:#}", ended.unwrap_err());
    assert!(error.contains("a stage has failed for good"), "{error}");
}

#[tokio::test]
async fn text_that_is_still_being_written_is_handed_over_with_all_that_came_before() {
    let script = FakeScript::default();
    let server = TestServer::fake(
        script.clone(),
        &["--set", "stages.talker.restart.first_delay=1ms"],
    )
    .await;
    script.talker.close();
    let mut call = configured(&server, eager(6)).await;
    call.send(text("the quick brown fox jumps over ")).await;
    script.talker.reached().await;
    script.talker_dies.light();
    script.talker.open();
    server
        .until("the talker has died", || {
            replicas(&server, "talker")[0].stats.deaths == 1
        })
        .await;
    call.send(text("the lazy dog and runs away from ")).await;
    call.first_audio().await;
    call.send(text("all of it.")).await;
    call.send(finish()).await;
    let utterance = call.utterance().await;
    assert_eq!(
        utterance.finish(),
        v1::FinishReason::Stop,
        "{:?}",
        utterance.outcome
    );
    let whole = "the quick brown fox jumps over the lazy dog and runs away from all of it.";
    assert!(utterance.audio == expected(eager(6), whole).await);
    server.stop().await;
}

#[tokio::test]
async fn what_kills_every_replica_it_meets_is_given_up() {
    let script = FakeScript {
        talker_panics_on: Some('#'),
        ..Default::default()
    };
    let args = [
        "--set",
        "handover.attempts=2",
        "--set",
        "stages.talker.restart.first_delay=1ms",
    ];
    let server = two(&script, &args).await;
    let mut call = configured(&server, seeded(1)).await;
    call.send(text("#")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.error_reason(), "STAGE_FAILED");
    let deaths = replicas(&server, "talker")
        .iter()
        .map(|view| view.stats.deaths)
        .sum::<u64>();
    assert_eq!(deaths, 3, "the first attempt and two more");
    all_ready(&server).await;
    call.send(text("Fine.")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    server.stop().await;
}

#[tokio::test]
async fn without_a_replica_for_too_long_work_fails_and_health_says_so_until_one_is_back() {
    let script = FakeScript::default();
    let args = [
        "--set",
        "stages.talker.restart.first_delay=1ms",
        "--set",
        "handover.wait=50ms",
    ];
    let server = TestServer::fake(script.clone(), &args).await;
    script.load.close();
    script.talker.close();
    let mut call = configured(&server, seeded(1)).await;
    call.send(text("Nobody is there.")).await;
    call.send(finish()).await;
    script.talker.reached().await;
    script.talker_dies.light();
    script.talker.open();
    let failed = call.utterance().await;
    assert_eq!(failed.error_reason(), "STAGE_UNAVAILABLE");
    assert!(failed.outcome.error.expect("an error").message.contains("talker"));
    assert!(!server.serving().await);
    script.load.open();
    server
        .until("work is taken again", || {
            server.app.orchestrator().available().is_ok()
        })
        .await;
    call.send(text("Here we are.")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    server.stop().await;
}

#[tokio::test]
async fn a_replica_that_is_added_is_warm_before_it_takes_work() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.talker.close();
    let added = pool(&server, "talker").add().unwrap();
    script.talker.reached().await;
    let state = || replicas(&server, "talker")[1].state.clone();
    assert_eq!(
        state(),
        ReplicaState::Loading,
        "it is in a step without a request"
    );
    script.talker.open();
    all_ready(&server).await;
    pool(&server, "talker").remove(ReplicaId(0)).unwrap();
    assert!(audio_of(&mut server.speech(), seeded(1), TEXT).await.is_ok());
    assert_eq!(replicas(&server, "talker")[1].id, added);
    server.stop().await;
}

#[tokio::test]
async fn a_replica_that_died_is_warm_before_it_takes_work_again() {
    let script = FakeScript::default();
    let args = ["--set", "stages.talker.restart.first_delay=1ms"];
    let server = TestServer::fake(script.clone(), &args).await;
    let before = script.talker.passed();
    script.talker.close();
    let mut call = configured(&server, seeded(1)).await;
    call.send(text(TEXT)).await;
    call.send(finish()).await;
    script.talker.reached().await;
    script.talker_dies.light();
    script.talker.allow(1);
    server
        .until("the talker has died", || script.talker.passed() > before)
        .await;
    script.talker.reached().await;
    let state = replicas(&server, "talker")[0].state.clone();
    let built_anew = matches!(state, ReplicaState::Restarting { .. });
    assert!(built_anew, "it is in a step without a request: {state:?}");
    script.talker.open();
    let utterance = call.utterance().await;
    assert_eq!(utterance.finish(), v1::FinishReason::Stop);
    assert!(utterance.audio == expected(seeded(1), TEXT).await);
    server.stop().await;
}

#[tokio::test]
async fn cordoning_and_removing_replicas_under_load_loses_nothing() {
    let script = FakeScript::default();
    let server = two(&script, &[]).await;
    let alone = expected(seeded(2), TEXT).await;
    let speak = |count: usize| {
        let server = &server;
        let alone = &alone;
        futures::future::join_all((0..8).map(move |_| async move {
            for _ in 0..count {
                let (audio, _) = audio_of(&mut server.speech(), seeded(2), TEXT).await.unwrap();
                assert!(audio == *alone);
            }
        }))
    };
    let change = async {
        for stage in ["talker", "code2wav"] {
            let pool = pool(&server, stage);
            let in_use = || pool.replicas()[0].in_flight > 0;
            server.until("the replica has work", in_use).await;
            pool.cordon(ReplicaId(0)).unwrap();
            server.until("its work is done", || !in_use()).await;
            pool.uncordon(ReplicaId(0)).unwrap();
            server.until("it has work again", in_use).await;
            let added = pool.add().unwrap();
            pool.remove(ReplicaId(0)).unwrap();
            let gone = || pool.replicas()[0].state == ReplicaState::Removed;
            server.until("it has gone", gone).await;
            let works = || {
                pool.replicas()
                    .iter()
                    .any(|view| view.id == added && view.in_flight > 0)
            };
            server.until("the new one works", works).await;
        }
    };
    let (_, ()) = tokio::join!(speak(40), change);
    server.idle(8 * 40).await;
    server.stop().await;
}

#[tokio::test]
async fn a_talker_that_delivers_nothing_fails_the_utterance_and_is_named() {
    let script = FakeScript::default();
    let args = [
        "--set",
        "stages.code2wav.upstream_stall=1s",
        "--max-buffered-audio",
        "100ms",
    ];
    let server = TestServer::fake(script.clone(), &args).await;
    let mut call = configured(&server, seeded(1)).await;
    call.send(text(&endless())).await;
    call.send(finish()).await;
    call.first_audio().await;
    script.talker.close();
    let failed = call.utterance().await;
    assert_eq!(failed.error_reason(), "STAGE_FAILED");
    let message = failed.outcome.error.expect("an error").message;
    assert!(
        message.contains("stage talker failed: it delivered nothing to code2wav for 1s"),
        "{message}"
    );
    script.talker.open();
    server.stop().await;
}

#[tokio::test]
async fn a_caller_who_pauses_within_a_sentence_is_no_stalled_stage() {
    let args = [
        "--set",
        "stages.code2wav.upstream_stall=1s",
        "--max-text-pause",
        "10s",
    ];
    let server = TestServer::fake(FakeScript::default(), &args).await;
    let mut call = configured(&server, eager(1)).await;
    call.send(text("the quick brown fox jumps over ")).await;
    call.first_audio().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    call.send(text("the lazy dog.")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    server.stop().await;
}
