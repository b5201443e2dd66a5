//! Stages that fail under an answer, and models that hold no conversations.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::converse_response::Event;
use omni_tests::{ChatCall, FakeScript, TestServer, chat_config, chat_message, generate, reason};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;

async fn failing(script: FakeScript) -> (TestServer, ChatCall) {
    let server = TestServer::fake(script, &[]).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    (server, chat)
}

async fn fails_once(script: FakeScript, stage: &str) {
    let (server, mut chat) = failing(script).await;
    let answer = chat.turn("say so far so good ! and never this").await;
    assert_eq!(
        (answer.finish(), answer.error_reason().as_str()),
        (v1::FinishReason::Error, "STAGE_FAILED")
    );
    assert!(answer.outcome.error.unwrap().message.contains(stage));
    assert_eq!(answer.kept, "", "nothing is kept of a failure");

    // The conversation continues, and the question can be asked again.
    let fine = chat.turn("say fine").await;
    assert_eq!(fine.text, "fine");
    let read = "say so far so good ! and never this".len() + "say fine".len();
    assert_eq!(fine.outcome.usage.unwrap().input_characters as usize, read);
    chat.hang_up();
    chat.end().await.unwrap();
    server.chats_over(2).await;
    server.stop().await;
}

#[tokio::test]
async fn a_panic_of_the_thinker_fails_its_answers_and_nothing_else() {
    let script = FakeScript {
        thinker_panics_on: Some('!'),
        ..FakeScript::default()
    };
    fails_once(script, "thinker").await;
}

#[tokio::test]
async fn a_sequence_that_the_thinker_gives_up_fails_alone() {
    let script = FakeScript {
        thinker_fails_on: Some('!'),
        ..FakeScript::default()
    };
    fails_once(script, "thinker").await;
}

#[tokio::test]
async fn a_failure_of_the_speech_fails_the_answer() {
    let script = FakeScript {
        talker_panics_on: Some('!'),
        ..FakeScript::default()
    };
    let (server, mut chat) = failing(script).await;
    let answer = chat.turn("say so far so good ! and never this").await;
    assert_eq!(
        (answer.finish(), answer.error_reason().as_str()),
        (v1::FinishReason::Error, "STAGE_FAILED")
    );
    assert!(answer.outcome.error.unwrap().message.contains("talker"));
    server
        .until("the talker is back", || {
            server.app.orchestrator().available().is_ok()
        })
        .await;
    assert_eq!(chat.turn("say fine").await.text, "fine");
    server.stop().await;
}

#[tokio::test]
async fn a_conversation_that_the_template_refuses_fails_its_answer() {
    let script = FakeScript {
        template_refuses: Some('~'),
        ..FakeScript::default()
    };
    let (server, mut chat) = failing(script).await;
    let answer = chat.turn("say ~").await;
    assert_eq!(
        (answer.finish(), answer.error_reason().as_str()),
        (v1::FinishReason::Error, "INVALID_FIELD")
    );
    // The next turn is answered without it and earlier turns, and reports this.
    let next = chat.turn("recite").await;
    assert_eq!(next.text, "user:recite|");
    assert_eq!(next.warnings[0].reason, "HISTORY_TRIMMED");
    server.stop().await;
}

#[tokio::test]
async fn a_failure_over_the_prompt_is_the_servers_fault() {
    let script = FakeScript {
        prompt_fails_on: Some('~'),
        ..FakeScript::default()
    };
    let (server, mut chat) = failing(script).await;
    let answer = chat.turn("say ~").await;
    assert_eq!(
        (answer.finish(), answer.error_reason().as_str()),
        (v1::FinishReason::Error, "STAGE_FAILED")
    );
    let message = answer.outcome.error.unwrap().message;
    assert!(message.contains("stage prompt failed"), "{message}");
    server.stop().await;
}

#[tokio::test]
async fn a_thinker_that_is_stuck_within_an_answer_fails_it_and_is_named() {
    let script = FakeScript::default();
    let args = ["--set", "stages.talker.upstream_stall=1s"];
    let server = TestServer::fake(script.clone(), &args).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    chat.ask("forever").await;
    chat.until(|event| matches!(event, Event::Text(_)).then_some(()))
        .await;
    script.thinker.close();
    let failed = chat.answer().await;
    assert_eq!(failed.error_reason(), "STAGE_FAILED");
    let message = failed.outcome.error.unwrap().message;
    assert!(
        message.contains("stage thinker failed: it gave nothing for 1s"),
        "{message}"
    );
    script.thinker.open();
    assert_eq!(chat.turn("say fine").await.text, "fine");
    server.stop().await;
}

#[tokio::test]
async fn audio_may_take_longer_than_the_idle_timeout() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--idle-timeout", "1s"]).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    script.code2wav.close();
    chat.ask("say slowly").await;
    script.code2wav.reached().await;
    let early = tokio::time::timeout(Duration::from_secs(3), chat.answer()).await;
    assert!(early.is_err(), "{early:?}");
    script.code2wav.open();
    assert_eq!(chat.answer().await.finish(), v1::FinishReason::Stop);
    server.stop().await;
}

