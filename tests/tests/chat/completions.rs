//! Chat completions: every form of client messages, unsupported features, parameters, and limits of length.

use hyper::StatusCode;
use omni_tests::{FakeScript, HttpAnswer, TestServer, http};
use serde_json::{Value, json};

async fn chat(server: &TestServer, body: &Value) -> HttpAnswer {
    let headers = [("content-type", "application/json")];
    http(server, "POST", "/v1/chat/completions", &headers, body.to_string()).await
}

fn parsed(answer: &HttpAnswer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("no JSON: {answer:?}"))
}

/// The words of an answer.
fn words(answer: &HttpAnswer) -> String {
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let answer = parsed(answer);
    let words = answer["choices"][0]["message"]["content"].as_str();
    words.expect("words").to_owned()
}

/// Message and field of a refusal.
fn refused(answer: &HttpAnswer) -> (String, Value) {
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");
    let error = parsed(answer)["error"].clone();
    let message = error["message"].as_str().expect("a message").to_owned();
    (message, error["param"].clone())
}

fn message(role: &str, content: Value) -> Value {
    Value::from_iter([("role", json!(role)), ("content", content)])
}

fn user(content: Value) -> Value {
    message("user", content)
}

fn assistant(content: Value) -> Value {
    message("assistant", content)
}

fn system(content: Value) -> Value {
    message("system", content)
}

fn recite() -> Value {
    user(json!("recite"))
}

