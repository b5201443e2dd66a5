//! Functions in chat completions: offers, calls and results.

use hyper::StatusCode;
use omni_tests::{FakeScript, HttpAnswer, TestServer, http};
use serde_json::{Value, json};

const CALL: &str = "say Let me look. <tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>\n\
                    <tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";

async fn chat(server: &TestServer, body: &Value) -> HttpAnswer {
    let headers = [("content-type", "application/json")];
    let answer = http(server, "POST", "/v1/chat/completions", &headers, body.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer
}

async fn choice(server: &TestServer, body: &Value) -> Value {
    let answer = chat(server, body).await;
    let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
    answer["choices"][0].clone()
}

fn tools() -> Value {
    json!([
        {"type": "function", "function": {"name": "weather", "description": "How it is.", "parameters":
            {"type": "object", "properties": {"city": {"type": "string"}, "at": {"type": "string"}}}}},
        {"type": "function", "function": {"name": "time"}},
    ])
}

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

#[tokio::test]
async fn a_model_is_offered_functions_and_asks_for_them() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let asked = choice(&server, &json!({"messages": user(CALL), "tools": tools()})).await;
    assert_eq!(asked["finish_reason"], "tool_calls");
    let message = &asked["message"];
    assert_eq!(message["content"], "Let me look.");
    let called = |index: usize| {
        let call = &message["tool_calls"][index];
        assert!(call["id"].as_str().is_some_and(|id| id.starts_with("call_")) && call["type"] == "function");
        let text = |field: &str| call["function"][field].as_str().expect("text").to_owned();
        (text("name"), text("arguments"))
    };
    assert_eq!(
        called(0),
        ("weather".to_owned(), "{\"city\": \"Oslo\"}".to_owned())
    );
    assert_eq!(called(1), ("time".to_owned(), "{}".to_owned()));
    assert_ne!(message["tool_calls"][0]["id"], message["tool_calls"][1]["id"]);

    let read = choice(&server, &json!({"messages": user("recite"), "tools": tools()})).await;
    let read = read["message"]["content"].as_str().expect("text").to_owned();
    let first = "<tool {\"type\": \"function\", \"function\": {\"name\": \"weather\", \"description\": \"How it is.\", \"parameters\": {";
    assert!(read.starts_with(&format!("system:{first}")), "{read}");

    let one = json!({"messages": user(CALL), "tools": tools(), "parallel_tool_calls": false});
    let one = choice(&server, &one).await;
    assert_eq!(one["message"]["tool_calls"].as_array().map(Vec::len), Some(1));
    server.stop().await;
}

#[tokio::test]
async fn a_stream_tells_of_functions_as_deltas() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let answer = chat(
        &server,
        &json!({"messages": user(CALL), "tools": tools(), "stream": true}),
    )
    .await;
    let text = String::from_utf8(answer.body).expect("text");
    let events = text
        .split_terminator("\n\n")
        .filter_map(|event| event.strip_prefix("data: {"));
    let events: Vec<Value> = events
        .map(|event| serde_json::from_str(&format!("{{{event}")).expect("JSON"))
        .collect();
    let deltas = events.iter().map(|event| &event["choices"][0]["delta"]);
    let words: String = deltas
        .clone()
        .filter_map(|delta| delta["content"].as_str())
        .collect();
    assert_eq!(words, "Let me look.");
    let calls: Vec<_> = deltas
        .filter_map(|delta| delta["tool_calls"].as_array())
        .flatten()
        .collect();
    let told = calls
        .iter()
        .map(|call| (call["index"].as_u64(), call["function"]["name"].as_str()));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [(Some(0), Some("weather")), (Some(1), Some("time"))]
    );
    assert_eq!(
        events.last().expect("events")["choices"][0]["finish_reason"],
        "tool_calls"
    );
    server.stop().await;
}

#[tokio::test]
async fn what_functions_gave_goes_back_to_the_model() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}});
    let messages = json!([
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "How is it?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        {"role": "user", "content": "recite"},
    ]);
    let read = choice(&server, &json!({"messages": messages, "tools": tools()})).await;
    let read = read["message"]["content"].as_str().expect("text").to_owned();
    assert!(read.starts_with("system:Be kind.<tool {"), "{read}");
    assert!(
        read.contains("assistant:<call weather {\"city\": \"Oslo\"}>|user:<result rain>|user:recite|"),
        "{read}"
    );
    server.stop().await;
}

#[tokio::test]
async fn what_looks_like_a_call_is_text_where_no_function_was_offered() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for more in [json!({}), json!({"tools": tools(), "tool_choice": "none"})] {
        let mut body = json!({"messages": user(CALL)});
        body.as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("one").clone());
        let answer = choice(&server, &body).await;
        assert_eq!(answer["finish_reason"], "stop");
        assert!(
            answer["message"]["content"]
                .as_str()
                .is_some_and(|text| text.contains("<tool_call>"))
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_choice_that_cannot_be_forced_is_said_to_be_ignored() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let named = json!({"type": "function", "function": {"name": "time"}});
    for choice in [json!("required"), named] {
        let is_named = choice.is_object();
        let body = json!({"messages": user("recite"), "tools": tools(), "tool_choice": choice});
        let answer = chat(&server, &body).await;
        assert_eq!(answer.header("x-omni-ignored"), "tool_choice");
        let text = String::from_utf8(answer.body).expect("text");
        assert_eq!(
            text.contains("weather"),
            !is_named,
            "only the one that is named is offered: {text}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_call_is_not_spoken() {
    for speaks_words in [false, true] {
        let script = FakeScript {
            speaks_words,
            ..FakeScript::default()
        };
        let server = TestServer::fake(script, &[]).await;
        let spoken = async |text: &str, tools: Value| {
            let body = json!({"messages": user(text), "tools": tools, "seed": 5,
                "modalities": ["text", "audio"], "audio": {"voice": "alto", "format": "pcm16"}});
            let answer = choice(&server, &body).await;
            answer["message"]["audio"]["data"].as_str().map_or(0, str::len)
        };
        let plain = spoken("say Let me look.", json!([])).await;
        assert!(plain > 0);
        let called = spoken(CALL, tools()).await;
        let aloud = spoken(CALL, json!([])).await;
        // The blank before the call may be spoken, as one token.
        assert!(
            called < aloud && called <= plain + plain / 4,
            "{plain}, {called}, {aloud}"
        );
        server.stop().await;
    }
}
