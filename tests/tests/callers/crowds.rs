//! Many callers at once: none changes what another hears, none holds up another, and callers beyond the limit are
//! refused.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::speak_response::Event;
use omni_tests::{
    Call, Ending, FakeScript, TestServer, audio_of, cancel, chat_config, config, endless, finish, flush,
    reason, seeded, text,
};
use tonic::Code;
use tonic_types::StatusExt as _;

const TEXT: &str = "This is a sentence. And here is one more, a longer one, to be spoken after it.";

#[tokio::test]
async fn audio_does_not_depend_on_who_else_speaks() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let (alone, _) = audio_of(&mut server.speech(), seeded(9), TEXT).await.unwrap();
    let crowd = (0..16).map(|n| {
        let mut client = server.speech();
        async move {
            audio_of(&mut client, seeded(if n == 8 { 9 } else { n }), TEXT)
                .await
                .unwrap()
                .0
        }
    });
    let heard = futures::future::join_all(crowd).await;
    assert!(heard[8] == alone);
    assert!(heard.iter().all(|audio| audio.len() == alone.len()));
    server.idle(17).await;
    server.stop().await;
}

#[tokio::test]
async fn calls_beyond_those_of_a_connection_wait_for_one_to_end_and_other_connections_do_not() {
    let server = TestServer::fake(FakeScript::default(), &["--max-streams-per-connection", "2"]).await;
    let first = server.call().await;
    let _second = server.call().await;
    let mut third = Box::pin(async {
        let mut client = server.speech();
        audio_of(&mut client, seeded(1), TEXT).await
    });
    let mut beside = v1::speech_service_client::SpeechServiceClient::new(server.connect().await);
    let other = tokio::select! {
        _ = &mut third => panic!("as many calls as there may be are open"),
        other = audio_of(&mut beside, seeded(1), TEXT) => other.unwrap(),
    };
    drop(first);
    assert!(third.await.unwrap().0 == other.0);
    server.stop().await;
}

#[tokio::test]
async fn a_slow_reader_pauses_alone_and_gets_everything() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--max-buffered-audio", "200ms"]).await;
    let long = "A rather long sentence that goes on for a while, and then for a while more. ".repeat(40);
    let (expected, _) = audio_of(&mut server.speech(), seeded(4), &long).await.unwrap();

    // A connection of its own, for a window of flow control of its own.
    let mut slow_client = v1::speech_service_client::SpeechServiceClient::new(server.connect().await);
    let mut slow = Call::open(&mut slow_client).await;
    slow.send(config(seeded(4))).await;
    slow.ready().await;
    slow.send(text(&long)).await;
    slow.send(finish()).await;
    slow.first_audio().await;
    // Others are served all the while.
    for _ in 0..3 {
        let (other, _) = audio_of(&mut server.speech(), seeded(4), &long).await.unwrap();
        assert!(other == expected);
    }
    let utterance = slow.utterance().await;
    assert!(utterance.audio == expected);
    drop(slow);
    server.stop().await;
}

#[tokio::test]
async fn a_reader_that_never_reads_is_let_go() {
    let script = FakeScript::default();
    let args = ["--max-buffered-audio", "200ms", "--stall-timeout", "200ms"];
    let server = TestServer::fake(script.clone(), &args).await;
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(text(&endless())).await;
    call.send(finish()).await;
    call.first_audio().await;
    server
        .until("the session has ended", || server.app.sessions() == 0)
        .await;
    let records = server.records.all();
    assert_eq!(
        records[0].error.as_ref().map(|error| error.reason()),
        Some("SLOW_READER")
    );
    drop(call);
    server.stop().await;
}

#[tokio::test]
async fn more_sessions_than_allowed_are_refused_with_a_time_to_retry() {
    let server = TestServer::fake(FakeScript::default(), &["--max-sessions", "2"]).await;
    let first = server.call().await.configured(v1::SpeechConfig::default()).await;
    let second = server.call().await.configured(v1::SpeechConfig::default()).await;
    let refused = Call::try_open(&mut server.speech(), None).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::ResourceExhausted, "CONCURRENCY_LIMIT")
    );
    assert!(refused.get_details_retry_info().is_some());
    drop(first);
    server
        .until("a place is free", || server.app.sessions() == 1)
        .await;
    server.call().await.configured(v1::SpeechConfig::default()).await;
    drop(second);
    server.stop().await;
}

