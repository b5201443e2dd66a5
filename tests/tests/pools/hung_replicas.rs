//! A replica whose step never returns: its work is lost or done elsewhere, another thread takes its place, and the
//! hung one is abandoned until it returns.

use std::time::Duration;

use omni_pipeline::stage::{ReplicaState, StagePool};
use omni_proto::v1;
use omni_proto::v1::converse_request::Event as Request;
use omni_tests::{
    Call, FakeScript, TestServer, audio_of, chat_config, endless, finish, reason, seeded, text,
};
use tonic::Code;

/// No healthy step takes that long, however busy the machine is.
const SOON: &str = "1s";
/// A sentence with audible audio before the step that hangs.
const LONG: &str = "A sentence that is long enough to be heard before the end of it # comes.";

/// The steps of `stage` time out soon; with these settings besides.
async fn server(script: &FakeScript, stage: &str, settings: &[&str]) -> TestServer {
    let mut sets = vec![
        format!("stages.{stage}.step_timeout={SOON}"),
        format!("stages.{stage}.restart.first_delay=1ms"),
    ];
    sets.extend(settings.iter().map(|set| (*set).to_owned()));
    let args: Vec<_> = sets.iter().flat_map(|set| ["--set", set.as_str()]).collect();
    TestServer::fake(script.clone(), &args).await
}

fn pool<'s>(server: &'s TestServer, stage: &str) -> &'s StagePool {
    let pool = server.app.orchestrator().pool(stage);
    pool.expect("there is such a stage")
}

fn deaths(server: &TestServer, stage: &str) -> u64 {
    let views = pool(server, stage).replicas();
    views.iter().map(|view| view.stats.deaths).sum()
}

async fn all_ready(server: &TestServer, stage: &str) {
    let ready = || {
        let views = pool(server, stage).replicas();
        views.iter().all(|view| view.state == ReplicaState::Ready)
    };
    server.until("every replica is ready", ready).await;
}

/// Waits for this state of health, which is updated asynchronously.
async fn health(server: &TestServer, serving: bool) {
    let wait = async {
        while server.serving().await != serving {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let said = tokio::time::timeout(Duration::from_secs(30), wait).await;
    assert!(said.is_ok(), "health never says {serving}");
}

/// Lets the step return, and waits until its thread has ended.
async fn released(server: &TestServer, script: &FakeScript, stage: &str) {
    script.hangs.open();
    let joined = || pool(server, stage).left_behind() == 0;
    server.until("the thread that hung has ended", joined).await;
}

async fn say(call: &Call, words: &str) {
    call.send(text(words)).await;
    call.send(finish()).await;
}

/// Audio that one caller alone receives.
async fn expected(settings: v1::SpeechConfig, text: &str) -> Vec<u8> {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let (audio, _) = audio_of(&mut server.speech(), settings, text).await.unwrap();
    server.stop().await;
    audio
}

/// One of two replicas hangs in mid-speech.
async fn only_those_bound_to_it_fail(script: FakeScript, stage: &str) {
    script.hangs.close();
    let replicas = format!("stages.{stage}.replicas=2");
    // Little may be ahead of the listener, so that some is heard when the model hangs at the end of the sentence.
    let settings = [
        replicas.as_str(),
        "stages.talker.output.capacity=2",
        "stages.code2wav.ramp=[1, 2]",
        "stages.code2wav.upstream_stall=1h",
    ];
    let server = server(&script, stage, &settings).await;
    let long = endless();
    let mut other = server.call().await.configured(seeded(3)).await;
    say(&other, &long).await;
    other.first_audio().await;
    let mut victim = server.call().await.configured(seeded(4)).await;
    say(&victim, LONG).await;
    let lost = victim.utterance().await;
    assert_eq!(
        (lost.finish(), lost.error_reason().as_str()),
        (v1::FinishReason::Error, "STAGE_UNAVAILABLE")
    );
    assert!(lost.samples() > 0, "it was heard before");
    let error = lost.outcome.error.unwrap();
    assert_eq!(error.code, Code::Unavailable as i32);
    let expects = format!("stage {stage} is not available: a step of its model has not returned for {SOON}");
    assert_eq!(error.message, expects);

    let heard = other.utterance().await;
    assert_eq!(heard.finish(), v1::FinishReason::Stop);
    assert!(heard.audio == expected(seeded(3), &long).await);
    all_ready(&server, stage).await;
    assert_eq!(
        (deaths(&server, stage), pool(&server, stage).left_behind()),
        (1, 1)
    );
    assert!(server.serving().await);
    // The same call continues, and both replicas serve.
    for _ in 0..2 {
        say(&victim, "Fine again.").await;
        assert_eq!(victim.utterance().await.finish(), v1::FinishReason::Stop);
    }
    released(&server, &script, stage).await;
    assert_eq!(deaths(&server, stage), 1, "what returns late counts for nothing");
    drop((victim, other));
    server.idle(4).await;
    server.stop().await;
}

#[tokio::test]
async fn a_talker_that_hangs_loses_what_it_works_on_and_nothing_else() {
    let script = FakeScript {
        talker_hangs_on: Some('#'),
        ..FakeScript::default()
    };
    only_those_bound_to_it_fail(script, "talker").await;
}

#[tokio::test]
async fn a_code2wav_that_hangs_loses_what_it_works_on_and_nothing_else() {
    let script = FakeScript {
        code2wav_hangs_on: Some('#'),
        ..FakeScript::default()
    };
    only_those_bound_to_it_fail(script, "code2wav").await;
}

#[tokio::test]
async fn what_nobody_has_heard_yet_is_spoken_when_another_thread_has_its_place() {
    let script = FakeScript {
        talker_hangs_on: Some('#'),
        ..FakeScript::default()
    };
    script.hangs.close();
    // The first to come hangs, the next one passes.
    let server = server(&script, "talker", &[]).await;
    let mut call = server.call().await.configured(seeded(5)).await;
    say(&call, "# is the first character of it.").await;
    script.hangs.reached().await;
    server
        .until("the talker is given up", || deaths(&server, "talker") == 1)
        .await;
    script.hangs.open();
    let utterance = call.utterance().await;
    assert_eq!(
        utterance.finish(),
        v1::FinishReason::Stop,
        "{:?}",
        utterance.outcome
    );
    assert!(utterance.audio == expected(seeded(5), "# is the first character of it.").await);
    released(&server, &script, "talker").await;
    server.stop().await;
}

#[tokio::test]
async fn a_thinker_that_hangs_fails_the_answer_it_was_writing_and_answers_again() {
    let script = FakeScript {
        thinker_hangs_on: Some('!'),
        ..FakeScript::default()
    };
    script.hangs.close();
    let server = server(&script, "thinker", &["stages.talker.upstream_stall=1h"]).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    let lost = chat.turn("say so far so good ! and never this").await;
    assert_eq!(
        (lost.finish(), lost.error_reason().as_str()),
        (v1::FinishReason::Error, "STAGE_UNAVAILABLE")
    );
    let error = lost.outcome.error.unwrap();
    assert!(error.message.contains("thinker"), "{}", error.message);
    all_ready(&server, "thinker").await;
    assert_eq!(chat.turn("say fine").await.text, "fine");
    released(&server, &script, "thinker").await;
    chat.hang_up();
    chat.end().await.unwrap();
    server.chats_over(2).await;
    server.stop().await;
}

#[tokio::test]
async fn what_an_encoder_that_hangs_was_given_is_heard_when_another_thread_has_its_place() {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    script.hangs.close();
    let server = server(&script, "encoder", &[]).await;
    script.ears_hang.light();
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    let data = vec![1; 200].into();
    chat.send(Request::InputAudio(v1::InputAudio { data })).await;
    chat.send(Request::Commit(v1::CommitInput { respond: true }))
        .await;
    assert_eq!(chat.answer().await.text, "You said: [100 samples]");
    assert_eq!(
        (deaths(&server, "encoder"), pool(&server, "encoder").left_behind()),
        (1, 1)
    );
    released(&server, &script, "encoder").await;
    server.stop().await;
}

#[tokio::test]
async fn with_too_many_threads_left_behind_a_stage_stays_down_until_one_returns() {
    let script = FakeScript {
        talker_hangs_on: Some('#'),
        ..FakeScript::default()
    };
    script.hangs.close();
    // The first thread and those of four attempts elsewhere.
    let settings = ["handover.attempts=4"];
    let server = server(&script, "talker", &settings).await;
    let mut call = server.call().await.configured(seeded(1)).await;
    say(&call, "# hangs.").await;
    let lost = call.utterance().await;
    assert_eq!(lost.error_reason(), "STAGE_UNAVAILABLE");
    health(&server, false).await;
    let status = audio_of(&mut server.speech(), seeded(1), "Not now.")
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unavailable, "STAGE_UNAVAILABLE")
    );
    let expects = "5 threads of the stage have not returned from a step, and at most 4 are replaced";
    assert!(status.message().contains(expects), "{}", status.message());

    released(&server, &script, "talker").await;
    all_ready(&server, "talker").await;
    health(&server, true).await;
    say(&call, "Here we are.").await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    server.stop().await;
}

