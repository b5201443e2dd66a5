//! Names of models and of requests, and hints that a model cannot follow.

use std::io;
use std::sync::{Arc, Mutex};

use hyper::StatusCode;
use omni_proto::v1;
use omni_proto::v1::speak_request::Event as Request;
use omni_proto::v1::speak_response::Event;
use omni_server::app::Sinks;
use omni_tests::{FakeScript, HttpAnswer, TestServer, http};
use serde_json::{Value, json};
use tonic::Code;
use tracing_subscriber::fmt::MakeWriter;

async fn post(server: &TestServer, path: &str, headers: &[(&str, &str)], body: &Value) -> HttpAnswer {
    let headers: Vec<_> = [("content-type", "application/json")]
        .iter()
        .chain(headers)
        .copied()
        .collect();
    http(server, "POST", path, &headers, body.to_string()).await
}

async fn speech(server: &TestServer, body: &Value) -> HttpAnswer {
    post(server, "/v1/audio/speech", &[], body).await
}

async fn chat(server: &TestServer, body: &Value) -> HttpAnswer {
    post(server, "/v1/chat/completions", &[], body).await
}

fn parsed(answer: &HttpAnswer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("no JSON: {answer:?}"))
}

async fn listed(server: &TestServer) -> Vec<Value> {
    let models = parsed(&http(server, "GET", "/v1/models", &[], "").await);
    models["data"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn the_models_that_clients_name_by_default_are_the_one_that_is_served() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for model in ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "TTS-1", "fake"] {
        let answer = speech(&server, &json!({"model": model, "input": "Hello."})).await;
        assert_eq!(answer.status, StatusCode::OK, "{model}: {answer:?}");
    }
    let messages = json!([{"role": "user", "content": "ab"}]);
    for model in ["gpt-4o", "gpt-4.1", "gpt-4o-mini"] {
        let answer = chat(&server, &json!({"model": model, "messages": messages})).await;
        assert_eq!(answer.status, StatusCode::OK, "{model}: {answer:?}");
        assert_eq!(parsed(&answer)["model"], "fake");
    }
    assert_eq!(
        speech(&server, &json!({"input": "Hello."})).await.status,
        StatusCode::OK
    );
    assert_eq!(
        chat(&server, &json!({"messages": messages})).await.status,
        StatusCode::OK
    );
    // Names of a kind.
    for model in [
        "gpt-6-mini",
        "chatgpt-4o-latest",
        "o1",
        "o4-mini-2025-04-16",
        "O3",
        "gpt-4o-2024-08-06",
    ] {
        let answer = chat(&server, &json!({"model": model, "messages": messages})).await;
        assert_eq!(answer.status, StatusCode::OK, "{model}: {answer:?}");
        assert_eq!(parsed(&answer)["model"], "fake");
        let one = http(&server, "GET", &format!("/v1/models/{model}"), &[], "").await;
        assert_eq!(parsed(&one)["alias_of"], "fake", "{model}");
    }
    assert!(
        speech(&server, &json!({"model": "tts-2-hd", "input": "Hello."}))
            .await
            .status
            .is_success()
    );
    for model in [
        "kokoro",
        "gpt",
        "gpt-4o-transcribe",
        "gpt-image-1",
        "text-embedding-3-small",
        "whisper-1",
    ] {
        let answer = chat(&server, &json!({"model": model, "messages": messages})).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{model}: {answer:?}");
        let told = parsed(&answer)["error"]["message"].to_string();
        assert!(
            told.contains(&format!("unknown model '{model}'; expected 'fake'")),
            "{told}"
        );
        let one = http(&server, "GET", &format!("/v1/models/{model}"), &[], "").await;
        assert_eq!(one.status, StatusCode::NOT_FOUND, "{model}: {one:?}");
    }
    let other = speech(&server, &json!({"model": "whisper-1", "input": "Hello."})).await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
    let models = listed(&server).await;
    assert_eq!(models[0]["id"], "fake");
    assert!(
        !models.iter().any(|model| model.to_string().contains('*')),
        "{models:?}"
    );
    let alias = models
        .iter()
        .find(|model| model["id"] == "tts-1")
        .expect("it is listed");
    assert_eq!(alias["alias_of"], "fake");
    let one = http(&server, "GET", "/v1/models/gpt-4o", &[], "").await;
    assert_eq!(parsed(&one)["alias_of"], "fake");
    let request = v1::ListModelsRequest::default();
    let catalogue = server.catalog().list_models(request).await.unwrap().into_inner();
    assert!(catalogue.models[0].aliases.iter().any(|alias| alias == "tts-1"));
    server.stop().await;
}