#[tokio::test]
async fn more_utterances_than_may_wait_fail_and_the_stream_goes_on() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--max-active", "1", "--max-waiting", "0"]).await;
    script.talker.close();
    let mut holder = server.call().await.configured(v1::SpeechConfig::default()).await;
    holder.send(text("holds the place.")).await;
    holder.send(finish()).await;
    script.talker.reached().await;
    let mut other = server.call().await.configured(v1::SpeechConfig::default()).await;
    other.send(text("no place.")).await;
    other.send(finish()).await;
    let refused = other.utterance().await;
    assert_eq!(refused.error_reason(), "SERVER_OVERLOADED");
    script.talker.open();
    assert_eq!(holder.utterance().await.finish(), v1::FinishReason::Stop);
    other.send(text("now there is.")).await;
    other.send(finish()).await;
    assert_eq!(other.utterance().await.finish(), v1::FinishReason::Stop);
    server.stop().await;
}

#[tokio::test]
async fn an_utterance_that_waits_for_text_holds_nobody_up() {
    let server = TestServer::fake(FakeScript::default(), &["--max-active", "1"]).await;
    let mut slow = server.call().await.configured(v1::SpeechConfig::default()).await;
    slow.send(text("A first sentence. ")).await;
    slow.send(text("And then")).await;
    slow.first_audio().await;
    let (audio, _) = audio_of(&mut server.speech(), seeded(1), TEXT).await.unwrap();
    assert!(!audio.is_empty());
    slow.send(text(" a second one.")).await;
    slow.send(finish()).await;
    assert_eq!(slow.utterance().await.finish(), v1::FinishReason::Stop);
    server.stop().await;
}

#[tokio::test]
async fn an_utterance_that_waits_within_a_sentence_gives_its_place_back_and_goes_on_later() {
    let args = ["--max-active", "1", "--max-text-pause", "20ms"];
    let server = TestServer::fake(FakeScript::default(), &args).await;
    let settings = v1::SpeechConfig {
        buffering: v1::TextBuffering::Eager.into(),
        ..seeded(1)
    };
    let mut slow = server.call().await;
    slow.send(config(settings)).await;
    slow.ready().await;
    slow.send(text("the quick brown fox jumps over ")).await;
    slow.first_audio().await;
    let (audio, _) = audio_of(&mut server.speech(), seeded(1), TEXT).await.unwrap();
    assert!(!audio.is_empty());
    slow.send(text("the lazy dog.")).await;
    slow.send(finish()).await;
    let whole = slow.utterance().await;
    assert_eq!(whole.finish(), v1::FinishReason::Stop);
    let spoken = "the quick brown fox jumps over".len() + "the lazy dog.".len();
    assert_eq!(whole.outcome.usage.unwrap().output_audio_tokens as usize, spoken);
    server.stop().await;
}

#[tokio::test]
async fn a_flush_within_a_sentence_gives_the_place_back_too() {
    let args = ["--max-active", "1", "--max-text-pause", "1h"];
    let server = TestServer::fake(FakeScript::default(), &args).await;
    let settings = v1::SpeechConfig {
        buffering: v1::TextBuffering::Eager.into(),
        ..seeded(1)
    };
    let mut slow = server.call().await;
    slow.send(config(settings)).await;
    slow.ready().await;
    slow.send(text("the quick brown fox jumps over ")).await;
    slow.first_audio().await;
    slow.send(flush()).await;
    audio_of(&mut server.speech(), seeded(1), TEXT).await.unwrap();
    slow.send(finish()).await;
    assert_eq!(slow.utterance().await.finish(), v1::FinishReason::Stop);
    server.stop().await;
}

#[tokio::test]
async fn empty_text_and_flushes_of_nothing_keep_no_session_open() {
    for nothing in [text(""), flush()] {
        let server = TestServer::fake(FakeScript::default(), &["--idle-timeout", "500ms"]).await;
        let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
        let keeps_alive = async {
            loop {
                call.send(nothing.clone()).await;
                if let Ok(None) = tokio::time::timeout(Duration::from_millis(5), call.next()).await {
                    break call.history().ending.clone();
                }
            }
        };
        // Longer than anything takes; only a test that fails waits for it.
        let ending = tokio::time::timeout(Duration::from_secs(30), keeps_alive).await;
        assert_eq!(ending, Ok(Ending::Status(Code::Aborted)));
        server.stop().await;
    }
}

