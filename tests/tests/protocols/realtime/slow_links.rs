//! Links that carry less than is spoken.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_tests::{SlowLink, TestServer};
use serde_json::{Value, json};

use super::speech::{hear, hearing, silence, spoken};
use super::{Client, fake, over};

const WAY: Duration = Duration::from_millis(100);

/// Playing time of the audio of an event, in seconds.
fn seconds(event: &Value, bytes_per_second: f64) -> f64 {
    if event["type"] != "response.output_audio.delta" {
        return 0.0;
    }
    let delta = event["delta"].as_str().expect("base64");
    BASE64.decode(delta).expect("base64").len() as f64 / bytes_per_second
}

/// Playing time received before an event of this type.
async fn until(client: &mut Client, kind: &str, bytes_per_second: f64) -> (f64, Value) {
    let mut audio = 0.0;
    loop {
        let event = client.event().await;
        assert!(event["type"] != "closed" && event["type"] != "gone", "{event}");
        audio += seconds(&event, bytes_per_second);
        if event["type"] == kind {
            return (audio, event);
        }
    }
}

/// Has an answer without end begin, and takes some of it.
async fn begun(client: &mut Client) {
    client.say("forever").await;
    client.respond(json!({})).await;
    for _ in 0..8 {
        client.until("response.output_audio.delta").await;
    }
}

async fn connected(server: &TestServer, kbit: u64) -> (SlowLink, Client) {
    let link = SlowLink::to(server.app.address(), kbit, WAY);
    let opened = Client::at(link.address(), "", &[]).await;
    let mut client = opened.expect("it is accepted").0;
    client.expect("session.created").await;
    (link, client)
}

#[tokio::test]
async fn a_cancel_on_a_full_link_is_obeyed_and_audio_that_has_not_left_is_dropped() {
    let server = fake().await;
    for (kbit, format, bytes_per_second) in [
        (64, "audio/pcmu", 8_000.0),
        (160, "audio/pcm", 48_000.0),
        (1_000, "audio/pcm", 48_000.0),
    ] {
        let (_link, mut client) = connected(&server, kbit).await;
        let format = match format {
            "audio/pcm" => json!({"type": format, "rate": 24_000}),
            _ => json!({"type": format}),
        };
        client
            .update(json!({"audio": {"output": {"format": format}}}))
            .await;
        begun(&mut client).await;
        client.send(json!({"type": "response.cancel"})).await;
        let (audio, done) = until(&mut client, "response.done", bytes_per_second).await;
        assert_eq!(done["response"]["status"], "cancelled");
        assert!(audio < 4.0, "{audio} s at {kbit} kbit/s");
    }
    over(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_user_who_speaks_on_a_full_link_is_heard_and_stops_the_answer() {
    let server = hearing().await;
    let speech = spoken().await;
    let (_link, mut client) = connected(&server, 160).await;
    begun(&mut client).await;
    hear(&mut client, &silence(0.5)).await;
    hear(&mut client, &speech).await;
    let (audio, _) = until(&mut client, "input_audio_buffer.speech_started", 48_000.0).await;
    assert!(audio < 4.0, "{audio} s");
    let (audio, done) = until(&mut client, "response.done", 48_000.0).await;
    assert_eq!(done["response"]["status"], "cancelled");
    assert!(audio < 1.0, "{audio} s");
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_writes_before_it_reads_is_read() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    begun(&mut client).await;
    // More than the sockets hold is sent meanwhile, and it reads none of that.
    for _ in 0..40 {
        let content = json!([{"type": "input_text", "text": "a".repeat(1_000)}]);
        let item = json!({"type": "message", "role": "user", "content": content});
        client
            .send(json!({"type": "conversation.item.create", "item": item}))
            .await;
    }
    client.send(json!({"type": "response.cancel"})).await;
    let (audio, done) = until(&mut client, "response.done", 48_000.0).await;
    assert_eq!(done["response"]["status"], "cancelled");
    assert!(audio < 60.0, "{audio} s");
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_goes_while_its_link_is_full_leaves_nothing_behind() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    begun(&mut client).await;
    client.0.close(None).await.expect("a close frame");
    // It stays connected, and reads nothing.
    over(&server).await;
    server.stop().await;
}