#[tokio::test]
async fn events_are_sent_where_they_are_asked_for_whatever_the_format() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for format in [json!(null), json!("mp3"), json!("wav"), json!("opus")] {
        let body = json!({"input": "Hello.", "response_format": format, "stream_format": "sse"});
        let told = speech(&server, &body).await;
        assert_eq!(told.kind(), "text/event-stream", "{format}");
        let text = String::from_utf8(told.body).expect("text");
        assert!(
            text.starts_with("data: {") && text.contains("speech.audio.delta"),
            "{format}: {text}"
        );
        assert!(text.contains("speech.audio.done"), "{format}: {text}");
    }
    server.stop().await;
}

/// The two sizes in a WAV header: of everything after the first eight bytes, and of the samples.
fn sizes(wav: &[u8]) -> [u32; 2] {
    [4, 40].map(|at| u32::from_le_bytes(wav[at..at + 4].try_into().expect("four bytes")))
}

#[tokio::test]
async fn a_wav_file_says_how_long_it_is_and_a_stream_says_that_it_does_not_know() {
    const HEADER: usize = 44;
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let file = json!({"input": "Hello.", "response_format": "wav", "seed": 3});
    let wav = speech(&server, &file).await;
    let samples = wav.body.len() - HEADER;
    assert!(samples > 0);
    assert_eq!(
        sizes(&wav.body).map(|size| size as usize),
        [samples + 36, samples]
    );
    assert_eq!(wav.header("content-length"), wav.body.len().to_string());
    for (name, value) in [("stream_format", json!("audio")), ("stream", json!(true))] {
        let mut asked = file.clone();
        asked[name] = value;
        let stream = speech(&server, &asked).await;
        assert_eq!(sizes(&stream.body), [u32::MAX; 2], "{name}");
        assert_eq!(stream.body[HEADER..], wav.body[HEADER..], "{name}");
        assert_eq!(stream.header("content-length"), "", "{name}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_operator_says_which_other_names_the_model_has() {
    let server = TestServer::fake(FakeScript::default(), &["--set", "model_aliases=[house/voice:2]"]).await;
    let status = async |model: &str| {
        speech(&server, &json!({"model": model, "input": "Hello."}))
            .await
            .status
    };
    assert_eq!(status("house/voice:2").await, StatusCode::OK);
    assert_eq!(status("tts-1").await, StatusCode::NOT_FOUND);
    let ids: Vec<_> = listed(&server)
        .await
        .iter()
        .map(|model| model["id"].clone())
        .collect();
    assert_eq!(ids, ["fake", "house/voice:2"]);
    let one = http(&server, "GET", "/v1/models/house/voice:2", &[], "").await;
    assert_eq!(one.status, StatusCode::OK, "{one:?}");
    server.stop().await;
}

#[tokio::test]
async fn an_operator_takes_names_without_listing_them() {
    for (aliases, taken) in [("[gpt-*, tts-*]", false), ("['*']", true)] {
        let set = format!("model_aliases={aliases}");
        let server = TestServer::fake(FakeScript::default(), &["--set", &set]).await;
        let ids: Vec<_> = listed(&server)
            .await
            .iter()
            .map(|model| model["id"].clone())
            .collect();
        assert_eq!(ids, ["fake"]);
        for (model, expected) in [
            ("tts-1", true),
            ("gpt-4o", true),
            ("kokoro", taken),
            ("whisper-1", taken),
        ] {
            let status = speech(&server, &json!({"model": model, "input": "Hello."}))
                .await
                .status;
            assert_eq!(status.is_success(), expected, "{model} of {aliases}");
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn a_model_that_hears_is_asked_for_by_names_of_models_that_transcribe() {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let messages = json!([{"role": "user", "content": "ab"}]);
    for model in ["whisper-1", "gpt-4o-mini-transcribe"] {
        let answer = chat(&server, &json!({"model": model, "messages": messages})).await;
        assert_eq!(answer.status, StatusCode::OK, "{model}: {answer:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn hints_that_cannot_be_followed_are_ignored_and_the_answer_says_so() {
    let server = TestServer::fake(
        FakeScript {
            no_tools: true,
            ..FakeScript::default()
        },
        &[],
    )
    .await;
    let answer = speech(
        &server,
        &json!({"input": "Hello.", "instructions": "Speak cheerfully."}),
    )
    .await;
    assert_eq!(
        (answer.status, answer.header("x-omni-ignored")),
        (StatusCode::OK, "instructions")
    );
    let plain = speech(&server, &json!({"input": "Hello."})).await;
    assert_eq!(plain.header("x-omni-ignored"), "");

    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    for stream in [false, true] {
        let asked = json!({
            "messages": [{"role": "user", "content": "recite"}],
            "tools": tools, "tool_choice": "auto", "stream": stream,
            "frequency_penalty": 0.5, "presence_penalty": 0, "n": 1, "response_format": {"type": "text"},
            "store": false, "metadata": {}, "user": "u", "service_tier": "auto", "parallel_tool_calls": true,
        });
        let answer = chat(&server, &asked).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        assert_eq!(answer.header("x-omni-ignored"), "tools");
        let text = String::from_utf8(answer.body).unwrap();
        assert!(!text.contains("system:"), "nothing is left of the tools: {text}");
    }
    server.stop().await;
}

#[tokio::test]
async fn fields_that_have_no_place_here_are_named() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for (more, ignored) in [
        (json!({"samplerate": 8000}), "samplerate"),
        (
            json!({"emotion": "happy", "pitch": 2, "x": null, "y": [], "z": {}}),
            "emotion, pitch",
        ),
        (json!({"voice": {"id": "alloy", "pitch": 2}}), "voice.pitch"),
        (json!({"a,b\r\nset-cookie: c": 1}), "a?b??set-cookie:?c"),
        (
            json!({"instructions": "Whisper.", "volume": 1}),
            "instructions, volume",
        ),
    ] {
        let mut body = json!({"input": "Hello."});
        let fields = body.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        let answer = speech(&server, &body).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let mut names: Vec<_> = answer.header("x-omni-ignored").split(", ").collect();
        names.sort_unstable();
        assert_eq!(names.join(", "), ignored);
    }
    let asked = json!({"messages": [{"role": "user", "name": "me", "content": "recite"}], "mirostat": 2, "store": true});
    let answer = chat(&server, &asked).await;
    assert_eq!(answer.header("x-omni-ignored"), "mirostat", "{answer:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_conversation_that_another_model_called_tools_in_goes_on_without_them() {
    let script = FakeScript {
        no_tools: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let asked = json!({"messages": [
        {"role": "user", "content": "what is it"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "it rains"},
        {"role": "assistant", "content": "It rains."},
        {"role": "user", "content": "recite"},
    ]});
    let answer = chat(&server, &asked).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    assert_eq!(answer.header("x-omni-ignored"), "messages");
    let text = parsed(&answer)["choices"][0]["message"]["content"].to_string();
    assert!(
        text.contains("user:what is it|assistant:It rains.|user:recite"),
        "{text}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_strict_server_refuses_them() {
    let script = FakeScript {
        no_tools: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &["--strict"]).await;
    let refused = |answer: HttpAnswer| {
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");
        parsed(&answer)["error"]["param"]
            .as_str()
            .expect("a field")
            .to_owned()
    };
    let asked = json!({"input": "Hello.", "instructions": "Speak cheerfully."});
    assert_eq!(refused(speech(&server, &asked).await), "instructions");
    let asked = json!({"input": "Hello.", "pitch": 2});
    assert_eq!(refused(speech(&server, &asked).await), "pitch");
    for (field, value) in [
        ("tools", json!([{"type": "function", "function": {"name": "f"}}])),
        ("logit_bias", json!({"1": 5})),
        ("tool_choice", json!("required")),
    ] {
        let asked = json!({"messages": [{"role": "user", "content": "ab"}], field: value});
        assert_eq!(refused(chat(&server, &asked).await), field);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_warning_follows_ready_where_a_hint_is_ignored() {
    let hints = [
        v1::SpeechConfig {
            style_instructions: "Whisper.".to_owned(),
            ..v1::SpeechConfig::default()
        },
        v1::SpeechConfig {
            non_streaming_mode: Some(true),
            ..v1::SpeechConfig::default()
        },
    ];
    let fields = ["config.style_instructions", "config.non_streaming_mode"];
    for (config, field) in hints.into_iter().zip(fields) {
        let server = TestServer::fake(FakeScript::default(), &[]).await;
        let mut call = server.call().await;
        call.send(Request::Config(config.clone())).await;
        let mut events = Vec::new();
        for _ in 0..2 {
            events.push(call.next().await.expect("an event").1);
        }
        assert!(matches!(events[0], Event::Ready(_)), "{events:?}");
        let Event::Warning(warning) = &events[1] else {
            panic!("{events:?}");
        };
        assert_eq!(warning.reason, "FIELD_IGNORED");
        assert!(warning.message.starts_with(field), "{warning:?}");
        drop(call);
        server.stop().await;
        let server = TestServer::fake(FakeScript::default(), &["--strict"]).await;
        let refused = omni_tests::audio_of(&mut server.speech(), config, "Hello.")
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        server.stop().await;
    }
}

/// Captured log.
#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_request_has_a_name_in_its_answer_and_in_every_line_about_it() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(lines.clone())
        .with_ansi(false)
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    // Where there is one subscriber alone, a span that another test meets first, which has none, is off for all.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let server = TestServer::observed(&[], Sinks::log(), FakeScript::default()).await;
    let own = [("x-request-id", "mine-1/2")];
    let body = json!({"input": "Hello.", "instructions": "Whisper."});
    let answer = post(&server, "/v1/audio/speech", &own, &body).await;
    assert_eq!(answer.header("x-request-id"), "mine-1/2");
    let refused = post(
        &server,
        "/v1/audio/speech",
        &own,
        &json!({"input": "a", "voice": "zz"}),
    )
    .await;
    assert_eq!(refused.header("x-request-id"), "mine-1/2");
    let missing = http(
        &server,
        "GET",
        "/nowhere",
        &[("x-request-id", "not a good one")],
        "",
    )
    .await;
    assert!(missing.header("x-request-id").starts_with("req_"), "{missing:?}");
    let mut request = tonic::Request::new(v1::SynthesizeRequest {
        text: "Hello.".to_owned(),
        ..v1::SynthesizeRequest::default()
    });
    request
        .metadata_mut()
        .insert("x-request-id", "call-7".parse().unwrap());
    let mut answer = server.speech().synthesize(request).await.unwrap();
    assert_eq!(answer.metadata().get("x-request-id").unwrap(), "call-7");
    while answer.get_mut().message().await.unwrap().is_some() {}
    let mut request = tonic::Request::new(v1::SynthesizeRequest {
        text: "Hello.".to_owned(),
        config: Some(v1::SpeechConfig {
            voice: "zz".to_owned(),
            ..v1::SpeechConfig::default()
        }),
    });
    request
        .metadata_mut()
        .insert("x-request-id", "call-8".parse().unwrap());
    let mut refused = server.speech().synthesize(request).await.unwrap();
    while refused
        .get_mut()
        .message()
        .await
        .is_ok_and(|message| message.is_some())
    {}
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(omni_tests::text(" ")).await;
    call.send(omni_tests::finish()).await;
    call.utterance().await;
    drop(call);
    server.idle(0).await;
    server.stop().await;
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    // Protocols that have no place for a warning leave it to the log.
    let warned = |line: &str| line.contains("utterance warning") && line.contains("NOTHING_SPEAKABLE");
    assert!(lines.lines().any(warned), "{lines}");
    for (line, name) in [
        ("hint ignored", "mine-1/2"),
        ("status=400", "mine-1/2"),
        ("outcome=\"stop\"", "mine-1/2"),
        ("outcome=\"stop\"", "call-7"),
        ("reason=\"VOICE_NOT_FOUND\"", "call-8"),
    ] {
        let named = format!("request_id={name}");
        let found = lines
            .lines()
            .any(|written| written.contains(line) && written.contains(&named));
        assert!(found, "no line has {line} and {named}:\n{lines}");
    }
}
