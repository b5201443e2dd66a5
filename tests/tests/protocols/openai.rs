//! OpenAI's HTTP API: the wire format, and OpenAI's own client.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::StatusCode;
use omni_proto::v1;
use omni_tests::{FAKE_RATE, FakeScript, FakeSpeech, Gate, HttpAnswer, TestServer, audio_of, http, python};
use serde_json::{Value, json};

const TEXT: &str = "Hello there. How are you?";
/// Bytes before the samples of a WAV file.
const HEADER: usize = 44;

fn parsed(answer: &HttpAnswer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("no JSON: {answer:?}"))
}

/// The data of its events.
fn events(answer: &HttpAnswer) -> Vec<String> {
    assert_eq!(answer.kind(), "text/event-stream");
    let text = String::from_utf8(answer.body.clone()).expect("text");
    let events = text.split_terminator("\n\n");
    let data = events.map(|event| event.strip_prefix("data: ").expect("data").to_owned());
    data.collect()
}

async fn get(server: &TestServer, path: &str) -> HttpAnswer {
    http(server, "GET", path, &[], "").await
}

async fn send(server: &TestServer, path: &str, body: String) -> HttpAnswer {
    http(
        server,
        "POST",
        path,
        &[("content-type", "application/json")],
        body,
    )
    .await
}

async fn post(server: &TestServer, path: &str, body: &Value) -> HttpAnswer {
    send(server, path, body.to_string()).await
}

async fn model(server: &TestServer) -> String {
    let models = parsed(&get(server, "/v1/models").await);
    models["data"][0]["id"].as_str().expect("a model").to_owned()
}

async fn speech(server: &TestServer, more: Value) -> HttpAnswer {
    let mut body = json!({"model": model(server).await, "input": TEXT, "voice": "alloy"});
    let body_fields = body.as_object_mut().expect("an object");
    body_fields.extend(more.as_object().expect("an object").clone());
    post(server, "/v1/audio/speech", &body).await
}

async fn chat(server: &TestServer, more: Value) -> HttpAnswer {
    let messages = json!([{"role": "developer", "content": "Be kind."}, {"role": "user", "content": [{"type": "text", "text": "ab"}]}]);
    let mut body = json!({"model": model(server).await, "messages": messages});
    let body_fields = body.as_object_mut().expect("an object");
    body_fields.extend(more.as_object().expect("an object").clone());
    post(server, "/v1/chat/completions", &body).await
}

fn spoken() -> Value {
    json!({"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}})
}

#[tokio::test]
async fn speech_is_the_audio_that_other_callers_get() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let config = v1::SpeechConfig {
        sampling: Some(v1::SamplingParams {
            seed: Some(7),
            ..v1::SamplingParams::default()
        }),
        ..v1::SpeechConfig::default()
    };
    let own = audio_of(&mut server.speech(), config, TEXT).await.unwrap().0;
    let wav = speech(&server, json!({"response_format": "wav", "seed": 7})).await;
    assert_eq!((wav.status, wav.kind()), (StatusCode::OK, "audio/wav"));
    assert_eq!(wav.body[HEADER..], own);
    server.idle(2).await;
    server.stop().await;
}

#[tokio::test]
async fn mp3_is_what_is_sent_where_no_format_is_asked_for() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for more in [json!({}), json!({"response_format": "mp3"})] {
        let answer = speech(&server, more).await;
        assert_eq!((answer.status, answer.kind()), (StatusCode::OK, "audio/mpeg"));
        // The header of a frame of Layer III.
        assert_eq!((answer.body[0], answer.body[1] & 0xE6), (0xFF, 0xE2));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_request_without_text_is_refused_as_by_openai() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for input in ["", " ", "\n", "\u{a0}\t"] {
        for more in [
            json!({"response_format": "wav"}),
            json!({"response_format": "pcm"}),
            json!({"stream_format": "sse"}),
        ] {
            let mut asked = more.clone();
            asked["input"] = json!(input);
            let answer = speech(&server, asked).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{input:?} with {more}");
            let error = &parsed(&answer)["error"];
            assert_eq!(
                (&error["param"], &error["type"]),
                (&json!("input"), &json!("invalid_request_error"))
            );
        }
    }
    server.idle(12).await;
    server.stop().await;
}

#[tokio::test]
async fn pcm_has_24000_samples_a_second_whatever_the_model_has() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let own = audio_of(&mut server.speech(), v1::SpeechConfig::default(), TEXT).await;
    let seconds = own.unwrap().0.len() as f64 / 2.0 / f64::from(FAKE_RATE);
    let pcm = speech(&server, json!({"response_format": "pcm"})).await;
    assert_eq!(pcm.kind(), "audio/pcm");
    let heard = pcm.body.len() as f64 / 2.0 / 24_000.0;
    assert!((heard - seconds).abs() < 1e-3, "{heard} s instead of {seconds}");
    server.stop().await;
}

