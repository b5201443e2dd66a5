//! A talker on a device gets its next step before the last one has answered; its audio does not change.

use omni_proto::v1;
use omni_proto::v1::speak_response::Event;
use omni_tests::{
    Apart, Call, FakeScript, TestServer, audio_of, cancel, config, endless, finish, seeded, text,
};

const TEXT: &str = "This is a sentence. And here is one more, a longer one, to be spoken after it.";

fn apart() -> FakeScript {
    FakeScript {
        apart: Apart::yes(),
        ..FakeScript::default()
    }
}

async fn expected(seed: u64, text: &str) -> Vec<u8> {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let (audio, _) = audio_of(&mut server.speech(), seeded(seed), text).await.unwrap();
    server.stop().await;
    audio
}

#[tokio::test]
async fn everybody_hears_what_steps_in_turn_give() {
    let script = apart();
    let server = TestServer::fake(script.clone(), &[]).await;
    let crowd = (0..8).map(|seed| {
        let mut client = server.speech();
        async move { audio_of(&mut client, seeded(seed), TEXT).await.unwrap().0 }
    });
    let heard = futures::future::join_all(crowd).await;
    for (seed, audio) in (0..).zip(heard) {
        assert!(audio == expected(seed, TEXT).await, "seed {seed}");
    }
    assert!(
        script.apart.steps_ahead() > 50,
        "{} ahead",
        script.apart.steps_ahead()
    );
    server.idle(8).await;
    server.stop().await;
}

/// While an answer is awaited, the step after it has been begun: the device is never without work.
#[tokio::test]
async fn a_step_is_begun_before_the_answer_to_the_last_one_is_there() {
    let script = apart();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.answers.close();
    let call = server.call().await.configured(v1::SpeechConfig::default()).await;
    let steps = script.talker.passed();
    call.send(text(TEXT)).await;
    call.send(finish()).await;
    script.answers.reached().await;
    assert_eq!(script.talker.passed() - steps, 2);
    script.answers.open();
    let mut call = call;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    drop(call);
    server.stop().await;
}

#[tokio::test]
async fn a_slow_reader_gets_everything_and_holds_up_nobody() {
    let script = apart();
    let server = TestServer::fake(script.clone(), &["--max-buffered-audio", "200ms"]).await;
    let long = TEXT.repeat(40);
    let mut slow_client = v1::speech_service_client::SpeechServiceClient::new(server.connect().await);
    let mut slow = Call::open(&mut slow_client).await;
    slow.send(config(seeded(4))).await;
    slow.ready().await;
    slow.send(text(&long)).await;
    slow.send(finish()).await;
    slow.first_audio().await;
    let ahead = script.apart.steps_ahead();
    let (other, _) = audio_of(&mut server.speech(), seeded(4), &long).await.unwrap();
    assert!(
        script.apart.steps_ahead() > ahead,
        "a paused sequence does not end the overlap"
    );
    assert!(slow.utterance().await.audio == other);
    assert!(other == expected(4, &long).await);
    drop(slow);
    server.stop().await;
}

/// Text in pieces: sequences wait for it and continue, each at another time.
#[tokio::test]
async fn text_that_comes_late_is_spoken_as_if_it_had_been_there() {
    let server = TestServer::fake(apart(), &[]).await;
    let mut long = server.call().await.configured(v1::SpeechConfig::default()).await;
    long.send(text(&endless())).await;
    let mut call = server.call().await.configured(seeded(4)).await;
    for word in TEXT.split_inclusive(' ') {
        call.send(text(word)).await;
        long.first_audio().await;
    }
    call.send(finish()).await;
    assert!(call.utterance().await.audio == expected(4, TEXT).await);
    drop((call, long));
    server.stop().await;
}

#[tokio::test]
async fn what_is_cancelled_under_way_ends_once_and_frees_its_slot() {
    let script = apart();
    let server = TestServer::fake(script.clone(), &["--set", "stages.talker.max_num_seqs=1"]).await;
    for _ in 0..5 {
        let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
        call.send(text(&endless())).await;
        call.first_audio().await;
        call.send(cancel("")).await;
        assert_eq!(call.utterance().await.finish(), v1::FinishReason::Interrupted);
        // Its place is another's.
        let (audio, _) = audio_of(&mut server.speech(), seeded(4), TEXT).await.unwrap();
        assert!(!audio.is_empty());
        drop(call);
    }
    server
        .until("every session has ended", || server.app.sessions() == 0)
        .await;
    let pool = server.app.orchestrator().pool("talker").expect("a talker");
    let empty = || {
        pool.replicas().iter().all(|replica| {
            let stats = &replica.stats;
            (stats.running, stats.waiting, replica.in_flight) == (0, 0, 0) && stats.kv_usage == 0.0
        })
    };
    server.until("the talker is empty", empty).await;
    server.stop().await;
}

#[tokio::test]
async fn a_talker_that_dies_with_a_step_under_way_is_built_anew() {
    let script = FakeScript {
        talker_panics_on: Some('#'),
        ..apart()
    };
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(text("this is where it # breaks.")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Error);
    server
        .until("the stages are back", || {
            server.app.orchestrator().available().is_ok()
        })
        .await;
    let (audio, _) = audio_of(&mut server.speech(), seeded(4), TEXT).await.unwrap();
    assert!(audio == expected(4, TEXT).await);
    assert!(script.apart.steps_ahead() > 0);
    drop(call);
    server.stop().await;
}

/// One sequence of the step fails; the others finish.
#[tokio::test]
async fn a_sequence_that_fails_under_way_fails_alone() {
    let script = FakeScript {
        talker_fails_on: Some('#'),
        ..apart()
    };
    let server = TestServer::fake(script, &[]).await;
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    let mut client = server.speech();
    let other = audio_of(&mut client, seeded(4), TEXT);
    call.send(text("this is where it # breaks.")).await;
    call.send(finish()).await;
    let (failed, other) = tokio::join!(call.utterance(), other);
    assert_eq!(failed.finish(), v1::FinishReason::Error);
    let responses = call.history().responses.iter();
    let ends = responses.filter(|response| matches!(response.event, Some(Event::Done(_))));
    let ends = ends.count();
    assert_eq!(ends, 1);
    assert!(other.unwrap().0 == expected(4, TEXT).await);
    drop(call);
    server.stop().await;
}
