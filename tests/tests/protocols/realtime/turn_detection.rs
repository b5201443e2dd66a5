//! Turns that are detected while something else changes or is answered.

use omni_tests::{FakeScript, TestServer};
use serde_json::{Value, json};

use super::Client;
use super::speech::{hear, hearing, samples_heard, silence, spoken};

fn detection(turns: &Value) -> Value {
    json!({"type": "session.update", "session": {"audio": {"input": {"turn_detection": turns}}}})
}

/// Says the first part of `speech`, with silence before it; gives the beginning that was detected.
async fn begin(client: &mut Client, speech: &[u8]) -> Value {
    hear(client, &silence(0.5)).await;
    hear(client, speech).await;
    client.until("input_audio_buffer.speech_started").await
}

/// The turn that comes next, and how many samples the model hears of it.
async fn turn(client: &mut Client) -> (Value, Value, usize) {
    let stopped = client.until("input_audio_buffer.speech_stopped").await;
    let committed = client.expect("input_audio_buffer.committed").await;
    assert_eq!(stopped["item_id"], committed["item_id"]);
    let heard = client.heard().await;
    (stopped, committed, samples_heard(&heard.transcript))
}

fn ms(event: &Value, field: &str) -> usize {
    usize::try_from(event[field].as_u64().expect("ms")).expect("short")
}

#[tokio::test]
async fn speech_goes_on_when_turn_detection_changes() {
    let server = hearing().await;
    let speech = spoken().await;
    let (first, rest) = speech.split_at(speech.len() / 4 * 2);
    let silent_ms = |ms: u32| json!({"type": "server_vad", "silence_duration_ms": ms});
    for changes in [vec![silent_ms(600)], vec![Value::Null, silent_ms(400)]] {
        let mut client = Client::connect(&server).await;
        let started = begin(&mut client, first).await;
        for turns in changes {
            client.send(detection(&turns)).await;
            client.until("session.updated").await;
        }
        hear(&mut client, rest).await;
        hear(&mut client, &silence(1.0)).await;
        let (stopped, _, samples) = turn(&mut client).await;
        assert_eq!(started["item_id"], stopped["item_id"]);
        let spoken_ms = ms(&stopped, "audio_end_ms") - ms(&started, "audio_start_ms");
        let least = speech.len() / 48;
        assert!(spoken_ms > least, "{spoken_ms} of {least}");
        assert!(
            samples.abs_diff(spoken_ms * 16) <= 1_600,
            "{samples} in {spoken_ms} ms"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn speech_that_has_begun_can_be_committed_when_turns_are_not_detected_any_more() {
    let server = hearing().await;
    let speech = spoken().await;
    let mut client = Client::connect(&server).await;
    let started = begin(&mut client, &speech).await;
    client.send(detection(&Value::Null)).await;
    client.until("session.updated").await;
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    let committed = client.expect("input_audio_buffer.committed").await;
    assert_eq!(started["item_id"], committed["item_id"]);
    client.until("conversation.item.done").await;
    client.respond(json!({})).await;
    let samples = samples_heard(&client.heard().await.transcript);
    assert!(samples > speech.len() / 3, "{samples} of {}", speech.len() / 3);
    server.stop().await;
}

#[tokio::test]
async fn speech_that_was_recorded_before_turns_are_detected_makes_one() {
    let server = hearing().await;
    let speech = spoken().await;
    let mut client = Client::connect(&server).await;
    client.send(detection(&json!({"type": "none"}))).await;
    let updated = client.until("session.updated").await;
    assert_eq!(
        updated["session"]["audio"]["input"]["turn_detection"],
        Value::Null
    );
    hear(&mut client, &speech).await;
    client.send(detection(&json!({"type": "server_vad"}))).await;
    client.until("session.updated").await;
    hear(&mut client, &silence(1.0)).await;
    let started = client.until("input_audio_buffer.speech_started").await;
    assert!(
        ms(&started, "audio_start_ms") < speech.len() / 48 / 2,
        "{started}"
    );
    let (stopped, _, _) = turn(&mut client).await;
    assert_eq!(started["item_id"], stopped["item_id"]);
    server.stop().await;
}

/// A server whose model is held, and a client with a response in progress that nothing interrupts.
async fn busy() -> (TestServer, FakeScript, Client) {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut client = Client::connect(&server).await;
    client
        .send(detection(
            &json!({"type": "server_vad", "interrupt_response": false}),
        ))
        .await;
    client.until("session.updated").await;
    script.thinker.close();
    client.say("say Hello.").await;
    client.respond(json!({})).await;
    client.until("response.created").await;
    (server, script, client)
}

#[tokio::test]
async fn a_turn_that_ends_during_another_response_is_answered_behind_it() {
    let (server, script, mut client) = busy().await;
    let speech = spoken().await;
    hear(&mut client, &speech).await;
    hear(&mut client, &silence(1.0)).await;
    client.until("input_audio_buffer.committed").await;
    client.until("conversation.item.done").await;
    script.thinker.open();
    let first = client.heard().await;
    assert_eq!((first.transcript.as_str(), first.count("error")), ("Hello.", 0));
    let second = client.heard().await;
    assert!(second.transcript.starts_with("You said: ["), "{second:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_turn_that_was_taken_out_is_not_answered() {
    let (server, script, mut client) = busy().await;
    let speech = spoken().await;
    hear(&mut client, &speech).await;
    hear(&mut client, &silence(1.0)).await;
    let item = client.until("input_audio_buffer.committed").await["item_id"].clone();
    client.until("conversation.item.done").await;
    client
        .send(json!({"type": "conversation.item.delete", "item_id": item}))
        .await;
    client.expect("conversation.item.deleted").await;
    script.thinker.open();
    assert_eq!(client.heard().await.transcript, "Hello.");
    client.say("say Bye.").await;
    client.respond(json!({})).await;
    assert_eq!(client.heard().await.transcript, "Bye.");
    server.stop().await;
}