#[tokio::test]
async fn formats_and_speed_are_those_that_were_asked_for() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for (name, kind, begins) in [
        ("opus", "audio/ogg; codecs=opus", &b"OggS"[..]),
        ("flac", "audio/flac", &b"fLaC"[..]),
        ("aac", "audio/aac", &[0xFF, 0xF1][..]),
    ] {
        let answer = speech(&server, json!({"response_format": name})).await;
        assert_eq!((answer.status, answer.kind()), (StatusCode::OK, kind));
        assert!(answer.body.starts_with(begins), "{name}");
    }
    let length = async |speed: f64| {
        let answer = speech(&server, json!({"response_format": "pcm", "speed": speed})).await;
        answer.body.len() as f64
    };
    let ratio = length(2.0).await / length(1.0).await;
    assert!((0.45..0.55).contains(&ratio), "{ratio}");
    server.stop().await;
}

#[tokio::test]
async fn rates_and_telephone_formats_are_those_that_were_asked_for() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let asked = async |format: &str, rate: Value| {
        let body = json!({"response_format": format, "sample_rate": rate, "seed": 7});
        speech(&server, body).await
    };
    let seconds = asked("pcm", json!(24_000)).await.body.len() as f64 / 48_000.0;
    for (format, rate, hz, width) in [
        ("pcm", Value::Null, 24_000, 2.0),
        ("pcm", json!(8_000), 8_000, 2.0),
        ("pcm", json!("16000"), 16_000, 2.0),
        ("g711_ulaw", Value::Null, 8_000, 1.0),
        ("mulaw", json!(8_000), 8_000, 1.0),
        ("PCMU", json!(16_000), 16_000, 1.0),
        ("g711_alaw", Value::Null, 8_000, 1.0),
        ("alaw", Value::Null, 8_000, 1.0),
        ("pcma", json!(8_000.0), 8_000, 1.0),
    ] {
        let answer = asked(format, rate).await;
        assert_eq!(answer.status, StatusCode::OK, "{format}: {answer:?}");
        assert_eq!(answer.header("x-sample-rate"), hz.to_string(), "{format}");
        let heard = answer.body.len() as f64 / width / f64::from(hz);
        assert!(
            (heard - seconds).abs() < 2e-3,
            "{format}: {heard} s instead of {seconds}"
        );
    }
    let wav = asked("wav", json!(8_000)).await;
    assert_eq!(u32::from_le_bytes(wav.body[24..28].try_into().unwrap()), 8_000);
    assert_eq!(wav.header("x-sample-rate"), "8000");
    assert_eq!(asked("g711_ulaw", json!(null)).await.kind(), "audio/pcmu");
    assert_eq!(asked("g711_alaw", json!(null)).await.kind(), "audio/pcma");
    for (format, rate) in [("pcm", 7_999), ("mp3", 8_001), ("pcmu", 24_000), ("opus", 22_050)] {
        let refused = asked(format, json!(rate)).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{format} at {rate}");
        assert_eq!(parsed(&refused)["error"]["param"], "sample_rate", "{refused:?}");
    }
    let unknown = asked("midi", json!(null)).await;
    let message = parsed(&unknown)["error"]["message"].to_string();
    assert!(
        message.contains("unsupported response_format 'midi'; expected mp3, "),
        "{message}"
    );
    server.stop().await;
}