#[tokio::test]
async fn a_thread_that_hangs_does_not_hold_up_the_end_of_the_server() {
    let script = FakeScript {
        talker_hangs_on: Some('#'),
        ..FakeScript::default()
    };
    script.hangs.close();
    let server = server(&script, "talker", &["handover.attempts=0"]).await;
    let mut call = server.call().await.configured(seeded(1)).await;
    say(&call, "# hangs.").await;
    assert_eq!(call.utterance().await.error_reason(), "STAGE_UNAVAILABLE");
    drop(call);
    server.stop().await;
    assert_eq!(script.talkers.count(), 1, "it hangs still");
    script.hangs.open();
    let dropped = async {
        while script.talkers.count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(30), dropped).await;
    assert!(ended.is_ok(), "what it holds is dropped when it returns");
}

/// Nothing bounds how long a model may be built but this: a driver that hangs would keep the replica for ever.
#[tokio::test]
async fn a_replica_whose_model_is_never_built_is_given_up_and_built_again() {
    let script = FakeScript::default();
    let sets = ["load_timeout=1s", "stages.talker.restart.first_delay=1ms"];
    let args: Vec<_> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    let server = TestServer::fake(script.clone(), &args).await;
    script.load.close();
    let id = pool(&server, "talker").add().expect("a thread is started");
    let hung = || {
        let views = pool(&server, "talker").replicas();
        let view = views.iter().find(|view| view.id == id);
        let error = view.and_then(|view| view.last_error.clone());
        error.is_some_and(|error| error == "its model has not been built for 1s (load_timeout)")
    };
    server.until("it is given up", hung).await;
    assert!(pool(&server, "talker").left_behind() > 0);
    let call = server.call().await.configured(seeded(1)).await;
    say(&call, "The other replica speaks.").await;
    let mut call = call;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    script.load.open();
    all_ready(&server, "talker").await;
    let joined = || pool(&server, "talker").left_behind() == 0;
    server.until("the threads that hung have ended", joined).await;
    drop(call);
    server.stop().await;
}
