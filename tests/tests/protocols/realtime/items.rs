//! Items: created, ordered, deleted, and truncated to the heard part.

use omni_tests::{FakeScript, TestServer};
use serde_json::{Value, json};

use super::{Client, fake};

async fn in_writing(server: &TestServer) -> Client {
    let mut client = Client::connect(server).await;
    client.update(json!({"output_modalities": ["text"]})).await;
    client
}

fn message(role: &str, text: &str) -> Value {
    let kind = if role == "assistant" {
        "output_text"
    } else {
        "input_text"
    };
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

async fn recited(client: &mut Client) -> String {
    client.ask("recite").await.text
}

#[tokio::test]
async fn items_are_put_where_they_belong_and_taken_out() {
    let server = fake().await;
    let mut client = in_writing(&server).await;
    let first = client.create(message("user", "one"), Value::Null).await;
    client.create(message("user", "three"), Value::Null).await;
    client.create(message("assistant", "two"), json!(first)).await;
    let mut root = message("user", "zero");
    root["id"] = json!("mine");
    assert_eq!(client.create(root.clone(), json!("root")).await, "mine");
    assert_eq!(
        recited(&mut client).await,
        "user:zero|user:one|assistant:two|user:three|user:recite|"
    );
    client
        .send(json!({"type": "conversation.item.retrieve", "item_id": "mine"}))
        .await;
    let retrieved = client.expect("conversation.item.retrieved").await;
    assert_eq!(retrieved["item"]["content"][0]["text"], "zero");
    client
        .send(json!({"type": "conversation.item.delete", "item_id": first}))
        .await;
    assert_eq!(
        client.expect("conversation.item.deleted").await["item_id"],
        json!(first)
    );
    let left = recited(&mut client).await;
    assert!(left.starts_with("user:zero|assistant:two|user:three|"), "{left}");

    for (event, code) in [
        (
            json!({"type": "conversation.item.create", "item": root}),
            "item_create_duplicate_item_id",
        ),
        (
            json!({"type": "conversation.item.create", "previous_item_id": "no", "item": message("user", "a")}),
            "item_create_invalid_previous_item_id",
        ),
        (
            json!({"type": "conversation.item.retrieve", "item_id": "no"}),
            "item_retrieve_invalid_item_id",
        ),
        (
            json!({"type": "conversation.item.delete", "item_id": first}),
            "item_delete_invalid_item_id",
        ),
        (
            json!({"type": "conversation.item.truncate", "item_id": "no", "content_index": 0, "audio_end_ms": 1}),
            "item_truncate_invalid_item_id",
        ),
        (
            json!({"type": "conversation.item.truncate", "item_id": "mine", "content_index": 0, "audio_end_ms": 1}),
            "invalid_value",
        ),
    ] {
        client.send(event).await;
        assert_eq!(client.error().await.0, code);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_response_beside_the_conversation_reads_what_it_is_given_and_leaves_nothing() {
    let server = fake().await;
    let mut client = in_writing(&server).await;
    let kept = client.say("something").await;
    let input = json!([{"type": "item_reference", "id": kept}, message("assistant", "aha"), message("user", "recite")]);
    client
        .respond(json!({"conversation": "none", "input": input, "metadata": {"for": "me"}}))
        .await;
    let heard = client.heard().await;
    assert_eq!(heard.text, "user:something|assistant:aha|user:recite|");
    assert_eq!(heard.count("conversation.item.added"), 0);
    assert_eq!(
        (&heard.done["conversation_id"], &heard.done["metadata"]["for"]),
        (&Value::Null, &json!("me"))
    );
    assert_eq!(recited(&mut client).await, "user:something|user:recite|");
    client
        .respond(json!({"input": [{"type": "item_reference", "id": "no"}]}))
        .await;
    assert_eq!(client.error().await.0, "item_reference_invalid_item_id");
    server.stop().await;
}

#[tokio::test]
async fn an_answer_is_cut_to_what_was_heard_of_it() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    let heard = client
        .ask("say one two three four five six seven eight nine ten")
        .await;
    let all_ms = heard.audio.len() as u64 / 48;
    let truncate = |end_ms: u64, item: &str| json!({"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "audio_end_ms": end_ms});
    client.send(truncate(all_ms + 1_000, heard.item())).await;
    assert_eq!(
        client.error().await,
        ("invalid_value".to_owned(), json!("audio_end_ms"))
    );
    client.send(truncate(all_ms / 2, heard.item())).await;
    let truncated = client.expect("conversation.item.truncated").await;
    assert_eq!(truncated["audio_end_ms"], all_ms / 2);
    client
        .send(json!({"type": "conversation.item.retrieve", "item_id": heard.item()}))
        .await;
    let item = client.expect("conversation.item.retrieved").await["item"].clone();
    let kept = item["content"][0]["transcript"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(
        heard.transcript.starts_with(&kept) && !kept.is_empty() && kept.len() < heard.transcript.len(),
        "{kept:?}"
    );
    let recited = client.ask("recite").await;
    assert!(
        recited
            .transcript
            .contains(&format!("|assistant:{kept}|user:recite|")),
        "{}",
        recited.transcript
    );

    // An answer before the last one is cut in proportion; of one that has no audio there is nothing to cut.
    client.send(truncate(all_ms / 4, heard.item())).await;
    client.expect("conversation.item.truncated").await;
    client.send(truncate(0, heard.item())).await;
    client.expect("conversation.item.truncated").await;
    let last = client.ask("recite").await.transcript;
    assert!(
        last.starts_with("user:say one two three four five six seven eight nine ten|user:recite|"),
        "{last}"
    );
    server.stop().await;
}

#[tokio::test]
async fn cutting_the_answer_in_progress_stops_it_there() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    client.say("forever").await;
    client.respond(json!({})).await;
    let item = client.until("response.output_audio.delta").await["item_id"].clone();
    client
        .send(json!({"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "audio_end_ms": 20}))
        .await;
    let done = client.until("response.done").await["response"].clone();
    assert_eq!(
        (&done["status"], &done["output"][0]["id"]),
        (&json!("cancelled"), &item)
    );
    assert_eq!(
        client.expect("conversation.item.truncated").await["item_id"],
        item
    );
    // Truncated to the heard part.
    client
        .send(json!({"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "audio_end_ms": 21}))
        .await;
    assert_eq!(
        client.error().await,
        ("invalid_value".to_owned(), json!("audio_end_ms"))
    );
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_failed_is_cut_to_the_words_that_were_heard() {
    let script = FakeScript {
        thinker_fails_on: Some('%'),
        ..FakeScript::default()
    };
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut client = Client::connect(&server).await;
    // The text so far is spoken while the rest is awaited.
    script.thinker.close();
    client.say("say one two three four five six%").await;
    client.respond(json!({})).await;
    let words = "one two three four five six".len() as u64;
    // One step reads the conversation, and every other one writes a letter.
    script.thinker.allow(words);
    let mut spoken_ms = 0;
    let mut written = String::new();
    let item = loop {
        let event = client.event().await;
        let delta = event["delta"].as_str().unwrap_or_default();
        match event["type"].as_str().expect("a type") {
            "response.output_audio.delta" => spoken_ms += delta.len() as u64 * 3 / 4 / 48,
            "response.output_audio_transcript.delta" => written += delta,
            _ => {}
        }
        if spoken_ms > 600 && written.len() as u64 >= words - 1 {
            break event["item_id"].clone();
        }
    };
    script.thinker.open();
    let done = client.until("response.done").await["response"].clone();
    assert_eq!(done["status"], "failed");
    client
        .send(json!({"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "audio_end_ms": 500}))
        .await;
    client.until("conversation.item.truncated").await;
    client
        .send(json!({"type": "conversation.item.retrieve", "item_id": item}))
        .await;
    let retrieved = client.expect("conversation.item.retrieved").await["item"].clone();
    let kept = retrieved["content"][0]["transcript"].as_str().expect("text");
    assert!(
        !kept.is_empty() && kept.len() < written.len() && written.starts_with(kept),
        "{kept:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn an_interruption_and_the_cut_behind_it_keep_what_was_heard() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    client.say("forever").await;
    client.respond(json!({})).await;
    let mut ms = 0;
    let item = loop {
        let delta = client.until("response.output_audio.delta").await;
        ms += delta["delta"].as_str().expect("base64").len() as u64 * 3 / 4 / 48;
        if ms > 2_000 {
            break delta["item_id"].clone();
        }
    };
    client.send(json!({"type": "response.cancel"})).await;
    client
        .send(json!({"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "audio_end_ms": 1_000}))
        .await;
    client.until("conversation.item.truncated").await;
    let recited = client.ask("recite").await.transcript;
    let kept = recited
        .split("assistant:")
        .nth(1)
        .expect("it")
        .split('|')
        .next()
        .expect("it");
    assert!(
        "This goes on and on, and on. ".repeat(9).starts_with(kept) && !kept.is_empty(),
        "{kept:?}"
    );
    // A character takes 40 ms, so 25 are heard in a second; the aligner may be off by a word or two.
    assert!(kept.len() < 45, "{kept:?}");
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_item_is_told_what_is() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut client = Client::connect(&server).await;
    for (item, param) in [
        (json!({"type": "smoke"}), "item.type"),
        (
            json!({"type": "message", "role": "nobody", "content": []}),
            "item.role",
        ),
        (
            json!({"type": "message", "role": "user", "content": []}),
            "item.content",
        ),
        (
            json!({"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "a"}]}),
            "item.content.type",
        ),
        (
            json!({"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": "&"}]}),
            "item.content.audio",
        ),
        (
            json!({"type": "function_call_output", "output": "a"}),
            "item.call_id",
        ),
        (
            json!({"type": "function_call", "name": "f", "arguments": "no"}),
            "session.tools",
        ),
    ] {
        client
            .send(json!({"type": "conversation.item.create", "item": item}))
            .await;
        assert_eq!(client.error().await.1, param, "{item}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_a_model_lacks_is_refused_in_words_about_it() {
    let server = fake().await;
    let mut client = in_writing(&server).await;
    for (part, says) in [
        (
            json!({"type": "input_image", "image_url": "a"}),
            "fake does not see images; expected text",
        ),
        (
            json!({"type": "input_file", "file_id": "a"}),
            "fake does not read files; expected text",
        ),
        (
            json!({"type": "smoke"}),
            "expected input_text of the user, input_text of the system",
        ),
    ] {
        let content = json!([{"type": "input_text", "text": "look"}, part]);
        let item = json!({"type": "message", "role": "user", "content": content});
        client
            .send(json!({"type": "conversation.item.create", "item": item}))
            .await;
        let event = client.expect("error").await;
        let message = event["error"]["message"].as_str().expect("a message");
        assert!(message.contains(says), "{part}: {message}");
    }
    // An item that was refused is not there, and one in which nothing was written says nothing.
    client.create(message("user", ""), Value::Null).await;
    assert_eq!(recited(&mut client).await, "user:recite|");
    server.stop().await;
}

#[tokio::test]
async fn instructions_that_do_not_fit_are_cut_and_refused_by_a_strict_server() {
    let script = FakeScript {
        max_context: 400,
        ..FakeScript::default()
    };
    let long = "Be kind and brief. ".repeat(50);
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut client = in_writing(&server).await;
    client.update(json!({"instructions": long})).await;
    assert_eq!(client.ask("say it is whole").await.text, "it is whole");
    assert!(recited(&mut client).await.starts_with("system:Be kind"));
    server.stop().await;

    let server = TestServer::fake(script, &["--strict"]).await;
    let mut client = in_writing(&server).await;
    client.update(json!({"instructions": long})).await;
    let failed = client.ask("recite").await;
    assert_eq!(failed.status(), "failed");
    assert_eq!(
        failed.done["status_details"]["error"]["code"],
        "context_length_exceeded"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_realtime_model_of_any_name_of_its_kind_is_the_one_that_is_served() {
    let server = fake().await;
    for (model, opens) in [
        ("gpt-realtime-2.1-mini", true),
        ("gpt-realtime-9", true),
        ("gpt-4o-realtime-preview-2025-06-03", true),
        ("whisper-1", false),
        ("gpt-4o-transcribe", false),
        ("llama", false),
    ] {
        let opened = Client::open(&server, &format!("?model={model}"), &[]).await;
        match opened {
            Ok((mut client, _)) => {
                let created = client.expect("session.created").await;
                assert!(opens, "{model}");
                assert_eq!(created["session"]["model"], "fake");
            }
            Err(status) => assert_eq!((status, opens), (hyper::StatusCode::NOT_FOUND, false), "{model}"),
        }
    }
    server.stop().await;
}
