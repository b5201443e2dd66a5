//! Keys, bounds, and clients that do not behave.

use std::fs;

use futures::SinkExt as _;
use hyper::StatusCode;
use omni_config::{Quotas, Scope, new_key};
use omni_tests::{FakeScript, TestServer, http};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::{Client, PATH, fake, over, requests};

#[tokio::test]
async fn keys_come_by_header_and_from_pages_by_subprotocol() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let (key, line) = new_key("chatty", &[Scope::Chat], &Quotas::default()).expect("random bytes");
    let (speaker, other) = new_key("speaker", &[Scope::Speech], &Quotas::default()).expect("random bytes");
    fs::write(&file, format!("{line}\n{other}\n")).unwrap();
    let server = TestServer::fake(
        FakeScript::default(),
        &["--api-keys", file.to_str().expect("text")],
    )
    .await;
    let refused = async |headers: &[(&str, &str)]| Client::open(&server, "", headers).await.err();
    assert_eq!(refused(&[]).await, Some(StatusCode::UNAUTHORIZED));
    let speaker = format!("Bearer {speaker}");
    assert_eq!(
        refused(&[("authorization", &speaker)]).await,
        Some(StatusCode::FORBIDDEN)
    );
    let bearer = format!("Bearer {key}");
    let offered = format!("realtime, openai-insecure-api-key.{key}");
    for (headers, protocol) in [
        ([("authorization", bearer.as_str())], None),
        ([("sec-websocket-protocol", offered.as_str())], Some("realtime")),
    ] {
        let (mut client, answered) = Client::open(&server, "", &headers).await.expect("it is accepted");
        assert_eq!(answered.as_deref(), protocol);
        client.expect("session.created").await;
        assert_eq!(client.ask("say Hello.").await.transcript, "Hello.");
    }
    server.stop().await;
}

