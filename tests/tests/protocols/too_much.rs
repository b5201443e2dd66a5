//! Excessive input gets the right status, reason and limit, and harms no other caller.

use omni_proto::v1;
use omni_tests::{FakeScript, TestServer, audio_of, cancel, config, finish, named, reason, text};
use tonic::Code;
use tonic_types::StatusExt as _;

async fn server(args: &[&str]) -> TestServer {
    TestServer::fake(FakeScript::default(), args).await
}

#[tokio::test]
async fn too_much_text_fails_the_utterance_and_the_stream_goes_on() {
    let server = server(&["--max-text-bytes", "20"]).await;
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(text("exactly twenty bytes")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);

    call.send(text("exactly twenty bytes!")).await;
    let failed = call.utterance().await;
    assert_eq!(
        (failed.finish(), failed.error_reason().as_str()),
        (v1::FinishReason::Error, "TEXT_TOO_LONG")
    );
    let message = failed.outcome.error.unwrap().message;
    assert!(message.contains("21") && message.contains("20"), "{message}");
    // What still comes for it is dropped, up to its end.
    call.send(text("more of the same")).await;
    call.send(finish()).await;
    call.send(text("a new one")).await;
    call.send(finish()).await;
    let next = call.utterance().await;
    assert_eq!(
        (next.finish(), next.outcome.usage.unwrap().input_characters),
        (v1::FinishReason::Stop, 9)
    );

    let long = "more than twenty bytes of text";
    let status = audio_of(&mut server.speech(), v1::SpeechConfig::default(), long)
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::InvalidArgument, "TEXT_TOO_LONG")
    );
    assert_eq!(status.get_details_error_info().unwrap().metadata["limit"], "20");
    drop(call);
    server.idle(4).await;
    server.stop().await;
}

#[tokio::test]
async fn a_session_that_hoards_text_is_told_so() {
    let server = server(&["--max-buffered-text-bytes", "40"]).await;
    let mut call = server.call().await;
    let buffering = v1::TextBuffering::Manual.into();
    call.send(config(v1::SpeechConfig {
        buffering,
        ..Default::default()
    }))
    .await;
    call.ready().await;
    call.send(text(&"x".repeat(41))).await;
    let failed = call.utterance().await;
    assert_eq!(failed.error_reason(), "TEXT_BUFFER_FULL");
    assert_eq!(failed.outcome.error.unwrap().code, Code::ResourceExhausted as i32);
    call.send(cancel("")).await;
    call.send(text("still alive")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    server.stop().await;
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_call() {
    let server = server(&[]).await;
    let call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(text(&"x".repeat(2 << 20))).await;
    let status = call.end().await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::InvalidArgument, "MESSAGE_TOO_LARGE")
    );
    assert!(status.message().contains("1048576"), "{}", status.message());
    server.stop().await;
}

#[tokio::test]
async fn too_many_waiting_utterances_end_the_call() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.talker.close();
    let call = server.call().await.configured(v1::SpeechConfig::default()).await;
    for n in 0..70 {
        call.send(named(&format!("n{n}"), "hello.")).await;
        call.send(finish()).await;
    }
    let status = call.end().await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::ResourceExhausted, "TOO_MANY_UTTERANCES")
    );
    script.talker.open();
    server.stop().await;
}

#[tokio::test]
async fn too_many_waiting_configs_end_the_call() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.talker.close();
    let call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(text("hello.")).await;
    call.send(finish()).await;
    for _ in 0..70 {
        call.send(config(v1::SpeechConfig::default())).await;
    }
    let status = call.end().await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::ResourceExhausted, "TOO_MANY_CONFIGS")
    );
    script.talker.open();
    server.stop().await;
}