#[tokio::test]
async fn every_form_of_a_conversation_is_read() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}});
    let text = |text: &str| json!({"type": "text", "text": text});
    for (messages, read) in [
        // Instructions that are not first, and several.
        (
            vec![user(json!("hi")), system(json!("be kind")), recite()],
            "system:be kind|user:hi|user:recite|",
        ),
        (
            vec![
                system(json!("be kind")),
                user(json!("hi")),
                assistant(json!("hello")),
                json!({"role": "developer", "content": [text("be "), text("brief")]}),
                recite(),
            ],
            "system:be kind\n\nbe brief|user:hi|assistant:hello|user:recite|",
        ),
        (
            vec![recite(), system(json!("be kind"))],
            "system:be kind|user:recite|",
        ),
        (
            vec![
                system(json!("a")),
                system(json!("")),
                system(json!("b")),
                recite(),
            ],
            "system:a\n\nb|user:recite|",
        ),
        (vec![system(json!("")), recite()], "user:recite|"),
        (
            vec![
                json!({"role": "system", "content": "a", "name": "operator"}),
                recite(),
            ],
            "system:a|user:recite|",
        ),
        // Turns that do not alternate.
        (
            vec![user(json!("a")), user(json!("b")), recite()],
            "user:a|user:b|user:recite|",
        ),
        (
            vec![assistant(json!("hello")), assistant(json!("there")), recite()],
            "assistant:hello|assistant:there|user:recite|",
        ),
        (
            vec![recite(), assistant(json!("I beg"))],
            "user:recite|assistant:I beg|",
        ),
        // Messages that say nothing.
        (
            vec![user(json!("a")), assistant(json!("")), recite()],
            "user:a|user:recite|",
        ),
        (
            vec![user(json!("a")), assistant(json!(null)), recite()],
            "user:a|user:recite|",
        ),
        (
            vec![user(json!("a")), json!({"role": "assistant"}), recite()],
            "user:a|user:recite|",
        ),
        (
            vec![user(json!("a")), assistant(json!([])), recite()],
            "user:a|user:recite|",
        ),
        (
            vec![user(json!("a")), assistant(json!([text("")])), recite()],
            "user:a|user:recite|",
        ),
        (
            vec![user(json!("")), assistant(json!("b")), recite()],
            "assistant:b|user:recite|",
        ),
        // Text in parts, names, and refusals.
        (vec![user(json!([text("reci"), text("te")]))], "user:recite|"),
        (
            vec![json!({"role": "user", "content": "a", "name": "Ann"}), recite()],
            "user:a|user:recite|",
        ),
        (
            vec![
                assistant(json!([text("I "), {"type": "refusal", "refusal": "won't"}])),
                recite(),
            ],
            "assistant:I won't|user:recite|",
        ),
        (
            vec![
                json!({"role": "assistant", "content": null, "refusal": "I won't"}),
                recite(),
            ],
            "assistant:I won't|user:recite|",
        ),
        (
            vec![
                json!({"role": "assistant", "content": "hi", "refusal": null, "annotations": [], "audio": null}),
                recite(),
            ],
            "assistant:hi|user:recite|",
        ),
        // Functions, as they are and as they were.
        (
            vec![
                json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                json!({"role": "tool", "tool_call_id": "c1", "content": [text("it "), text("rains")]}),
                recite(),
            ],
            "assistant:<call f {\"a\": 1}>|user:<result it rains>|user:recite|",
        ),
        (
            vec![
                json!({"role": "assistant", "content": "I look.", "tool_calls": [call], "function_call": null}),
                json!({"role": "tool", "tool_call_id": "c1", "content": ""}),
                recite(),
            ],
            "assistant:I look.<call f {\"a\": 1}>|user:<result >|user:recite|",
        ),
        (
            vec![
                json!({"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}}),
                json!({"role": "function", "name": "f", "content": "it rains"}),
                recite(),
            ],
            "assistant:<call f {}>|user:<result it rains>|user:recite|",
        ),
        (
            vec![
                json!({"role": "tool", "tool_call_id": "x", "content": null}),
                recite(),
            ],
            "user:<result >|user:recite|",
        ),
    ] {
        let answer = chat(&server, &json!({"messages": messages})).await;
        assert_eq!(words(&answer), read, "{messages:?}");
        assert_eq!(answer.header("x-omni-ignored"), "", "{messages:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_conversation_without_a_word_of_the_user_is_answered() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for messages in [
        json!([user(json!(""))]),
        json!([user(json!(null))]),
        json!([user(json!([]))]),
        json!([user(json!("hi")), assistant(json!("hello")), user(json!(""))]),
        json!([system(json!(""))]),
        json!([system(json!("Greet me."))]),
        json!([assistant(json!("Hello."))]),
        json!([assistant(json!(null))]),
    ] {
        let answer = chat(&server, &json!({"messages": messages})).await;
        assert_eq!(answer.status, StatusCode::OK, "{messages}: {answer:?}");
    }
    let none = chat(&server, &json!({"messages": []})).await;
    let (message, param) = refused(&none);
    assert_eq!(
        (message.as_str(), param),
        ("messages is empty; expected one at least", json!("messages"))
    );
    server.stop().await;
}

/// A part of a type that a text model does not take.
fn parts() -> Vec<(Value, &'static str, &'static str)> {
    let file = json!({"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"});
    vec![
        (
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
            "fake does not see images; expected text",
            "messages.image_url",
        ),
        (
            json!({"type": "input_image", "image_url": "https://x/y.png"}),
            "does not see images",
            "messages.image_url",
        ),
        (
            json!({"type": "video_url", "video_url": {"url": "https://x"}}),
            "does not see videos",
            "messages.video_url",
        ),
        (
            json!({"type": "file", "file": file}),
            "does not read files",
            "messages.file",
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
            "this model takes no audio, expected text",
            "messages.input_audio",
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}),
            "this model takes no audio, expected text",
            "messages.input_audio",
        ),
        (
            json!({"type": "audio_url", "audio_url": {"url": "https://x"}}),
            "this model takes no audio, expected text",
            "messages.input_audio",
        ),
        (
            json!({"type": "smell"}),
            "unsupported type of a part 'smell'; expected text",
            "messages",
        ),
    ]
}