#[tokio::test]
async fn events_carry_the_same_audio_and_what_was_used() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let plain = speech(&server, json!({"response_format": "flac", "seed": 7})).await;
    let told = speech(
        &server,
        json!({"response_format": "flac", "seed": 7, "stream_format": "sse"}),
    )
    .await;
    let events: Vec<Value> = events(&told)
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    let (done, pieces) = events.split_last().expect("events");
    let audio = pieces.iter().flat_map(|piece| {
        assert_eq!(piece["type"], "speech.audio.delta");
        BASE64
            .decode(piece["audio"].as_str().expect("base64"))
            .expect("base64")
    });
    assert_eq!(audio.collect::<Vec<u8>>(), plain.body);
    assert_eq!(done["type"], "speech.audio.done");
    let usage = &done["usage"];
    assert!(usage["output_tokens"].as_u64() > Some(0), "{usage}");
    server.stop().await;
}

#[tokio::test]
async fn every_voice_of_openai_speaks_and_voices_are_listed() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let listed = parsed(&get(&server, "/v1/audio/voices").await);
    let own = listed["names"].as_array().expect("names");
    let shown = listed["voices"].as_array().expect("voices");
    let ids: Vec<_> = shown.iter().map(|voice| voice["id"].clone()).collect();
    assert_eq!(ids, *own);
    assert!(shown.iter().all(|voice| voice["name"].is_string()), "{listed}");
    let aliases = listed["aliases"].as_object().expect("aliases");
    assert_eq!(aliases.len(), 13, "{aliases:?}");
    assert!(aliases.values().all(|meant| own.contains(meant)));
    for voice in [
        json!("alloy"),
        json!("verse"),
        json!({"id": "marin"}),
        own[0].clone(),
    ] {
        let answer = speech(&server, json!({"voice": voice})).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn models_are_listed_and_found() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let id = model(&server).await;
    let found = get(&server, &format!("/v1/models/{id}")).await;
    assert_eq!(parsed(&found)["id"], json!(id));
    let missing = get(&server, "/v1/models/other").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let error = &parsed(&missing)["error"];
    assert_eq!(error["code"], "model_not_found");
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.starts_with(&format!("unknown model 'other'; expected one of: {id}")),
        "{message}"
    );
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused_by_the_name_that_openai_has_for_it() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let cases = [
        (speech(&server, json!({"voice": "nobody"})).await, "voice"),
        (
            speech(&server, json!({"response_format": "midi"})).await,
            "response_format",
        ),
        (
            speech(&server, json!({"stream_format": "smoke"})).await,
            "stream_format",
        ),
        (chat(&server, json!({"n": 2})).await, "n"),
        (
            chat(&server, json!({"response_format": "text"})).await,
            "response_format",
        ),
        (
            chat(&server, json!({"stream_options": "usage"})).await,
            "stream_options",
        ),
        (chat(&server, json!({"audio": "alloy"})).await, "audio"),
        (chat(&server, json!({"tools": [{}]})).await, "tools"),
        (chat(&server, json!({"temperature": -1})).await, "temperature"),
        (
            chat(&server, json!({"modalities": ["smell"]})).await,
            "modalities",
        ),
        (chat(&server, json!({"modalities": ["audio"]})).await, "audio"),
        (
            chat(&server, json!({"messages": [{"role": "robot", "content": ""}]})).await,
            "messages",
        ),
        (
            chat(
                &server,
                json!({"modalities": ["audio"], "audio": {"format": "wav"}, "stream": true}),
            )
            .await,
            "audio.format",
        ),
    ];
    for (answer, name) in cases {
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}: {answer:?}");
        let error = &parsed(&answer)["error"];
        assert_eq!(
            (&error["param"], &error["type"]),
            (&json!(name), &json!("invalid_request_error"))
        );
        let message = error["message"].as_str().expect("a message");
        assert!(
            !message.contains("config.") && !message.contains("struct"),
            "{message}"
        );
    }
    for body in ["", "{", "[]", "{\"input\": 1}"] {
        let answer = send(&server, "/v1/audio/speech", body.to_owned()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");
        assert_eq!(parsed(&answer)["error"]["type"], "invalid_request_error");
    }
    let other = post(
        &server,
        "/v1/audio/speech",
        &json!({"model": "other", "input": "a"}),
    )
    .await;
    assert_eq!(other.status, StatusCode::NOT_FOUND, "{other:?}");
    let large = json!({"model": "other", "input": "a".repeat(2 << 20)});
    let large = post(&server, "/v1/audio/speech", &large).await;
    assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE, "{large:?}");
    assert_eq!(parsed(&large)["error"]["type"], "invalid_request_error");
    let nowhere = get(&server, "/v1/files").await;
    assert_eq!(nowhere.status, StatusCode::NOT_FOUND);
    assert_eq!(parsed(&nowhere)["error"]["type"], "invalid_request_error");
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_loads_says_when_to_try_again() {
    let load = Gate::default();
    load.close();
    let script = FakeScript {
        load: load.clone(),
        ..FakeScript::default()
    };
    let mut server = TestServer::launch(&[], move || Ok(FakeSpeech::new(script))).await;
    let answer = post(&server, "/v1/audio/speech", &json!({"model": "x", "input": "a"})).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    let seconds = answer.header("retry-after").parse::<u64>();
    assert!(seconds.is_ok_and(|seconds| seconds > 0), "{answer:?}");
    load.open();
    server.app.ready().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn an_answer_is_written_spoken_and_streamed_alike() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let written = parsed(&chat(&server, json!({"stream": null, "seed": null})).await);
    let choice = &written["choices"][0];
    let text = choice["message"]["content"].as_str().expect("text").to_owned();
    assert!(
        !text.is_empty() && choice["message"]["audio"].is_null(),
        "{written}"
    );
    assert_eq!(choice["finish_reason"], "stop");
    assert!(written["usage"]["total_tokens"].as_u64() > Some(0));

    let heard = parsed(&chat(&server, spoken()).await);
    let message = &heard["choices"][0]["message"];
    assert_eq!(message["audio"]["transcript"], json!(text));
    let wav = BASE64
        .decode(message["audio"]["data"].as_str().expect("base64"))
        .expect("base64");
    let samples = u32::from_le_bytes(wav[40..44].try_into().unwrap()) as usize;
    assert_eq!(samples, wav.len() - HEADER, "the header has the length");

    let streamed = chat(
        &server,
        json!({"stream": true, "stream_options": {"include_usage": true}}),
    )
    .await;
    let mut events = events(&streamed);
    assert_eq!(events.pop().as_deref(), Some("[DONE]"));
    let events: Vec<Value> = events
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    let words = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(words.collect::<String>(), text);
    assert!(events.last().expect("events")["usage"]["total_tokens"].as_u64() > Some(0));
    assert_eq!(events[events.len() - 2]["choices"][0]["finish_reason"], "stop");
    server.stop().await;
}

