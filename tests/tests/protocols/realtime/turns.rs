//! Turns by text: settings, answers aloud and in writing, what stops them, and functions.

use omni_tests::{FakeScript, TestServer};
use serde_json::{Value, json};

use super::{Client, Heard, fake, over, requests};

#[tokio::test]
async fn settings_in_force_are_told_and_partly_changed() {
    let server = fake().await;
    let mut client = Client::open(&server, "?model=fake", &[])
        .await
        .expect("accepted")
        .0;
    let created = client.expect("session.created").await["session"].clone();
    assert_eq!(
        (&created["type"], &created["model"], &created["output_modalities"]),
        (&json!("realtime"), &json!("fake"), &json!(["audio"]))
    );
    let pcm = json!({"type": "audio/pcm", "rate": 24_000});
    assert_eq!(created["audio"]["input"]["format"], pcm);
    assert_eq!(created["audio"]["input"]["turn_detection"]["type"], "server_vad");
    assert_eq!(created["audio"]["output"]["voice"], "alto");

    let updated = client
        .update(json!({
            "instructions": "Be brief.",
            "audio": {"input": {"turn_detection": null}, "output": {"voice": "bass", "format": {"type": "audio/pcmu"}}},
            "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}],
            "unknown": 1,
        }))
        .await;
    assert_eq!(updated["instructions"], "Be brief.");
    assert_eq!(updated["audio"]["input"]["turn_detection"], Value::Null);
    assert_eq!(
        updated["audio"]["input"]["format"], pcm,
        "what is not named stays"
    );
    assert_eq!(updated["audio"]["output"]["voice"], "bass");
    assert_eq!(
        updated["audio"]["output"]["format"],
        json!({"type": "audio/pcmu"})
    );
    assert_eq!(updated["tools"][0]["parameters"], json!({"type": "object"}));

    let again = client.update(json!({"max_output_tokens": 50})).await;
    assert_eq!(
        (&again["max_output_tokens"], &again["instructions"]),
        (&json!(50), &json!("Be brief."))
    );
    server.stop().await;
}

#[tokio::test]
async fn an_answer_aloud_comes_with_all_its_events_in_their_order() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    client.say("say Hello there.").await;
    client.respond(json!({"metadata": {"topic": "greeting"}})).await;
    let heard = client.heard().await;
    assert_eq!(
        (heard.status(), heard.transcript.as_str()),
        ("completed", "Hello there.")
    );
    assert!(!heard.audio.is_empty() && heard.audio.len() % 2 == 0);
    assert_eq!(
        heard.kinds[..4],
        [
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added"
        ]
    );
    let tail = heard.kinds.len() - 6;
    assert_eq!(
        heard.kinds[tail..],
        [
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "response.output_item.done",
            "conversation.item.done",
            "response.done"
        ]
    );
    let between = &heard.kinds[4..tail];
    assert!(
        between
            .iter()
            .all(|kind| kind.ends_with("audio.delta") || kind.ends_with("transcript.delta")),
        "{between:?}"
    );
    let done = &heard.done;
    let content = json!([{"type": "output_audio", "transcript": "Hello there."}]);
    assert_eq!(done["output"][0]["content"], content);
    assert_eq!(done["output"][0]["status"], "completed");
    assert_eq!(done["metadata"], json!({"topic": "greeting"}));
    assert!(done["usage"]["output_token_details"]["audio_tokens"].as_u64() > Some(0));
    assert!(done["conversation_id"].is_string());

    // The conversation continues.
    let recited = client.ask("recite").await;
    assert_eq!(
        recited.transcript,
        "user:say Hello there.|assistant:Hello there.|user:recite|"
    );
    drop(client);
    server.chats_over(2).await;
    assert_eq!(requests(&server, "ok").await, 2.0);
    server.stop().await;
}