#[tokio::test]
async fn what_the_model_lacks_is_refused_once_and_left_out_of_later_turns() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for (part, says, field) in parts() {
        let text = json!({"type": "text", "text": "look"});
        let newest = json!([
            user(json!("hi")),
            assistant(json!("hello")),
            user(json!([text, part]))
        ]);
        let (message, param) = refused(&chat(&server, &json!({"messages": newest})).await);
        assert!(
            message.contains(says) && !message.contains("input_audio"),
            "{part}: {message}"
        );
        assert_eq!(param, "messages", "{part}");

        // As chat programs continue: with the part in the history, and with or without an answer after it.
        for between in [
            vec![],
            vec![assistant(json!(""))],
            vec![assistant(json!("I cannot."))],
        ] {
            let mut messages = vec![user(json!([text, part]))];
            messages.extend(between.clone());
            messages.push(recite());
            let answer = chat(&server, &json!({"messages": messages})).await;
            let answered = words(&answer);
            assert!(
                answered.starts_with("user:look|") && answered.ends_with("user:recite|"),
                "{part}: {answered}"
            );
            assert_eq!(answer.header("x-omni-ignored"), field, "{part}");
        }
        // A message of which nothing is left is left out.
        let messages = json!([user(json!([part])), assistant(json!("I cannot.")), recite()]);
        let answer = chat(&server, &json!({"messages": messages, "stream": true})).await;
        assert_eq!(
            (answer.status, answer.header("x-omni-ignored")),
            (StatusCode::OK, field),
            "{part}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_strict_server_refuses_parts_that_it_would_leave_out() {
    let server = TestServer::fake(FakeScript::default(), &["--strict"]).await;
    for (part, says, _) in parts() {
        let messages = json!([user(json!([part])), recite()]);
        let (message, _) = refused(&chat(&server, &json!({"messages": messages})).await);
        assert!(message.contains(says), "{part}: {message}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_recording_that_cannot_be_read_ends_no_conversation_either() {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &[]).await;
    for (recording, says) in [
        (
            json!({"data": "AAAA", "format": "mp3"}),
            "unsupported input_audio.format 'mp3'; expected wav or pcm16",
        ),
        (
            json!({"data": "?", "format": "wav"}),
            "input_audio.data is not base64",
        ),
        (json!({"data": "AAAA", "format": "wav"}), "messages"),
        (json!({"data": "AAA=", "format": "pcm16"}), "messages"),
    ] {
        let part = json!({"type": "input_audio", "input_audio": recording});
        let (message, param) = refused(&chat(&server, &json!({"messages": [user(json!([part]))]})).await);
        assert!(message.contains(says), "{recording}: {message}");
        assert_eq!(param, "messages", "{recording}");
        let messages = json!([user(json!([part])), recite()]);
        let answer = chat(&server, &json!({"messages": messages})).await;
        assert_eq!(words(&answer), "user:recite|", "{recording}");
        assert_eq!(
            answer.header("x-omni-ignored"),
            "messages.input_audio",
            "{recording}"
        );
    }
    // It hears, but sees nothing.
    let image = json!({"type": "image_url", "image_url": {"url": "x"}});
    let (message, _) = refused(&chat(&server, &json!({"messages": [user(json!([image]))]})).await);
    assert!(message.contains("expected text or input_audio"), "{message}");
    // Audio of an earlier answer is known by an id that nothing is kept of.
    let messages = json!([{"role": "assistant", "audio": {"id": "audio_1"}}, recite()]);
    let answer = chat(&server, &json!({"messages": messages})).await;
    assert_eq!(words(&answer), "user:recite|");
    assert_eq!(answer.header("x-omni-ignored"), "messages.input_audio");
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_a_model_wrote_badly_ends_no_conversation() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for arguments in ["{\"city\": \"Os", "Oslo", "[1]"] {
        let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}});
        let messages = json!([
            user(json!("hi")),
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "no such city"},
            recite(),
        ]);
        let answer = chat(&server, &json!({"messages": messages})).await;
        assert_eq!(
            words(&answer),
            "user:hi|user:<result no such city>|user:recite|",
            "{arguments}"
        );
        assert_eq!(answer.header("x-omni-ignored"), "messages", "{arguments}");
    }
    server.stop().await;
}