#[tokio::test]
async fn a_caller_who_goes_away_leaves_nothing_behind() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.talker.close();
    let call = speech(&server, json!({}));
    let waited = tokio::time::timeout(std::time::Duration::from_millis(200), call).await;
    assert!(waited.is_err(), "nothing can be said yet");
    server
        .until("every session has ended", || server.app.sessions() == 0)
        .await;
    script.talker.open();
    server.stop().await;
}

/// Script of a user of OpenAI's client.
const SCRIPT: &str = r#"
import base64, sys
from openai import OpenAI, BadRequestError

client = OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
model = client.models.list().data[0].id
text = sys.argv[2]
print("speech", len(client.audio.speech.create(model=model, voice="alloy", input=text, response_format="wav").read()))
with client.audio.speech.with_streaming_response.create(model="gpt-4o-mini-tts", voice="verse", input=text, response_format="wav", instructions="Speak cheerfully.") as answer:
    print("streamed", sum(len(piece) for piece in answer.iter_bytes()))
    print("ignored", answer.headers["x-omni-ignored"])
messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "ab"}]
print("written", client.chat.completions.create(model=model, messages=messages).choices[0].message.content)
heard = client.chat.completions.create(
    model=model, messages=messages, modalities=["text", "audio"], audio={"voice": "alloy", "format": "wav"})
