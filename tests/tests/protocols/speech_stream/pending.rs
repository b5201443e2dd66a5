//! A `session.config` whose voice is still being made: everything else continues, and text after it waits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_tests::{babble, wav};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::{Client, Frame, TEXT, over, posted_as};
use crate::pending_config::imitating;

fn recorded() -> Value {
    json!({"ref_audio": BASE64.encode(wav(&babble(2.0, 120.0)))})
}

#[tokio::test]
async fn audio_of_an_utterance_goes_on_while_the_next_voice_is_made() {
    let (server, script) = imitating().await;
    script.code2wav.close();
    let mut client = Client::connect(&server).await;
    client.configure(json!({})).await;
    client.say(TEXT).await;
    client.configure(recorded()).await;
    client.say(TEXT).await;
    script.voices.reached().await;
    script.code2wav.open();
    let (_, frames) = client.utterance(0).await;
    assert_eq!(frames.concat(), posted_as(&server, "alto").await);
    script.voices.open();
    let (_, frames) = client.utterance(1).await;
    assert_eq!(frames.concat(), posted_as(&server, "bass").await);
    server.stop().await;
}

#[tokio::test]
async fn text_behind_a_config_is_spoken_after_it_and_with_it() {
    let (server, script) = imitating().await;
    let mut client = Client::connect(&server).await;
    client.configure(recorded()).await;
    for _ in 0..2 {
        client.say(TEXT).await;
    }
    script.voices.reached().await;
    script.voices.open();
    let bass = posted_as(&server, "bass").await;
    for index in 0..2 {
        assert_eq!(client.utterance(index).await.1.concat(), bass);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_recording_that_is_refused_changes_nothing() {
    let (server, script) = imitating().await;
    script.voices.open();
    let mut client = Client::connect(&server).await;
    client.configure(json!({"voice": "bass"})).await;
    let silence = json!({"ref_audio": BASE64.encode(wav(&[0.0; 48_000]))});
    client.configure(silence).await;
    assert_eq!(client.error().await.1, "ref_audio");
    client.say(TEXT).await;
    let (_, frames) = client.utterance(0).await;
    assert_eq!(frames.concat(), posted_as(&server, "bass").await);
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_ends_does_not_wait_for_the_voice() {
    for speaks in [false, true] {
        let (server, script) = imitating().await;
        let mut client = Client::connect(&server).await;
        if speaks {
            client.configure(json!({})).await;
            client.say(TEXT).await;
            client.utterance(0).await;
        }
        client.configure(recorded()).await;
        client.say(TEXT).await;
        script.voices.reached().await;
        let ending = tokio::spawn(server.app.shut_down(std::future::pending()));
        let mut last = client.next().await;
        if speaks {
            assert!(
                matches!(&last, Frame::Text(told) if told["type"] == "error"),
                "{last:?}"
            );
            last = client.next().await;
        }
        assert_eq!(last, Frame::Closed(1001));
        // The thread that makes voices is joined.
        script.voices.open();
        ending.await.expect("it ends");
    }
}

#[tokio::test]
async fn a_close_frame_is_answered_by_one() {
    let (server, script) = imitating().await;
    for waits in [false, true] {
        script.voices.close();
        let mut client = Client::connect(&server).await;
        client.configure(if waits { recorded() } else { json!({}) }).await;
        if waits {
            script.voices.reached().await;
        }
        let frame = CloseFrame {
            code: CloseCode::Normal,
            reason: "done".into(),
        };
        client.0.close(Some(frame)).await.expect("it is sent");
        assert_eq!(client.next().await, Frame::Closed(1000));
        script.voices.open();
        over(&server).await;
    }
    server.stop().await;
}