#[tokio::test]
async fn parameters_reach_the_model_by_all_their_names() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    let plain = {
        let asked = json!({"messages": [user(json!("a"))], "seed": 1});
        words(&chat(&server, &asked).await);
        script.drawn.last().expect("it was drawn")
    };
    for (field, value, expected) in [
        ("temperature", json!(0), (Some(0.0), None, None)),
        ("temperature", json!(1.5), (Some(1.5), None, None)),
        ("top_p", json!(0.5), (plain.0.temperature, Some(0.5), None)),
        // The likeliest alone.
        ("top_p", json!(0), (Some(0.0), None, None)),
        ("top_k", json!(40), (plain.0.temperature, None, Some(40))),
        ("top_k", json!(40.0), (plain.0.temperature, None, Some(40))),
        ("top_k", json!(-1), (plain.0.temperature, None, Some(0))),
    ] {
        let answer = chat(&server, &json!({"messages": [user(json!("a"))], field: value})).await;
        words(&answer);
        let (sampling, ..) = script.drawn.last().expect("it was drawn");
        assert_eq!(
            (sampling.temperature, sampling.top_p, sampling.top_k),
            expected,
            "{field}: {value}"
        );
        assert_eq!(answer.header("x-omni-ignored"), "", "{field}: {value}");
    }
    for (field, value, expected) in [
        ("min_p", 0.25, [Some(0.25), None, None, None]),
        ("presence_penalty", -1.5, [None, Some(-1.5), None, None]),
        ("frequency_penalty", 2.0, [None, None, Some(2.0), None]),
        ("repetition_penalty", 1.5, [None, None, None, Some(1.5)]),
        ("repeat_penalty", 1.25, [None, None, None, Some(1.25)]),
    ] {
        let answer = chat(&server, &json!({"messages": [user(json!("a"))], field: value})).await;
        words(&answer);
        let (drawn, ..) = script.drawn.last().expect("it was drawn");
        let drawn = [
            drawn.min_p,
            drawn.presence_penalty,
            drawn.frequency_penalty,
            drawn.repetition_penalty,
        ];
        assert_eq!(drawn, expected, "{field}");
        assert_eq!(answer.header("x-omni-ignored"), "", "{field}");
    }
    for seed in [
        json!(7),
        json!(-1),
        json!(18_446_744_073_709_551_615_u64),
        json!(7.0),
        json!(1e30),
    ] {
        let mut drawn = Vec::new();
        for _ in 0..2 {
            words(&chat(&server, &json!({"messages": [user(json!("a"))], "seed": seed})).await);
            drawn.push(script.drawn.last().expect("it was drawn").1);
        }
        assert_eq!(drawn[0], drawn[1], "{seed}");
    }
    for (asked, most) in [
        (json!({"max_tokens": 7}), 7),
        (json!({"max_tokens": 7.0}), 7),
        (json!({"max_completion_tokens": 9, "max_tokens": 7}), 9),
        (json!({"max_tokens": -1}), plain.2),
        (json!({"max_tokens": -2}), plain.2),
        (json!({"max_tokens": 0}), plain.2),
        (json!({"max_completion_tokens": -1}), plain.2),
        (json!({"max_completion_tokens": -1, "max_tokens": 7}), 7),
        (json!({"max_tokens": null}), plain.2),
    ] {
        let mut body = json!({"messages": [user(json!("a"))]});
        let fields = body.as_object_mut().expect("an object");
        fields.extend(asked.as_object().expect("an object").clone());
        words(&chat(&server, &body).await);
        assert_eq!(script.drawn.last().expect("it was drawn").2, most, "{asked}");
    }
    server.stop().await;
}

#[tokio::test]
async fn stops_that_say_nothing_are_none_and_there_may_be_more_than_four() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for (stop, answered) in [
        (json!(["Paris", ""]), "one two three"),
        (json!(""), "one two three"),
        (json!([]), "one two three"),
        (json!([" three", ""]), "one two"),
        (json!(" two"), "one"),
        (json!(["a", "b", "c", "d", "f", " two"]), "one"),
    ] {
        let body = json!({"messages": [user(json!("say one two three"))], "stop": stop});
        assert_eq!(words(&chat(&server, &body).await), answered, "{stop}");
    }
    server.stop().await;
}