audio = heard.choices[0].message.audio
print("heard", len(base64.b64decode(audio.data)), audio.transcript)
chunks = client.chat.completions.create(model=model, messages=messages, stream=True)
print("chunks", "".join(chunk.choices[0].delta.content or "" for chunk in chunks))
with client.chat.completions.stream(
    model=model, messages=messages, modalities=["text", "audio"], audio={"voice": "alloy", "format": "pcm16"}) as stream:
    stream.until_done()
    name = stream.get_final_completion().choices[0].message.audio.id
print("one name", name.count("audio_") == 1)
tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
messages = [{"role": "user", "content": 'say <tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'}]
call = client.chat.completions.create(model="gpt-4o", messages=messages, tools=tools).choices[0].message.tool_calls[0].function
print("calls", call.name, call.arguments)
try:
    client.audio.speech.create(model=model, voice="nobody", input=text)
except BadRequestError as error:
    print("refused", error.code, error.param, error.request_id)
telephone = client.audio.speech.with_raw_response.create(
    model=model, voice="alloy", input=text, response_format="g711_ulaw", extra_body={"sample_rate": 16000, "emotion": "happy"})
print("telephone", telephone.headers["x-sample-rate"], telephone.headers["x-omni-ignored"], len(telephone.content) > 0)
try:
    client.audio.speech.create(model=model, voice="alloy", input="")
except BadRequestError as error:
    print("empty", error.code, error.param)
"#;

#[tokio::test]
async fn openais_own_client_speaks_and_converses() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let own = speech(&server, json!({"response_format": "wav"}))
        .await
        .body
        .len();
    let text = parsed(&chat(&server, json!({})).await)["choices"][0]["message"]["content"].clone();
    let text = text.as_str().expect("text").to_owned();
    let url = format!("http://{}/v1", server.app.address());
    let Some(said) = python("openai", "openai", SCRIPT, &[&url, TEXT]).await else {
        return;
    };
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[..2], [format!("speech {own}"), format!("streamed {own}")]);
    assert_eq!(lines[2], "ignored instructions");
    assert_eq!(lines[3], format!("written {text}"));
    assert!(
        lines[4].starts_with("heard ") && lines[4].ends_with(&text),
        "{said}"
    );
    assert_eq!(lines[5], format!("chunks {text}"));
    assert_eq!(lines[6], "one name True");
    assert_eq!(lines[7], "calls weather {\"city\": \"Oslo\"}");
    assert!(
        lines[8].starts_with("refused voice_not_found voice req_"),
        "{said}"
    );
    assert_eq!(lines[9], "telephone 16000 emotion True");
    assert_eq!(lines[10], "empty nothing_speakable input");
    server.stop().await;
}

#[tokio::test]
async fn what_is_not_read_is_refused_with_a_code_of_its_own() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let code = |answer: HttpAnswer| {
        let code = parsed(&answer)["error"]["code"].as_str().map(str::to_owned);
        (answer.status.as_u16(), code.expect("a code"))
    };
    let told = |status: u16, code: &str| (status, code.to_owned());
    let path = "/v1/audio/speech";
    let long = send(&server, path, " ".repeat(2 << 20)).await;
    let message = parsed(&long)["error"]["message"].clone();
    assert_eq!(message, "the body is too long; expected at most 1048576 bytes");
    assert_eq!(code(long), told(413, "body_too_large"));
    let text = http(&server, "POST", path, &[("content-type", "text/plain")], "{}").await;
    assert_eq!(code(text), told(415, "unsupported_media_type"));
    assert_eq!(code(get(&server, path).await), told(405, "method_not_allowed"));
    assert_eq!(
        code(get(&server, "/v1/images").await),
        told(404, "route_not_found")
    );
    server.stop().await;
}