#[tokio::test]
async fn a_thinker_that_never_begins_is_named_and_the_conversation_goes_on() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--idle-timeout", "1s"]).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    script.thinker.close();
    let failed = chat.turn("say never").await;
    assert_eq!(failed.error_reason(), "STAGE_FAILED");
    let message = failed.outcome.error.unwrap().message;
    assert!(
        message.contains("stage thinker failed: it gave nothing for 1s"),
        "{message}"
    );
    script.thinker.open();
    assert_eq!(chat.turn("say fine").await.text, "fine");
    server.stop().await;
}

#[tokio::test]
async fn an_answer_whose_place_others_have_is_not_taken_for_stuck() {
    let script = FakeScript::default();
    let args = [
        "--max-buffered-audio",
        "1s",
        "--set",
        "stages.thinker.max_num_seqs=1",
        "--set",
        "stages.talker.upstream_stall=1s",
    ];
    let server = TestServer::fake(script.clone(), &args).await;
    let endless = |audio| v1::ChatConfig {
        text_sampling: Some(v1::SamplingParams {
            max_tokens: Some(1 << 20),
            ..v1::SamplingParams::default()
        }),
        ..chat_config(audio)
    };
    let mut slow = server.converse().await;
    slow.configure(endless(true)).await;
    slow.ask("forever").await;
    slow.until(|event| matches!(event, Event::Audio(_)).then_some(()))
        .await;
    // It is no longer read and comes to rest; another gets its place in the thinker.
    let mut other = server.converse().await;
    other.configure(endless(false)).await;
    other.ask("forever").await;
    let text = |event: &Event| matches!(event, Event::Text(_)).then_some(());
    other.until(text).await;
    let waits = async {
        while let Some((_, event)) = slow.next().await {
            assert!(!matches!(event, Event::ResponseDone(_)), "{event:?}");
        }
    };
    // For more than twice as long as a thinker may be stuck.
    let goes_on = async {
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_millis(2_500) {
            other.until(text).await;
        }
    };
    tokio::select! {
        () = waits => panic!("the call has ended"),
        () = goes_on => {}
    }
    other.send(omni_tests::interrupt(None)).await;
    assert_eq!(other.answer().await.finish(), v1::FinishReason::Interrupted);
    slow.until(text).await;
    server.stop().await;
}

#[tokio::test]
async fn a_failure_of_generate_is_a_status() {
    let script = FakeScript {
        thinker_panics_on: Some('!'),
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let conversation = vec![chat_message(v1::Role::User, "say no!")];
    let status = generate(&mut server.chat(), chat_config(false), conversation)
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Internal, "STAGE_FAILED")
    );
    server.stop().await;
}

#[tokio::test]
async fn a_model_without_a_thinker_speaks_and_says_why_it_does_not_converse() {
    let script = FakeScript {
        speech_only: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let status = ChatCall::try_open(&mut server.chat(), None).await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unimplemented, "CHAT_NOT_SUPPORTED")
    );
    assert!(status.message().contains("the script says so"));
    let health = |service: &str| {
        let mut client = server.health();
        let service = service.to_owned();
        async move {
            let answer = client.check(HealthCheckRequest { service }).await.unwrap();
            answer.into_inner().status()
        }
    };
    assert_eq!(health("omni.v1.ChatService").await, ServingStatus::NotServing);
    assert_eq!(health("omni.v1.SpeechService").await, ServingStatus::Serving);
    assert_eq!(health("").await, ServingStatus::Serving);
    let models = server
        .catalog()
        .list_models(v1::ListModelsRequest::default())
        .await
        .unwrap();
    assert_eq!(models.into_inner().models[0].capabilities, ["speech"]);
    server.stop().await;
}

#[tokio::test]
async fn a_model_with_a_thinker_says_what_it_can_do() {
    let script = FakeScript {
        hears: true,
        max_context: 512,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let models = server
        .catalog()
        .list_models(v1::ListModelsRequest::default())
        .await
        .unwrap();
    let model = &models.into_inner().models[0];
    assert_eq!(model.capabilities, ["speech", "chat", "audio_input"]);
    assert_eq!(model.max_context_tokens, 512);
    let service = "omni.v1.ChatService".to_owned();
    let health = server
        .health()
        .check(HealthCheckRequest { service })
        .await
        .unwrap();
    assert_eq!(health.into_inner().status(), ServingStatus::Serving);
    server.stop().await;
}

#[tokio::test]
async fn a_failure_in_one_conversation_is_nothing_to_another() {
    let script = FakeScript {
        thinker_panics_on: Some('!'),
        ..FakeScript::default()
    };
    let (server, mut chat) = failing(script).await;
    let mut other = server.converse().await;
    other.configure(chat_config(false)).await;
    assert_eq!(chat.turn("say oh no!").await.error_reason(), "STAGE_FAILED");
    other.ask("say all is well").await;
    let text = other.until(|event| match event {
        Event::ResponseDone(done) => done.message.as_ref().map(omni_tests::text_of),
        _ => None,
    });
    assert_eq!(text.await, "all is well");
    server.stop().await;
}