#[tokio::test]
async fn other_models_other_pages_and_what_is_no_websocket_are_refused() {
    let server = fake().await;
    let unknown = Client::open(&server, "?model=another%2Fmodel", &[]).await.err();
    assert_eq!(unknown, Some(StatusCode::NOT_FOUND));
    let foreign = [("origin", "https://evil.example")];
    assert_eq!(
        Client::open(&server, "", &foreign).await.err(),
        Some(StatusCode::FORBIDDEN)
    );
    let plain = http(&server, "GET", PATH, &[], "").await;
    assert_eq!(plain.status, StatusCode::UPGRADE_REQUIRED);
    // A page is not shown the answer to its WebSocket, and asks why it was refused by a plain request.
    let why = http(&server, "GET", &format!("{PATH}?model=another%2Fmodel"), &[], "").await;
    assert_eq!(why.status, StatusCode::NOT_FOUND);
    assert_eq!(server.app.sessions(), 0);
    // What clients ask for unless told otherwise.
    assert!(Client::open(&server, "?model=gpt-realtime", &[]).await.is_ok());
    server.stop().await;

    let silent = FakeScript {
        speech_only: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(silent, &[]).await;
    assert_eq!(
        Client::open(&server, "", &[]).await.err(),
        Some(StatusCode::NOT_FOUND)
    );
    server.stop().await;
}

#[tokio::test]
async fn what_is_refused_is_told_by_its_name_and_the_connection_goes_on() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    client.0.send(Message::binary(vec![1, 2])).await.unwrap();
    assert_eq!(client.error().await.0, "invalid_event");
    for (text, code, param) in [
        ("{", "invalid_event", Value::Null),
        (r#"{"type":"smoke"}"#, "unknown_event", json!("type")),
        (
            r#"{"type":"input_audio_buffer.smoke"}"#,
            "unknown_event",
            json!("type"),
        ),
        (
            r#"{"type":"conversation.item.smoke"}"#,
            "unknown_event",
            json!("type"),
        ),
        (r#"{"type":"response.smoke"}"#, "unknown_event", json!("type")),
        (
            r#"{"type":"output_audio_buffer.clear"}"#,
            "unsupported_event",
            json!("type"),
        ),
        (
            r#"{"type":"input_audio_buffer.append","audio":"&&"}"#,
            "invalid_value",
            json!("audio"),
        ),
        (
            r#"{"type":"input_audio_buffer.append","audio":"AA=="}"#,
            "invalid_field",
            json!("audio"),
        ),
        (
            r#"{"type":"input_audio_buffer.commit"}"#,
            "input_audio_buffer_commit_empty",
            Value::Null,
        ),
    ] {
        client.0.send(Message::text(text)).await.unwrap();
        assert_eq!(client.error().await, (code.to_owned(), param), "{text}");
    }
    let turns = |value: Value| json!({"audio": {"input": {"turn_detection": value}}});
    for (session, param) in [
        (json!({"type": "transcription"}), "session.type"),
        (json!({"model": "another"}), "session.model"),
        (
            json!({"output_modalities": ["audio", "smell"]}),
            "session.output_modalities",
        ),
        (
            turns(json!({"threshold": 2})),
            "session.audio.input.turn_detection.threshold",
        ),
        (
            json!({"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16_000}}}}),
            "session.audio.input.format.rate",
        ),
        (
            json!({"audio": {"output": {"format": {"type": "audio/mp3"}}}}),
            "session.audio.output.format.type",
        ),
        (
            json!({"audio": {"output": {"voice": "zz"}}}),
            "session.audio.output.voice",
        ),
        (
            json!({"audio": {"output": {"speed": 90}}}),
            "session.audio.output.speed",
        ),
        (json!({"max_output_tokens": 0}), "session.max_output_tokens"),
    ] {
        client
            .send(json!({"type": "session.update", "session": session}))
            .await;
        assert_eq!(client.error().await.1, param, "{session}");
    }
    for (response, param) in [
        (json!({"conversation": "conv_1"}), "response.conversation"),
        (
            json!({"audio": {"output": {"voice": "zz"}}}),
            "response.audio.output.voice",
        ),
        (json!({"metadata": {"a": "b".repeat(600)}}), "response.metadata"),
    ] {
        client.respond(response).await;
        assert_eq!(client.error().await.1, param);
    }
    assert_eq!(client.ask("say Hello.").await.transcript, "Hello.");
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_nothing_behind() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    for politely in [false, true] {
        let mut client = Client::connect(&server).await;
        client.say("forever").await;
        client.respond(json!({})).await;
        client.until("response.output_audio.delta").await;
        if politely {
            client.0.close(None).await.expect("a close frame");
        }
        drop(client);
        over(&server).await;
    }
    assert_eq!(requests(&server, "cancelled").await, 2.0);
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_stops_reading_is_let_go() {
    let server = TestServer::fake(FakeScript::default(), &["--stall-timeout", "50ms"]).await;
    let mut client = Client::connect(&server).await;
    client.say("forever").await;
    client.respond(json!({})).await;
    client.until("response.created").await;
    over(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn messages_without_end_end_the_connection() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    let long = json!({"type": "input_audio_buffer.append", "audio": "A".repeat(2 << 20)});
    let _ = client.0.send(Message::text(long.to_string())).await;
    client.expect("error").await;
    assert_eq!(client.event().await["code"], 1009);
    over(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn sessions_are_bounded_as_those_of_other_callers() {
    let server = TestServer::fake(FakeScript::default(), &["--max-sessions", "1"]).await;
    let mut first = Client::connect(&server).await;
    let second = Client::open(&server, "", &[]).await.err();
    assert_eq!(second, Some(StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(first.ask("say Hello.").await.transcript, "Hello.");
    server.stop().await;
}

#[tokio::test]
async fn a_session_that_is_idle_ends_with_its_reason() {
    let server = TestServer::fake(FakeScript::default(), &["--idle-timeout", "100ms"]).await;
    let mut client = Client::connect(&server).await;
    assert_eq!(client.error().await.0, "session_idle");
    assert_eq!(client.event().await["code"], 1008);
    over(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_ends_finishes_the_response_in_progress() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut client = Client::connect(&server).await;
    script.code2wav.close();
    client.say("say Hello.").await;
    client.respond(json!({})).await;
    client.until("response.created").await;
    let ending = tokio::spawn(server.app.shut_down(std::future::pending()));
    script.code2wav.open();
    assert_eq!(client.heard().await.status(), "completed");
    client.expect("error").await;
    assert_eq!(client.event().await["code"], 1001);
    ending.await.expect("it ends");
}

fn system(bytes: usize) -> Value {
    json!({"type": "message", "role": "system", "content": [{"type": "input_text", "text": "a".repeat(bytes)}]})
}

#[tokio::test]
async fn settings_that_no_response_could_be_given_with_are_refused_when_they_come() {
    let server = TestServer::fake(FakeScript::default(), &["--max-text-bytes", "1000"]).await;
    let mut client = Client::connect(&server).await;
    client.update(json!({"instructions": "b".repeat(500)})).await;
    client.create(system(300), Value::Null).await;
    let create = json!({"type": "conversation.item.create", "item": system(300)});
    client.send(create).await;
    let too_long = |param: &str| ("text_too_long".to_owned(), json!(param));
    assert_eq!(client.error().await, too_long("item.content"));
    let update = |session: Value| json!({"type": "session.update", "session": session});
    client
        .send(update(json!({"instructions": "b".repeat(800)})))
        .await;
    assert_eq!(client.error().await, too_long("session.instructions"));
    client
        .send(update(json!({"tools": [{"type": "function"}]})))
        .await;
    assert_eq!(client.error().await.1, "session.tools");
    client.say("say Hello.").await;
    client.respond(json!({"instructions": "b".repeat(800)})).await;
    assert_eq!(client.error().await, too_long("response.instructions"));
    client.respond(json!({})).await;
    assert_eq!(client.heard().await.status(), "completed");
    server.stop().await;
}

#[tokio::test]
async fn names_that_items_keep_are_bounded() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    let long = "a".repeat(129);
    for (item, param) in [
        (
            json!({"id": long, "type": "message", "role": "user", "content": []}),
            "item.id",
        ),
        (
            json!({"type": "function_call", "name": "f", "arguments": "{}", "call_id": long}),
            "item.call_id",
        ),
        (
            json!({"type": "function_call_output", "output": "a", "call_id": long}),
            "item.call_id",
        ),
    ] {
        client
            .send(json!({"type": "conversation.item.create", "item": item}))
            .await;
        assert_eq!(client.error().await.1, param);
    }
    let call = json!({"id": "mine", "type": "function_call", "name": "f", "arguments": "{}"});
    client.create(call, Value::Null).await;
    client
        .send(json!({"type": "conversation.item.retrieve", "item_id": "mine"}))
        .await;
    let item = client.expect("conversation.item.retrieved").await["item"].clone();
    assert_eq!(item["call_id"], "call_mine");
    server.stop().await;
}

/// Unsupported settings, with the names in the answer.
fn hints() -> Vec<(Value, &'static [&'static str])> {
    let input = |value: Value| json!({"audio": {"input": value}});
    let turns = |value: Value| input(json!({"turn_detection": value}));
    vec![
        (
            turns(
                json!({"type": "semantic_vad", "eagerness": "low", "create_response": true, "interrupt_response": true}),
            ),
            &[
                "session.audio.input.turn_detection.eagerness",
                "session.audio.input.turn_detection.type",
            ],
        ),
        (
            turns(json!({"type": "semantic_vad"})),
            &["session.audio.input.turn_detection.type"],
        ),
        (
            turns(json!({"type": "smart_turn"})),
            &["session.audio.input.turn_detection.type"],
        ),
        (
            turns(json!({"type": "server_vad", "idle_timeout_ms": 6_000})),
            &["session.audio.input.turn_detection.idle_timeout_ms"],
        ),
        (
            input(json!({"noise_reduction": {"type": "near_field"}})),
            &["session.audio.input.noise_reduction"],
        ),
        (
            input(json!({"transcription": {"model": "whisper-1", "language": "en", "prompt": "names"}})),
            &[
                "session.audio.input.transcription.language",
                "session.audio.input.transcription.prompt",
            ],
        ),
        (
            json!({"include": ["item.input_audio_transcription.logprobs"]}),
            &["session.include"],
        ),
        (json!({"tracing": "auto"}), &["session.tracing"]),
        (json!({"prompt": {"id": "pmpt_1"}}), &["session.prompt"]),
        (json!({"truncation": "disabled"}), &["session.truncation"]),
        (
            json!({"truncation": {"type": "retention_ratio", "retention_ratio": 0.5}}),
            &["session.truncation"],
        ),
        (json!({"tool_choice": "required"}), &["session.tool_choice"]),
        (
            json!({"tool_choice": {"type": "mcp", "server_label": "a"}}),
            &["session.tool_choice", "session.tool_choice.server_label"],
        ),
        (
            json!({"tools": [{"type": "mcp", "server_label": "a"}]}),
            &["session.tools", "session.tools.server_label"],
        ),
        (
            json!({"output_modalities": ["text", "audio"]}),
            &["session.output_modalities"],
        ),
        (
            json!({"temperature": 0.8, "modalities": ["audio"]}),
            &["session.modalities", "session.temperature"],
        ),
        (turns(json!({"type": "server_vad", "idle_timeout_ms": null})), &[]),
        (
            json!({
                "tracing": null, "prompt": null, "include": null, "truncation": "auto", "tools": [], "tool_choice": "auto",
                "id": "sess_1", "object": "realtime.session",
                "audio": {"input": {"noise_reduction": null, "transcription": null}},
            }),
            &[],
        ),
    ]
}

#[tokio::test]
async fn a_setting_that_cannot_be_followed_does_not_lose_the_others() {
    let server = fake().await;
    for (nth, (setting, names)) in hints().into_iter().enumerate() {
        let mut client = Client::connect(&server).await;
        let mut session = json!({"type": "realtime", "instructions": format!("Be brief {nth}.")});
        let fields = session.as_object_mut().expect("an object");
        fields.extend(setting.as_object().expect("an object").clone());
        client
            .send(json!({"type": "session.update", "session": session}))
            .await;
        let updated = client.expect("session.updated").await;
        assert_eq!(
            updated["session"]["instructions"], session["instructions"],
            "{session}"
        );
        let mut ignored: Vec<_> = updated["ignored"].as_array().cloned().unwrap_or_default();
        ignored.sort_by_key(ToString::to_string);
        assert_eq!(json!(ignored), json!(names), "{session}");
        let turns = &updated["session"]["audio"]["input"]["turn_detection"];
        assert_eq!(turns["type"], "server_vad", "{updated}");
        // A setting of a response alone is named by its own path.
        client.say("recite").await;
        let mut response = setting.clone();
        response["instructions"] = json!("Be kind.");
        client.respond(response).await;
        let created = client.until("response.created").await;
        let ignored = created["ignored"].as_array().cloned().unwrap_or_default();
        assert_eq!(ignored.len(), names.len(), "{created}");
        let own = |name: &Value| name.as_str().is_some_and(|name| name.starts_with("response."));
        assert!(ignored.iter().all(own), "{created}");
        let heard = client.heard().await;
        assert!(heard.transcript.contains("Be kind."), "{heard:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_strict_server_refuses_settings_that_it_cannot_follow() {
    let server = TestServer::fake(FakeScript::default(), &["--strict"]).await;
    for (setting, names) in hints() {
        let mut client = Client::connect(&server).await;
        client
            .send(json!({"type": "session.update", "session": setting}))
            .await;
        if names.is_empty() {
            _ = client.expect("session.updated").await;
        } else {
            let param = client.error().await.1;
            assert!(names.iter().any(|name| param == *name), "{param} of {setting}");
        }
    }
    server.stop().await;
}
