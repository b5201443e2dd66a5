//! Cancels, deadlines and callers that vanish: everything stops, everything is given back, nothing is counted twice.

use std::time::Duration;

use omni_proto::v1;
use omni_session::Outcome;
use omni_tests::{Call, FakeScript, TestServer, cancel, config, endless, finish, named, text};
use tonic::Code;

#[tokio::test]
async fn cancel_stops_an_utterance_and_the_stream_goes_on() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(text(&endless())).await;
    call.send(finish()).await;
    call.first_audio().await;
    call.send(cancel("")).await;
    let cancelled = call.utterance().await;
    assert_eq!(cancelled.finish(), v1::FinishReason::Interrupted);
    assert!(cancelled.outcome.error.is_none());

    // With nothing to stop it has no effect, and later text is served.
    call.send(cancel("")).await;
    call.send(named("next", &endless())).await;
    call.send(finish()).await;
    call.first_audio().await;
    call.send(cancel("next")).await;
    assert_eq!(call.utterance().await.id, "next");
    call.hang_up();
    call.end().await.unwrap();
    server.idle(2).await;
    server.stop().await;
}

#[tokio::test]
async fn both_stages_stop_within_a_step_of_a_cancel() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    script.talker.close();
    call.send(text(&endless())).await;
    script.talker.reached().await;
    call.send(cancel("")).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Interrupted);
    let talker = script.talker.passed();
    let code2wav = script.code2wav.passed();
    script.talker.open();
    // The next text takes as many steps as usual: one per frame, and one to end.
    call.send(text("ab.")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    assert!(
        script.talker.passed() <= talker + 1 + 4,
        "the cancelled sequence was stepped on"
    );
    assert!(script.code2wav.passed() <= code2wav + 4);
    server.stop().await;
}

#[tokio::test]
async fn cancel_of_a_waiting_utterance_leaves_the_others_alone() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.talker.close();
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    for id in ["a", "b", "c"] {
        call.send(named(id, "some words.")).await;
        call.send(finish()).await;
    }
    call.send(cancel("b")).await;
    call.send(cancel("nobody")).await;
    script.talker.open();
    let ends: Vec<_> = [
        call.utterance().await,
        call.utterance().await,
        call.utterance().await,
    ]
    .map(|utterance| (utterance.id.clone(), utterance.finish(), utterance.samples() > 0))
    .into();
    let expected = [
        ("a".to_owned(), v1::FinishReason::Stop, true),
        ("b".to_owned(), v1::FinishReason::Interrupted, false),
        ("c".to_owned(), v1::FinishReason::Stop, true),
    ];
    assert_eq!(ends, expected);
    server.stop().await;
}

#[tokio::test]
async fn cancel_that_races_with_the_end_gives_one_done() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for n in 0..30 {
        let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
        call.send(text("ab.")).await;
        call.send(finish()).await;
        if n % 2 == 0 {
            call.first_audio().await;
        }
        call.send(cancel("")).await;
        call.hang_up();
        // The rules for every stream are checked at its end.
        call.end().await.unwrap();
    }
    server.idle(30).await;
    server.stop().await;
}

#[tokio::test]
async fn late_text_of_a_cancelled_utterance_is_dropped() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(named("old", "hello ")).await;
    call.send(cancel("old")).await;
    call.send(named("old", "more of it")).await;
    call.send(named("new", "fresh")).await;
    call.send(cancel("")).await;
    assert_eq!(call.utterance().await.id, "old");
    assert_eq!(call.utterance().await.id, "new");
    call.hang_up();
    call.end().await.unwrap();
    server.idle(2).await;
    server.stop().await;
}

#[tokio::test]
async fn a_caller_that_vanishes_frees_its_place() {
    let server = TestServer::fake(
        FakeScript::default(),
        &["--max-active", "1", "--max-sessions", "1"],
    )
    .await;
    for _ in 0..3 {
        let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
        call.send(text(&endless())).await;
        call.send(finish()).await;
        call.first_audio().await;
        drop(call);
        server
            .until("the session has ended", || server.app.sessions() == 0)
            .await;
    }
    server.idle(3).await;
    for record in server.records.all() {
        assert_eq!(record.outcome, Outcome::Aborted);
        assert_eq!(
            record.error.as_ref().map(|error| error.reason()),
            Some("CALLER_GONE")
        );
        assert!(record.usage.samples.0 > 0 && record.timings.first_audio.is_some());
    }
    server.stop().await;
}

#[tokio::test]
async fn a_caller_that_vanishes_while_it_waits_frees_its_place() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--max-active", "1"]).await;
    let mut first = server.call().await.configured(v1::SpeechConfig::default()).await;
    first.send(text(&endless())).await;
    first.send(finish()).await;
    first.first_audio().await;
    let second = server.call().await.configured(v1::SpeechConfig::default()).await;
    second.send(text("waits.")).await;
    second.send(finish()).await;
    drop(second);
    server
        .until("the second session has ended", || server.app.sessions() == 1)
        .await;
    drop(first);
    server
        .until("the first session has ended", || server.app.sessions() == 0)
        .await;
    server
        .until("the place is free", || {
            server.app.orchestrator().admission().free() == 1
        })
        .await;
    server.stop().await;
}

#[tokio::test]
async fn a_deadline_ends_the_call_as_such_and_frees_its_place() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.talker.close();
    let deadline = Some(Duration::from_millis(300));
    let call = Call::try_open(&mut server.speech(), deadline).await.unwrap();
    call.send(config(v1::SpeechConfig::default())).await;
    call.send(text("nothing comes of this.")).await;
    call.send(finish()).await;
    let status = call.end().await.unwrap_err();
    // The caller's own timer may be first; it then reports a cancellation of its own.
    assert!(
        matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled),
        "{status:?}"
    );
    server
        .until("the session has ended", || server.app.sessions() == 0)
        .await;
    let records = server.records.all();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].outcome, Outcome::Aborted);
    script.talker.open();
    server.stop().await;
}
