//! `Speak` with a config whose voice is still being made: audio continues, and text after the config waits for it.

use omni_proto::v1;
use omni_tests::{Call, FakeScript, TestServer, audio_of, babble, config, finish, reason, seeded, text, wav};
use tonic::Code;

const TEXT: &str = "Hello there. How are you?";

/// A server that makes voices of recordings, each of which waits at the gate of the script.
pub(crate) async fn imitating() -> (TestServer, FakeScript) {
    let script = FakeScript {
        imitates: true,
        ..FakeScript::default()
    };
    script.voices.close();
    (TestServer::fake(script.clone(), &[]).await, script)
}

fn recorded() -> v1::SpeechConfig {
    v1::SpeechConfig {
        clone: Some(v1::VoiceClone {
            audio: wav(&babble(2.0, 120.0)),
            ..v1::VoiceClone::default()
        }),
        ..seeded(7)
    }
}

fn named(voice: &str) -> v1::SpeechConfig {
    v1::SpeechConfig {
        voice: voice.to_owned(),
        ..seeded(7)
    }
}

async fn say(call: &Call) {
    call.send(text(TEXT)).await;
    call.send(finish()).await;
}

async fn spoken(server: &TestServer, voice: &str) -> Vec<u8> {
    let spoken = audio_of(&mut server.speech(), named(voice), TEXT).await;
    spoken.expect("audio").0
}

#[tokio::test]
async fn audio_of_an_utterance_goes_on_while_the_next_voice_is_made() {
    let (server, script) = imitating().await;
    script.code2wav.close();
    let mut call = server.call().await.configured(named("alto")).await;
    say(&call).await;
    call.send(config(recorded())).await;
    say(&call).await;
    script.voices.reached().await;
    script.code2wav.open();
    assert_eq!(call.utterance().await.audio, spoken(&server, "alto").await);
    script.voices.open();
    assert_eq!(call.utterance().await.audio, spoken(&server, "bass").await);
    call.hang_up();
    call.end().await.expect("a good end");
    server.stop().await;
}

#[tokio::test]
async fn text_behind_a_config_is_spoken_after_it_and_with_it() {
    let (server, script) = imitating().await;
    let mut call = server.call().await;
    call.send(config(recorded())).await;
    say(&call).await;
    call.hang_up();
    script.voices.reached().await;
    script.voices.open();
    call.ready().await;
    assert_eq!(call.utterance().await.audio, spoken(&server, "bass").await);
    call.end().await.expect("a good end");
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_ends_does_not_wait_for_the_voice() {
    let (server, script) = imitating().await;
    let call = server.call().await;
    call.send(config(recorded())).await;
    say(&call).await;
    script.voices.reached().await;
    let ending = tokio::spawn(server.app.shut_down(std::future::pending()));
    let status = call.end().await.expect_err("it was not served");
    assert_eq!(status.code(), Code::Unavailable, "{}", reason(&status));
    // The thread that makes voices is joined.
    script.voices.open();
    ending.await.expect("it ends");
}