#[tokio::test]
async fn an_answer_in_writing_has_no_audio() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    client.say("say Hello.").await;
    client.respond(json!({"output_modalities": ["text"]})).await;
    let heard = client.heard().await;
    assert_eq!(
        (heard.text.as_str(), heard.audio.len(), heard.transcript.as_str()),
        ("Hello.", 0, "")
    );
    assert_eq!(heard.count("response.output_text.done"), 1);
    assert_eq!(
        heard.done["output"][0]["content"],
        json!([{"type": "output_text", "text": "Hello."}])
    );
    // The session's own settings are as before.
    assert!(!client.ask("say Hello.").await.audio.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn telephones_get_one_byte_per_sample_at_eight_kilohertz() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    let pcm = client.ask("say Hello there.").await.audio.len();
    for format in ["audio/pcmu", "audio/pcma"] {
        client
            .update(json!({"audio": {"output": {"format": {"type": format}}}}))
            .await;
        let law = client.ask("say Hello there.").await.audio.len();
        assert!(law.abs_diff(pcm / 6) <= 2, "{law} and {pcm}");
    }
    server.stop().await;
}

#[tokio::test]
async fn instructions_of_the_session_and_of_one_response_come_first() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    client
        .update(json!({"instructions": "Be kind.", "output_modalities": ["text"]}))
        .await;
    let system = json!({"type": "message", "role": "system", "content": [{"type": "input_text", "text": "It rains."}]});
    client.say("recite").await;
    client.create(system, Value::Null).await;
    client.respond(json!({})).await;
    assert_eq!(
        client.heard().await.text,
        "system:Be kind.\n\nIt rains.|user:recite|"
    );
    client.say("recite").await;
    client
        .respond(json!({"instructions": "Be rude.", "conversation": "none"}))
        .await;
    let rude = client.heard().await.text;
    assert!(
        rude.starts_with("system:Be rude.\n\nIt rains.|user:recite|assistant:"),
        "{rude}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_response_that_is_cancelled_ends_as_that_and_the_conversation_goes_on() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    client
        .send(json!({"type": "response.cancel", "event_id": "mine"}))
        .await;
    let refused = client.expect("error").await["error"].clone();
    assert_eq!(
        (&refused["code"], &refused["event_id"]),
        (&json!("response_cancel_not_active"), &json!("mine"))
    );
    assert!(
        refused["message"]
            .as_str()
            .expect("a message")
            .starts_with("Cancellation failed")
    );

    client.say("forever").await;
    client.respond(json!({})).await;
    client.until("response.output_audio.delta").await;
    client.respond(json!({})).await;
    let second = client.until("error").await["error"].clone();
    assert_eq!(second["code"], "conversation_already_has_active_response");
    client.send(json!({"type": "response.cancel"})).await;
    // The next question finds a complete conversation.
    client
        .send(json!({"type": "response.create", "response": {"input": []}}))
        .await;
    let heard = client.heard().await;
    assert_eq!(heard.status(), "cancelled");
    assert_eq!(
        heard.done["status_details"],
        json!({"type": "cancelled", "reason": "client_cancelled"})
    );
    assert_eq!(heard.done["output"][0]["status"], "incomplete");
    assert_eq!(client.heard().await.status(), "completed");
    drop(client);
    over(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_reaches_its_limit_is_incomplete() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    client.update(json!({"max_output_tokens": 5})).await;
    let heard = client.ask("say Hello there.").await;
    assert_eq!(
        (heard.status(), heard.transcript.as_str()),
        ("incomplete", "Hello")
    );
    assert_eq!(heard.done["status_details"]["reason"], "max_output_tokens");
    server.stop().await;
}

#[tokio::test]
async fn a_response_that_fails_says_why_and_the_next_one_does_not() {
    let script = FakeScript {
        thinker_fails_on: Some('%'),
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let mut client = Client::connect(&server).await;
    let failed = client.ask("say a%").await;
    assert_eq!(failed.status(), "failed");
    assert_eq!(failed.done["status_details"]["error"]["code"], "stage_failed");
    client.respond(json!({"input": []})).await;
    assert_eq!(client.heard().await.status(), "completed");
    assert_eq!(requests(&server, "error").await, 1.0);
    server.stop().await;
}

#[tokio::test]
async fn functions_are_asked_for_and_what_they_gave_is_read() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    let tool = json!({"type": "function", "name": "weather", "parameters": {"type": "object"}});
    client
        .update(json!({"tools": [tool], "output_modalities": ["text"]}))
        .await;
    let question = "say Let me look. <tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
    let heard = client.ask(question).await;
    assert_eq!(heard.text, "Let me look.");
    assert_eq!(heard.count("response.function_call_arguments.done"), 1);
    let call = &heard.done["output"][1];
    assert_eq!(
        (&call["type"], &call["name"]),
        (&json!("function_call"), &json!("weather"))
    );
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().expect("text")).expect("JSON");
    assert_eq!(arguments, json!({"city": "Oslo"}));

    let output = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "rain"});
    client.create(output, Value::Null).await;
    client.respond(json!({})).await;
    assert_eq!(client.heard().await.text, "You said: <result rain>");
    let recited = client.ask("recite").await.text;
    let expected = "|assistant:Let me look.<call weather {\"city\": \"Oslo\"}>|user:<result rain>|";
    assert!(
        recited.contains(expected) && recited.starts_with("system:<tool {"),
        "{recited}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_model_that_calls_no_functions_is_offered_none() {
    let script = FakeScript {
        no_tools: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut client = Client::connect(&server).await;
    let tools = json!([{"type": "function", "name": "f"}]);
    let updated = client.update(json!({"tools": tools})).await;
    assert_eq!(updated["tools"], json!([]));
    assert_eq!(client.ask("say Hello.").await.transcript, "Hello.");
    server.stop().await;

    let server = TestServer::fake(script, &["--strict"]).await;
    let mut client = Client::connect(&server).await;
    client
        .send(json!({"type": "session.update", "session": {"type": "realtime", "tools": tools}}))
        .await;
    assert_eq!(client.error().await.1, "session.tools");
    server.stop().await;
}

/// The spoken answer to a question, limited to `tokens` tokens.
async fn cut_short(client: &mut Client, question: &str, tokens: usize) -> Heard {
    client.update(json!({"max_output_tokens": tokens})).await;
    client.ask(question).await
}

#[tokio::test]
async fn a_call_that_is_cut_short_is_neither_spoken_nor_written() {
    let script = FakeScript {
        thinker_fails_on: Some('%'),
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let mut client = Client::connect(&server).await;
    let tool = json!({"type": "function", "name": "weather"});
    client.update(json!({"tools": [tool]})).await;
    let question = "say Let me look. <tool_call>{\"name\": \"weather\"}</tool_call>";
    let words = "Let me look. ".len();
    let bytes = {
        let heard = cut_short(&mut client, question, words).await;
        assert_eq!(
            (heard.status(), heard.transcript.as_str()),
            ("incomplete", "Let me look.")
        );
        heard.audio.len()
    };
    for more in [6, 15, 20] {
        let heard = cut_short(&mut client, question, words + more).await;
        assert_eq!(
            (heard.status(), heard.transcript.as_str()),
            ("incomplete", "Let me look.")
        );
        assert_eq!(heard.audio.len(), bytes, "{more}");
        assert_eq!(
            heard.done["output"].as_array().map(Vec::len),
            Some(1),
            "{heard:?}"
        );
    }
    let failed = cut_short(&mut client, "say Look. <tool_call>{\"name%", 1_000).await;
    assert!(
        failed.status() == "failed" && "Look.".starts_with(&failed.transcript),
        "{failed:?}"
    );
    // A call that only lacks its end is whole.
    let heard = cut_short(&mut client, question, question.len() - "say </tool_call>".len()).await;
    assert_eq!(heard.done["output"][1]["name"], "weather");
    server.stop().await;
}