#[tokio::test]
async fn an_idle_session_is_ended() {
    let server = TestServer::fake(FakeScript::default(), &["--idle-timeout", "500ms"]).await;
    let call = server.call().await.configured(v1::SpeechConfig::default()).await;
    let status = call.end().await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Aborted, "SESSION_IDLE")
    );
    server.stop().await;
}

/// Waits in a queue in which there is no place, and gives the reason of the refusal.
async fn refused_by_the_queue(args: &[&str], waits: impl AsyncFnOnce(&TestServer) -> String) -> String {
    let args = [&["--max-active", "1", "--idle-timeout", "500ms"], args].concat();
    let server = TestServer::fake(FakeScript::default(), &args).await;
    let held = server.app.orchestrator().admit().await.expect("a place");
    let reason = waits(&server).await;
    drop(held);
    server.stop().await;
    reason
}

#[tokio::test]
async fn who_waits_for_a_place_is_not_idle() {
    let args = ["--max-wait", "2s"];
    let spoken = refused_by_the_queue(&args, async |server| {
        let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
        call.send(text(TEXT)).await;
        call.send(finish()).await;
        call.utterance().await.error_reason()
    });
    assert_eq!(spoken.await, "SERVER_OVERLOADED");
    let answered = refused_by_the_queue(&args, async |server| {
        let mut chat = server.converse().await;
        chat.configure(chat_config(false)).await;
        chat.turn("ab").await.error_reason()
    });
    assert_eq!(answered.await, "SERVER_OVERLOADED");
}

#[tokio::test]
async fn an_old_session_finishes_what_it_has_and_ends() {
    // Both for callers that close their streams and for those that keep them open, in every way.
    for more in [
        vec![text(" is finished."), finish()],
        vec![],
        vec![text(" or"), flush()],
    ] {
        let server = TestServer::fake(FakeScript::default(), &["--max-session-age", "1s"]).await;
        let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
        call.send(text("An open utterance")).await;
        let warned = async {
            loop {
                if let (_, Event::Warning(warning)) = call.next().await.expect("more") {
                    break warning.reason;
                }
            }
        };
        assert_eq!(warned.await, "SESSION_MAX_AGE");
        for event in more {
            call.send(event).await;
        }
        let utterance = call.utterance().await;
        assert_eq!(utterance.finish(), v1::FinishReason::Stop);
        assert_eq!(utterance.outcome.usage.unwrap().input_characters, 17);
        let status = call.end().await.unwrap_err();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::Aborted, "SESSION_MAX_AGE")
        );
        server.stop().await;
    }
}

#[tokio::test]
async fn a_stage_that_is_slow_is_not_its_callers_silence() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--idle-timeout", "500ms"]).await;
    let mut call = server.call().await.configured(seeded(1)).await;
    script.talker.close();
    call.send(text("A sentence that is spoken late.")).await;
    call.send(finish()).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    script.talker.open();
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    server.stop().await;
}

/// h2 ends a connection on which too many small frames wait; with a small window a few calls of many were enough.
#[tokio::test]
async fn text_by_the_byte_in_many_calls_ends_no_other_call_on_their_connection() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let settings = v1::SpeechConfig {
        buffering: v1::TextBuffering::Manual.into(),
        ..v1::SpeechConfig::default()
    };
    let mut bystander = server.call().await.configured(seeded(1)).await;
    let calls = (0..10).map(async |_| {
        let mut call = server.call().await.configured(settings.clone()).await;
        for _ in 0..2_000 {
            call.send(text("a")).await;
        }
        call.send(cancel("")).await;
        call.utterance().await.finish()
    });
    let ended = futures::future::join_all(calls).await;
    assert_eq!(ended, [v1::FinishReason::Interrupted; 10]);
    bystander.send(text(TEXT)).await;
    bystander.send(finish()).await;
    assert_eq!(bystander.utterance().await.finish(), v1::FinishReason::Stop);
    drop(bystander);
    server.stop().await;
}
