//! Buffering of text: when it is spoken, flushes, and time.

use omni_proto::v1;
use omni_tests::{
    FakeScript, TestServer, audio_of, cancel, config, finish, flush, named, reason, seeded, text,
};
use tonic::Code;

async fn server() -> TestServer {
    TestServer::fake(FakeScript::default(), &[]).await
}

#[tokio::test]
async fn flush_speaks_and_the_utterance_goes_on() {
    let server = server().await;
    let settings = v1::SpeechConfig {
        buffering: v1::TextBuffering::Manual.into(),
        ..seeded(1)
    };
    let mut call = server.call().await.configured(settings).await;
    call.send(text("first part")).await;
    call.send(flush()).await;
    call.first_audio().await;
    call.send(text(" and the rest")).await;
    call.send(finish()).await;
    let utterance = call.utterance().await;
    assert_eq!(utterance.outcome.usage.unwrap().input_characters, 23);
    assert_eq!(utterance.outcome.usage.unwrap().output_audio_tokens, 22);
    server.stop().await;
}

fn buffered(buffering: v1::TextBuffering) -> v1::SpeechConfig {
    v1::SpeechConfig {
        buffering: buffering.into(),
        ..seeded(1)
    }
}

#[tokio::test]
async fn each_buffering_speaks_as_soon_as_it_has_its_unit_and_not_before() {
    use v1::TextBuffering as B;
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    for (buffering, not_enough, enough) in [
        (B::Sentence, "one clause, and another ", "that ends. Now "),
        (B::Clause, "no clause that has come to its ", "end, and "),
        (B::Eager, "wor", "ds as soon as they are complete and "),
    ] {
        let mut call = server.call().await.configured(buffered(buffering)).await;
        let sequences = script.contexts.all().len();
        call.send(text(not_enough)).await;
        // Another call is served from text to done meanwhile.
        audio_of(&mut server.speech(), seeded(2), "a.").await.unwrap();
        assert_eq!(
            script.contexts.all().len(),
            sequences + 1,
            "{buffering:?} has begun"
        );
        call.send(text(enough)).await;
        call.first_audio().await;
        call.send(finish()).await;
        let usage = call.utterance().await.outcome.usage.unwrap();
        let said = not_enough.len() + enough.len();
        assert_eq!(usage.input_characters as usize, said, "{buffering:?}");
    }
    let mut manual = server.call().await.configured(buffered(B::Manual)).await;
    manual.send(text("Everything. That. Comes. ")).await;
    manual.send(cancel("")).await;
    let cancelled = manual.utterance().await;
    assert_eq!(
        (cancelled.samples(), cancelled.finish()),
        (0, v1::FinishReason::Interrupted)
    );
    assert_eq!(cancelled.outcome.usage.unwrap().input_text_tokens, 0);
    server.stop().await;
}

#[tokio::test]
async fn flush_finish_and_cancel_are_three_different_things() {
    let server = server().await;
    let mut call = server
        .call()
        .await
        .configured(buffered(v1::TextBuffering::Manual))
        .await;
    // A flush speaks without ending the utterance: later text belongs to it.
    call.send(named("a", "first")).await;
    call.send(flush()).await;
    call.first_audio().await;
    call.send(named("a", " second")).await;
    // To finish speaks and ends.
    call.send(finish()).await;
    let finished = call.utterance().await;
    assert_eq!(
        (finished.id.as_str(), finished.finish()),
        ("a", v1::FinishReason::Stop)
    );
    assert_eq!(finished.outcome.usage.unwrap().input_text_tokens, 11);
    // To cancel ends and speaks nothing.
    call.send(named("b", "third")).await;
    call.send(cancel("b")).await;
    let cancelled = call.utterance().await;
    assert_eq!((cancelled.id.as_str(), cancelled.samples()), ("b", 0));
    assert_eq!(cancelled.finish(), v1::FinishReason::Interrupted);
    // Without anything open they do nothing.
    call.send(flush()).await;
    call.send(cancel("")).await;
    call.send(finish()).await;
    call.hang_up();
    call.end().await.unwrap();
    server.idle(2).await;
    server.stop().await;
}

#[tokio::test]
async fn settings_while_text_is_gathered_end_the_call() {
    let server = server().await;
    let call = server
        .call()
        .await
        .configured(buffered(v1::TextBuffering::Manual))
        .await;
    call.send(text("gathered")).await;
    call.send(config(seeded(1))).await;
    let status = call.end().await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::FailedPrecondition, "CONFIG_DURING_UTTERANCE")
    );
    server.stop().await;
}

#[tokio::test]
async fn a_flush_of_eager_text_whose_rest_says_nothing_ends_its_sequence() {
    let server = TestServer::fake(
        FakeScript::default(),
        &["--max-text-pause", "1h", "--max-active", "1"],
    )
    .await;
    let mut call = server
        .call()
        .await
        .configured(buffered(v1::TextBuffering::Eager))
        .await;
    call.send(text("some words that are on their way ")).await;
    call.first_audio().await;
    call.send(text(" \n")).await;
    call.send(flush()).await;
    // The sequence has ended and its place is free, although the utterance is open.
    audio_of(&mut server.speech(), seeded(2), "a.").await.unwrap();
    call.send(text("and the rest.")).await;
    call.send(finish()).await;
    let usage = call.utterance().await.outcome.usage.unwrap();
    assert_eq!(usage.input_characters, 33 + 2 + 13);
    server.stop().await;
}

#[tokio::test]
async fn text_that_waits_too_long_is_spoken_by_itself() {
    let server = server().await;
    let settings = v1::SpeechConfig {
        buffering: v1::TextBuffering::Manual.into(),
        max_buffer_delay: Some(omni_proto::Duration {
            seconds: 0,
            nanos: 1_000_000,
        }),
        ..seeded(1)
    };
    let mut call = server.call().await.configured(settings).await;
    call.send(text("nobody says flush")).await;
    call.first_audio().await;
    call.send(finish()).await;
    call.utterance().await;
    server.stop().await;
}