#[tokio::test]
async fn fields_without_effect_are_named_and_those_that_label_a_request_are_not() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let asked = |field: &str, value: &Value| json!({"messages": [user(json!("a"))], field: value});
    for (field, value) in [
        ("reasoning_effort", json!("low")),
        ("num_ctx", json!(4096)),
        ("mirostat", json!(1)),
        ("mirostat_tau", json!(5.0)),
        ("think", json!(false)),
        ("format", json!("json")),
        ("keep_alive", json!("5m")),
        ("options", json!({"num_ctx": 4096})),
        ("logit_bias", json!({"50256": -100})),
        ("functions", json!([{"name": "f"}])),
        ("whatever", json!("")),
    ] {
        let answer = chat(&server, &asked(field, &value)).await;
        words(&answer);
        assert_eq!(answer.header("x-omni-ignored"), field);
    }
    for (field, value) in [
        ("user", json!("u")),
        ("metadata", json!({"a": "b"})),
        ("safety_identifier", json!("u")),
        ("service_tier", json!("auto")),
        ("store", json!(true)),
        ("n", json!(1)),
        ("response_format", json!({"type": "text"})),
        ("stream_options", json!({"include_usage": true})),
        ("parallel_tool_calls", json!(true)),
        ("reasoning_effort", json!(null)),
        ("num_ctx", json!(null)),
        ("logit_bias", json!({})),
        ("options", json!({})),
    ] {
        let answer = chat(&server, &asked(field, &value)).await;
        words(&answer);
        assert_eq!(answer.header("x-omni-ignored"), "", "{field}: {value}");
    }
    let several =
        json!({"messages": [user(json!("a"))], "num_ctx": 1, "think": true, "tool_choice": "required"});
    let answer = chat(&server, &several).await;
    assert_eq!(answer.header("x-omni-ignored"), "num_ctx, think, tool_choice");
    server.stop().await;

    let server = TestServer::fake(FakeScript::default(), &["--strict"]).await;
    let (message, param) = refused(&chat(&server, &asked("num_ctx", &json!(1))).await);
    assert_eq!(param, "num_ctx");
    assert!(message.starts_with("unknown field 'num_ctx'"), "{message}");
    words(&chat(&server, &asked("user", &json!("u"))).await);
    server.stop().await;
}

#[tokio::test]
async fn an_error_names_the_field_that_was_sent() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for (field, value) in [
        ("temperature", json!(-1)),
        ("temperature", json!("hot")),
        ("top_p", json!(1.5)),
        ("top_p", json!(-0.5)),
        ("min_p", json!(2)),
        ("presence_penalty", json!(3)),
        ("frequency_penalty", json!(-3)),
        ("repetition_penalty", json!(0)),
        ("repeat_penalty", json!(0)),
        ("repeat_penalty", json!(-1)),
        ("max_tokens", json!("many")),
        ("max_tokens", json!(1.5)),
        ("max_completion_tokens", json!([])),
        ("seed", json!("s")),
        ("stop", json!(vec!["x"; 17])),
        ("stop", json!(7)),
        ("n", json!(2)),
        ("n", json!(0)),
        ("response_format", json!({"type": "json_object"})),
        ("logprobs", json!(true)),
        ("messages", json!("hi")),
        ("messages", json!([{"role": "robot", "content": "a"}])),
        ("stream", json!("yes")),
    ] {
        let mut body = json!({"messages": [user(json!("a"))]});
        body[field] = value.clone();
        let (message, param) = refused(&chat(&server, &body).await);
        let param = param.as_str().unwrap_or_default();
        let within = param
            .strip_prefix(field)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        assert!(within, "{field} {value}: {param}: {message}");
        assert!(
            message.contains(field) && !message.contains("config."),
            "{message}"
        );
    }
    let (message, param) = refused(&chat(&server, &json!({"model": "fake"})).await);
    assert_eq!(param, "messages", "{message}");
    server.stop().await;
}

/// Rules as chat programs write them, of about `bytes` bytes.
fn rules(bytes: usize) -> String {
    let mut rules = "### Task:\nYou are in a voice call. Answer in one short sentence that can be spoken aloud.\n### Guidelines:\n".to_owned();
    for n in 1.. {
        if rules.len() >= bytes {
            break;
        }
        rules += &format!("{n}. Write no lists, no code and no symbols, and do not repeat the question.\n");
    }
    rules
}

fn context(max_context: u32) -> FakeScript {
    FakeScript {
        max_context,
        ..FakeScript::default()
    }
}

