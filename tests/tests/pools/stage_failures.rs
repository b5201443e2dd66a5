//! A stage that panics or fails takes down its own requests and nothing else.

use omni_proto::v1;
use omni_tests::{FakeScript, TestServer, audio_of, config, finish, reason, text};
use tonic::Code;

async fn serves(server: &TestServer) {
    let (audio, _) = audio_of(&mut server.speech(), v1::SpeechConfig::default(), "all is well.")
        .await
        .unwrap();
    assert!(!audio.is_empty());
}

async fn panic_fails_only_its_requests(script: FakeScript, stage: &str) {
    let server = TestServer::fake(script, &[]).await;
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(text("this is where it # breaks.")).await;
    call.send(finish()).await;
    let failed = call.utterance().await;
    assert_eq!(
        (failed.finish(), failed.error_reason().as_str()),
        (v1::FinishReason::Error, "STAGE_FAILED")
    );
    let error = failed.outcome.error.unwrap();
    assert_eq!(error.code, Code::Internal as i32);
    assert!(error.message.contains(stage), "{}", error.message);

    // The same stream, and others, continue.
    server
        .until("the stages are back", || {
            server.app.orchestrator().available().is_ok()
        })
        .await;
    call.send(text("fine again.")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    serves(&server).await;
    drop(call);
    server.idle(3).await;
    server.stop().await;
}

#[tokio::test]
async fn a_panic_in_the_talker_fails_only_its_requests() {
    let script = FakeScript {
        talker_panics_on: Some('#'),
        ..Default::default()
    };
    panic_fails_only_its_requests(script, "talker").await;
}

#[tokio::test]
async fn a_panic_in_code2wav_fails_only_its_requests() {
    let script = FakeScript {
        code2wav_panics_on: Some('#'),
        ..Default::default()
    };
    panic_fails_only_its_requests(script, "code2wav").await;
}

#[tokio::test]
async fn a_sequence_that_fails_alone_leaves_its_batch_alone() {
    let script = FakeScript {
        talker_fails_on: Some('#'),
        ..Default::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let calls = (0..8).map(|n| {
        let mut client = server.speech();
        let text = if n == 3 {
            "this one # fails."
        } else {
            "this one does not fail."
        };
        async move { audio_of(&mut client, v1::SpeechConfig::default(), text).await }
    });
    for (n, result) in futures::future::join_all(calls).await.into_iter().enumerate() {
        match result {
            Ok(_) => assert_ne!(n, 3),
            Err(status) => {
                assert_eq!(n, 3);
                assert_eq!(
                    (status.code(), reason(&status).as_str()),
                    (Code::Internal, "STAGE_FAILED")
                );
            }
        }
    }
    server.stop().await;
}

/// All of them are in one batch of the vocoder, which waits until every talker has spoken.
#[tokio::test]
async fn a_stream_that_the_vocoder_fails_leaves_its_batch_alone() {
    let script = FakeScript {
        code2wav_fails_on: Some('#'),
        ..Default::default()
    };
    let expected = {
        let server = TestServer::fake(FakeScript::default(), &[]).await;
        let heard = audio_of(
            &mut server.speech(),
            omni_tests::seeded(7),
            "this one does not fail.",
        )
        .await;
        server.stop().await;
        heard.unwrap().0
    };
    let sets = [
        "--set",
        "stages.code2wav.max_batched_frames=64",
        "--set",
        "stages.talker.output.capacity=64",
    ];
    let server = TestServer::fake(script.clone(), &sets).await;
    script.code2wav.close();
    let calls = (0..8).map(|n| {
        let mut client = server.speech();
        let text = match n {
            3 => "this one # fails.",
            _ => "this one does not fail.",
        };
        tokio::spawn(async move { audio_of(&mut client, omni_tests::seeded(7), text).await })
    });
    let calls: Vec<_> = calls.collect();
    let running = || {
        let view = |stage| {
            server
                .app
                .orchestrator()
                .pool(stage)
                .expect("a stage")
                .replicas()
                .remove(0)
        };
        let talker = view("talker").stats;
        // Most of the text is done, and no more comes.
        talker.decode_tokens > 100 && talker.running == 0 && view("code2wav").in_flight == 8
    };
    server.until("all have been spoken", running).await;
    script.code2wav.open();
    for (n, call) in calls.into_iter().enumerate() {
        match call.await.unwrap() {
            Ok((audio, _)) => assert!(n != 3 && audio == expected, "caller {n}"),
            Err(status) => {
                let found = (n, status.code(), reason(&status));
                assert_eq!(found, (3, Code::Internal, "STAGE_FAILED".to_owned()));
                assert!(status.message().contains("code2wav"), "{}", status.message());
            }
        }
    }
    serves(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_panic_in_a_session_ends_its_call_with_an_error_and_nothing_else() {
    let script = FakeScript {
        tokenizer_panics_on: Some('#'),
        ..Default::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(text("secret # words.")).await;
    call.send(finish()).await;
    let status = call.end().await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Internal, "STAGE_FAILED")
    );
    assert!(
        status.message().contains("session") && !status.message().contains("secret"),
        "{}",
        status.message()
    );
    let synthesized = audio_of(&mut server.speech(), v1::SpeechConfig::default(), "#.").await;
    assert_eq!(synthesized.unwrap_err().code(), Code::Internal);
    serves(&server).await;
    server.idle(3).await;
    server.stop().await;
}

#[tokio::test]
async fn a_talker_that_ends_early_loses_no_text_that_comes_later() {
    let script = FakeScript {
        talker_ends_on: Some('#'),
        ..Default::default()
    };
    let server = TestServer::fake(script.clone(), &["--max-text-pause", "1h"]).await;
    let mut call = server.call().await;
    let settings = v1::SpeechConfig {
        buffering: v1::TextBuffering::Eager.into(),
        ..Default::default()
    };
    call.send(config(settings)).await;
    call.ready().await;
    call.send(text("these # are the first few words ")).await;
    server
        .until("the talker has ended", || script.ends.passed() == 1)
        .await;
    // The talker is done with one thing before it does the next.
    serves(&server).await;
    call.send(text("and these are more of them.")).await;
    call.send(finish()).await;
    let usage = call.utterance().await.outcome.usage.unwrap();
    // The talker's text before the failure is lost as with a complete text; the rest is not.
    let spoken = "these ".len() + "and these are more of them.".len();
    assert!(usage.output_audio_tokens as usize >= spoken, "{usage:?}");
    server.stop().await;
}
