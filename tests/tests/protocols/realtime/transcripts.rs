//! Recordings that the model writes down, between responses.

use omni_tests::{FakeScript, TestServer};
use serde_json::json;

use super::speech::silence;
use super::{Client, over};

const COMPLETED: &str = "conversation.item.input_audio_transcription.completed";

#[tokio::test]
async fn recordings_are_written_down_where_that_is_wanted_and_responses_go_first() {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut client = Client::connect(&server).await;
    let input = json!({"turn_detection": null, "transcription": {"model": "whisper-1"}});
    client.update(json!({"audio": {"input": input}})).await;
    client.append(&silence(0.5)).await;
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    let item = client.expect("input_audio_buffer.committed").await["item_id"].clone();
    let completed = client.until(COMPLETED).await;
    assert_eq!(completed["item_id"], item);
    assert!(
        completed["transcript"]
            .as_str()
            .expect("text")
            .starts_with("You said: ["),
        "{completed}"
    );
    client
        .send(json!({"type": "conversation.item.retrieve", "item_id": item}))
        .await;
    let retrieved = client.expect("conversation.item.retrieved").await;
    assert_eq!(
        retrieved["item"]["content"][0]["transcript"],
        completed["transcript"]
    );

    // The model writes no transcript while it is held, and a response is requested.
    script.thinker.close();
    client.append(&silence(0.5)).await;
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    client.until("conversation.item.done").await;
    client.respond(json!({})).await;
    client.until("response.created").await;
    script.thinker.open();
    let heard = client.heard().await;
    assert_eq!((heard.status(), heard.count(COMPLETED)), ("completed", 0));
    // The answer before is cut while the model writes down, and after that.
    for end_ms in [100, 50] {
        client
            .send(json!({
                "type": "conversation.item.truncate", "item_id": heard.item(), "content_index": 0, "audio_end_ms": end_ms,
            }))
            .await;
    }
    let mut kinds = Vec::new();
    while kinds.len() < 3 {
        kinds.push(client.event().await["type"].as_str().expect("a type").to_owned());
    }
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [
            COMPLETED,
            "conversation.item.truncated",
            "conversation.item.truncated"
        ]
    );
    drop(client);
    over(&server).await;
    server.stop().await;

    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut client = Client::connect(&server).await;
    client.update(json!({"audio": {"input": input}})).await;
    client.append(&silence(0.5)).await;
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    let failed = client
        .until("conversation.item.input_audio_transcription.failed")
        .await;
    assert_eq!(failed["error"]["code"], "audio_input_not_supported");
    server.stop().await;
}

/// A server whose model is held before it writes, and a client that wants transcripts.
async fn held() -> (TestServer, FakeScript, Client) {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut client = Client::connect(&server).await;
    let input = json!({"turn_detection": null, "transcription": {"model": "whisper-1"}});
    client.update(json!({"audio": {"input": input}})).await;
    script.thinker.close();
    (server, script, client)
}

/// Commits a recording; gives the name of its item.
async fn record(client: &mut Client) -> String {
    client.append(&silence(0.5)).await;
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    let committed = client.until("input_audio_buffer.committed").await;
    client.until("conversation.item.done").await;
    committed["item_id"].as_str().expect("a name").to_owned()
}

async fn take_out(client: &mut Client, item: &str) {
    client
        .send(json!({"type": "conversation.item.delete", "item_id": item}))
        .await;
    client.expect("conversation.item.deleted").await;
}

/// Answers arrive without transcripts of the recordings.
async fn writes_nothing_down(client: &mut Client) {
    for _ in 0..2 {
        let heard = client.ask("say Hello.").await;
        assert_eq!((heard.transcript.as_str(), heard.count(COMPLETED)), ("Hello.", 0));
    }
}

#[tokio::test]
async fn recordings_that_were_taken_out_are_not_written_down() {
    let (server, script, mut client) = held().await;
    // The first one is being written down, the second one waits.
    for item in [record(&mut client).await, record(&mut client).await] {
        take_out(&mut client, &item).await;
    }
    script.thinker.open();
    writes_nothing_down(&mut client).await;
    let third = record(&mut client).await;
    assert_eq!(client.until(COMPLETED).await["item_id"], third);
    server.stop().await;
}

#[tokio::test]
async fn an_item_that_takes_the_name_of_a_deleted_recording_gets_no_transcript() {
    let (server, script, mut client) = held().await;
    let item = record(&mut client).await;
    take_out(&mut client, &item).await;
    let content = json!([{"type": "input_text", "text": "A question."}]);
    let message = json!({"id": item, "type": "message", "role": "user", "content": content});
    client
        .send(json!({"type": "conversation.item.create", "item": message}))
        .await;
    client.until("conversation.item.done").await;
    script.thinker.open();
    writes_nothing_down(&mut client).await;
    server.stop().await;
}

#[tokio::test]
async fn a_response_that_waited_is_refused_by_the_name_of_its_event() {
    let (server, script, mut client) = held().await;
    record(&mut client).await;
    let input = json!([{"type": "item_reference", "id": "no"}]);
    client
        .send(json!({"type": "response.create", "event_id": "mine", "response": {"input": input}}))
        .await;
    script.thinker.open();
    let error = client.expect("error").await["error"].clone();
    assert_eq!(
        (&error["code"], &error["event_id"]),
        (&json!("item_reference_invalid_item_id"), &json!("mine"))
    );
    server.stop().await;
}