#[tokio::test]
async fn instructions_and_tasks_that_do_not_fit_are_cut_with_a_warning() {
    // As many tokens as the embedded model has, a byte or a character each.
    let server = TestServer::fake(context(767), &[]).await;
    for bytes in [700, 820, 1_100, 1_600, 6_000, 19_000] {
        // The instructions of a voice call, and a question.
        let asked = json!({"messages": [system(json!(rules(bytes))), user(json!("say it is whole"))]});
        let answer = chat(&server, &asked).await;
        assert_eq!(words(&answer), "it is whole", "{bytes}");
        assert_eq!(answer.header("x-omni-warning"), "PROMPT_TRIMMED", "{bytes}");
        let tokens = parsed(&answer)["usage"]["prompt_tokens"]
            .as_u64()
            .expect("a number");
        assert!(
            (590..=639).contains(&tokens),
            "{bytes}: 128 are left of 767, and no more: {tokens}"
        );
        let asked = json!({"messages": [system(json!(rules(bytes))), recite()]});
        let read = words(&chat(&server, &asked).await);
        assert!(read.starts_with("system:### Task:"), "{bytes}: {read}");

        // A task that is one message of the user, of which the end matters, too: a title, follow-ups, tags, a file.
        let task = format!("say {}### Output:\nJSON", rules(bytes));
        let asked = json!({"messages": [user(json!(task))], "stream": true, "max_tokens": 1000});
        let answer = chat(&server, &asked).await;
        assert_eq!(answer.status, StatusCode::OK, "{bytes}: {answer:?}");
        assert_eq!(answer.header("x-omni-warning"), "PROMPT_TRIMMED", "{bytes}");
        let events = String::from_utf8(answer.body).expect("text");
        assert!(
            events.contains("[DONE]") && !events.contains("error"),
            "{bytes}: {events}"
        );
    }
    // Both at once: the user's words stay whole as long as instructions can give way.
    let question = "please tell me ".repeat(6);
    let asked = json!({"messages": [system(json!(rules(1_600))), user(json!(question))]});
    assert_eq!(
        words(&chat(&server, &asked).await),
        format!("You said: {question}")
    );
    let short = json!({"messages": [system(json!("Be kind.")), user(json!("say ok"))]});
    assert_eq!(chat(&server, &short).await.header("x-omni-warning"), "");
    server.stop().await;
}

#[tokio::test]
async fn a_strict_server_refuses_what_does_not_fit_by_openais_code() {
    let server = TestServer::fake(context(767), &["--strict"]).await;
    for messages in [
        json!([system(json!(rules(1_000))), user(json!("hi"))]),
        json!([user(json!(rules(1_600)))]),
    ] {
        let answer = chat(&server, &json!({"messages": messages})).await;
        let (message, param) = refused(&answer);
        assert!(
            message.contains("maximum context length is 767 tokens"),
            "{message}"
        );
        assert_eq!(param, "messages");
        assert_eq!(parsed(&answer)["error"]["code"], "context_length_exceeded");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_message_of_more_text_than_is_taken_is_cut_and_ends_no_conversation() {
    let server = TestServer::fake(FakeScript::default(), &["--max-text-bytes", "200"]).await;
    let long = format!("begin {}end", "word ".repeat(100));
    for messages in [
        vec![system(json!(long)), recite()],
        // Each is short enough, but not all of them.
        vec![system(json!(&long[..150])), system(json!(&long[..150])), recite()],
        vec![user(json!(long)), assistant(json!("I see.")), recite()],
        vec![user(json!("say that"))],
        vec![user(json!(format!("say {long}")))],
    ] {
        let warns = messages.len() > 1 || messages[0]["content"] != "say that";
        let answer = chat(&server, &json!({"messages": messages})).await;
        let read = words(&answer);
        assert!(read.len() < 300, "{read}");
        assert_eq!(
            answer.header("x-omni-warning"),
            if warns { "PROMPT_TRIMMED" } else { "" },
            "{messages:?}"
        );
    }
    server.stop().await;

    let server = TestServer::fake(FakeScript::default(), &["--max-text-bytes", "200", "--strict"]).await;
    let (message, param) = refused(&chat(&server, &json!({"messages": [user(json!(long))]})).await);
    assert!(message.contains("the limit is 200"), "{message}");
    assert_eq!(param, "messages");
    server.stop().await;
}
