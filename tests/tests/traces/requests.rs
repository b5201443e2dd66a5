//! One trace shows where a request was, and when.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::{SinkExt as _, StreamExt as _};
use omni_config::{Quotas, Scope, new_key};
use omni_proto::v1;
use omni_tests::{
    FakeScript, WyomingEvent, audio_of, audio_of_request, chat_config, chat_message, config, finish,
    generate, http, text, vanish,
};
use opentelemetry_proto::tonic::trace::v1::Status;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::collector::{Collector, Seen, attributes, only, scripted, server, with_args};

const SENTENCE: &str = "This is one sentence.";

fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time of day");
    u64::try_from(since.as_nanos()).expect("a time of day")
}

/// Everything is in one trace, a part of the request, and within its time.
fn check_tree(spans: &[Seen], before: u64, after: u64) {
    let root = only(spans, "llm_request");
    assert!(before <= root.start && root.end <= after, "{root:#?}");
    assert_eq!(root.wire.kind, i32::from(SpanKind::Server));
    for span in spans.iter().filter(|span| span.id != root.id) {
        assert_eq!((&span.trace, &span.parent), (&root.trace, &root.id), "{span:#?}");
        assert_eq!(span.wire.kind, i32::from(SpanKind::Internal), "{span:#?}");
        assert!(
            root.start <= span.start && span.start <= span.end && span.end <= root.end,
            "{span:#?} is not within {root:#?}"
        );
    }
}

/// Checks the order of the spans of speech.
fn check_speech(spans: &[Seen], text: &str) {
    let talker = only(spans, "talker");
    let code2wav = only(spans, "code2wav");
    let text = only(spans, text);
    let frames = only(spans, "edge talker->code2wav");
    let audio = only(spans, "edge code2wav->session");
    assert!(talker.start <= talker.event("first step"));
    assert!(talker.event("first step") <= talker.event("first output"));
    assert!(
        text.start <= talker.event("first output"),
        "text comes before speech"
    );
    assert!(
        talker.event("first output") <= frames.start,
        "frames pass when they are made"
    );
    assert!(frames.start <= code2wav.event("first step"));
    assert!(
        code2wav.event("first output") <= audio.start,
        "audio passes when it is made"
    );
    assert!(frames.end <= audio.end);
    assert_eq!(talker.count("omni.outputs"), frames.count("omni.edge.chunks"));
    for edge in [text, frames, audio] {
        assert!(edge.count("omni.edge.bytes") > 0, "{edge:#?}");
        assert_eq!(edge.count("omni.sequence"), talker.count("omni.sequence"));
    }
    assert_eq!(frames.text("omni.edge.from"), "talker-0");
    assert_eq!(frames.text("omni.edge.to"), "code2wav-0");
    assert_eq!(talker.count("omni.replica"), 0);
}

/// The times that vLLM's spans have, and that they agree with each other.
fn check_latencies(root: &Seen) {
    let seconds = |name: &str| root.seconds(&format!("gen_ai.latency.{name}"));
    let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
    let written = root.seconds("omni.latency.text_wait");
    assert!(close(
        seconds("e2e") + written,
        (root.end - root.start) as f64 / 1e9
    ));
    assert!(close(
        seconds("time_in_model_prefill") + seconds("time_in_model_decode"),
        seconds("time_in_model_inference")
    ));
    assert!(close(
        seconds("time_in_queue") + seconds("time_in_model_prefill"),
        seconds("time_to_first_token")
    ));
    assert!(seconds("time_to_first_token") + seconds("time_in_model_decode") <= seconds("e2e") + 1e-6);
}

fn names(spans: &[Seen]) -> Vec<&str> {
    let mut names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_spoken_text_is_one_trace_from_the_queue_through_every_stage_and_edge() {
    let collector = Collector::start().await;
    let server = server(&collector.url(), |_| {}).await;
    let before = now();
    let (_, outcome) = audio_of(&mut server.speech(), v1::SpeechConfig::default(), SENTENCE)
        .await
        .expect("audio");
    server.idle(1).await;
    server.stop().await;
    let spans = collector.spans();
    let expected = [
        "code2wav",
        "edge code2wav->session",
        "edge session->talker",
        "edge talker->code2wav",
        "llm_request",
        "queue",
        "talker",
        "text",
    ];
    assert_eq!(names(&spans), expected);
    check_tree(&spans, before, now());
    check_speech(&spans, "edge session->talker");
    let root = only(&spans, "llm_request");
    check_latencies(root);
    let text = only(&spans, "text");
    let queue = only(&spans, "queue");
    assert_eq!((text.start, text.end), (root.start, queue.start));
    assert_eq!(root.parent, "", "the call came from no span");
    let queue = only(&spans, "queue");
    assert!(queue.end <= only(&spans, "talker").start);
    let usage = outcome.usage.expect("usage");
    assert_eq!(
        root.count("gen_ai.usage.prompt_tokens"),
        u64::from(usage.input_text_tokens)
    );
    assert_eq!(
        root.count("gen_ai.usage.completion_tokens"),
        u64::from(usage.output_audio_tokens)
    );
    assert_eq!(root.text("gen_ai.operation.name"), "text_to_speech");
    assert_eq!(root.text("omni.outcome"), "stop");
    assert_eq!(root.wire.status.clone().unwrap_or_default(), Status::default());
}

#[tokio::test]
async fn an_answer_is_one_trace_with_the_thinker_before_those_who_speak() {
    let collector = Collector::start().await;
    let server = server(&collector.url(), |_| {}).await;
    let before = now();
    let question = vec![chat_message(
        v1::Role::User,
        "say One sentence is long enough to be heard.",
    )];
    let answer = generate(&mut server.chat(), chat_config(true), question)
        .await
        .expect("an answer");
    server.chats_over(1).await;
    server.stop().await;
    let spans = collector.spans();
    let expected = [
        "code2wav",
        "edge code2wav->session",
        "edge talker->code2wav",
        "edge thinker->session",
        "edge thinker->talker",
        "llm_request",
        "prompt",
        "queue",
        "talker",
        "thinker",
    ];
    assert_eq!(names(&spans), expected);
    check_tree(&spans, before, now());
    check_speech(&spans, "edge thinker->talker");
    let root = only(&spans, "llm_request");
    check_latencies(root);
    let queue = only(&spans, "queue");
    let prompt = only(&spans, "prompt");
    let thinker = only(&spans, "thinker");
    let tokens = only(&spans, "edge thinker->session");
    assert_eq!(queue.end, prompt.start);
    assert_eq!(prompt.end, thinker.start);
    assert!(thinker.event("first output") <= tokens.start);
    assert!(
        tokens.start <= only(&spans, "talker").start,
        "words are spoken when there are some"
    );
    assert_eq!(tokens.count("omni.sequence"), thinker.count("omni.sequence"));
    let usage = answer.outcome.usage.expect("usage");
    let tokens = u64::from(usage.output_text_tokens);
    assert_eq!(root.count("gen_ai.usage.completion_tokens"), tokens);
    assert_eq!(thinker.count("omni.outputs"), tokens);
    assert_eq!(root.text("gen_ai.operation.name"), "chat");
    assert!(root.count("gen_ai.request.max_tokens") > 0);
}

#[tokio::test]
async fn every_sequence_of_an_utterance_is_told_from_the_others() {
    let collector = Collector::start().await;
    let server = server(&collector.url(), |_| {}).await;
    let two = "This is a sentence. And here is one more, a longer one, to be spoken after it.";
    audio_of(&mut server.speech(), v1::SpeechConfig::default(), two)
        .await
        .expect("audio");
    server.idle(1).await;
    server.stop().await;
    let spans = collector.spans();
    assert_eq!(only(&spans, "llm_request").count("omni.sequences"), 2);
    let sequences = |name: &str| {
        let found = spans.iter().filter(|span| span.name == name);
        let mut sequences: Vec<_> = found.map(|span| span.count("omni.sequence")).collect();
        sequences.sort_unstable();
        sequences
    };
    let talker = sequences("talker");
    assert!(talker.len() == 2 && talker[0] != talker[1], "{talker:?}");
    for name in ["code2wav", "edge talker->code2wav", "edge code2wav->session"] {
        assert_eq!(sequences(name), talker, "{name}");
    }
}

#[tokio::test]
async fn what_a_caller_took_to_write_is_told_and_in_no_latency() {
    let collector = Collector::start().await;
    let server = server(&collector.url(), |_| {}).await;
    let mut call = server.call().await;
    call.send(config(v1::SpeechConfig::default())).await;
    call.ready().await;
    let writing = now();
    call.send(text("This is a sentence that")).await;
    for word in [" takes", " its", " time", " to", " be", " written"] {
        // Each round trip is a pause of the writer.
        server.serving().await;
        call.send(text(word)).await;
    }
    let written = now();
    call.send(text(".")).await;
    call.send(finish()).await;
    call.utterance().await;
    drop(call);
    server.idle(1).await;
    let timings = server.records.all().remove(0).timings;
    server.stop().await;
    let spans = collector.spans();
    let root = only(&spans, "llm_request");
    check_latencies(root);
    let close = |name: &str, expected: Duration| {
        let told = root.seconds(name);
        assert!(
            (told - expected.as_secs_f64()).abs() < 1e-6,
            "{name}: {told} {expected:?}"
        );
    };
    close("omni.latency.text_wait", timings.text_wait);
    close(
        "omni.latency.time_to_first_audio",
        timings.first_packet.expect("it was heard"),
    );
    close("gen_ai.latency.e2e", timings.total - timings.text_wait);
    let queue = timings.queue.expect("it began") - timings.ready.expect("it could be spoken");
    close("gen_ai.latency.time_in_queue", queue);
    let text = only(&spans, "text");
    assert!(text.end - text.start >= (written - writing) / 2, "{text:#?}");
}

#[tokio::test]
async fn a_caller_who_vanishes_leaves_a_trace_that_says_so() {
    let collector = Collector::start().await;
    let script = FakeScript::default();
    let server = scripted(&collector.url(), script.clone(), |_| {}).await;
    vanish(&server, &script).await;
    script.talker.open();
    server.idle(1).await;
    server.stop().await;
    let spans = collector.spans();
    let root = only(&spans, "llm_request");
    let status = root.wire.status.as_ref().expect("a status");
    assert_eq!(status.code, i32::from(StatusCode::Error));
    assert_eq!(status.message, "CALLER_GONE");
    assert_eq!(root.text("omni.outcome"), "aborted");
    assert!(
        spans.iter().any(|span| span.name == "talker"),
        "how far it got is there"
    );
}

/// The span of the request of that id.
fn of<'a>(spans: &'a [Seen], id: &str) -> &'a Seen {
    let is_of = |span: &&Seen| {
        let named = span.attributes.contains_key("omni.request.id");
        named && span.text("omni.request.id") == id
    };
    let mut found = spans.iter().filter(is_of);
    let span = found
        .next()
        .unwrap_or_else(|| panic!("no span of {id} among {spans:#?}"));
    assert!(found.next().is_none(), "{id} has several spans");
    span
}

#[tokio::test]
async fn a_request_that_is_refused_before_anything_of_it_began_is_a_span_with_the_reason() {
    let place = tempfile::tempdir().expect("a place");
    let quotas = Quotas {
        requests_per_second: Some(0.001),
        burst: Some(1),
        ..Quotas::default()
    };
    let new = |quotas: &Quotas| new_key("somebody", &[Scope::Speech], quotas).expect("random bytes");
    let (good, poor) = (new(&Quotas::default()), new(&quotas));
    let keys = place.path().join("keys");
    std::fs::write(&keys, format!("{}\n{}\n", good.1, poor.1)).expect("a file");
    let collector = Collector::start().await;
    let server = server(&collector.url(), |config| config.api_keys = Some(keys)).await;
    let hello = r#"{"model": "tts-1", "input": "Hello there."}"#;
    // One that is served has a span of its own kind, and no other.
    let key = format!("Bearer {}", poor.0);
    let headers = [
        ("content-type", "application/json"),
        ("x-request-id", "served"),
        ("authorization", &key),
    ];
    let served = http(&server, "POST", "/v1/audio/speech", &headers, hello).await;
    assert_eq!(served.status, 200);
    let caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let cases = [
        ("no-key", "", hello, 401),
        ("bad-key", "nonsense", hello, 401),
        ("no-json", &good.0, r#"{"input": "Hello"#, 400),
        (
            "no-model",
            &good.0,
            r#"{"model": "parakeet", "input": "Hello."}"#,
            404,
        ),
        (
            "no-voice",
            &good.0,
            r#"{"voice": "nobody", "input": "Hello."}"#,
            400,
        ),
        ("too-much", &poor.0, hello, 429),
    ];
    for (id, key, body, status) in &cases {
        let key = format!("Bearer {key}");
        let mut headers = vec![
            ("content-type", "application/json"),
            ("x-request-id", id),
            ("traceparent", caller),
        ];
        if *id != "no-key" {
            headers.push(("authorization", &key));
        }
        let answer = http(&server, "POST", "/v1/audio/speech", &headers, *body).await;
        assert_eq!(
            answer.status,
            *status,
            "{id}: {}",
            String::from_utf8_lossy(&answer.body)
        );
    }
    for (id, key) in [("grpc-no-key", ""), ("grpc-no-voice", good.0.as_str())] {
        let mut request = tonic::Request::new(v1::SynthesizeRequest {
            config: Some(v1::SpeechConfig {
                voice: "nobody".to_owned(),
                ..v1::SpeechConfig::default()
            }),
            text: "Hello.".to_owned(),
        });
        let metadata = request.metadata_mut();
        metadata.insert("x-request-id", id.parse().expect("a value"));
        if !key.is_empty() {
            metadata.insert("authorization", format!("Bearer {key}").parse().expect("a value"));
        }
        assert!(audio_of_request(&mut server.speech(), request).await.is_err());
    }
    server.idle(1).await;
    server.stop().await;
    let spans = collector.spans();
    for (id, _, _, status) in &cases {
        let span = of(&spans, id);
        assert_eq!(span.name, "llm_request");
        assert_eq!(span.parent, "00f067aa0ba902b7", "{span:#?}");
        assert_eq!(span.text("omni.outcome"), "refused");
        assert_eq!(span.text("omni.request.status"), status.to_string());
        assert_eq!(span.text("omni.request.route"), "POST /v1/audio/speech");
        let told = span.wire.status.as_ref().expect("a status");
        assert_eq!(told.code, i32::from(StatusCode::Error));
        assert_eq!(told.message, span.text("error.type"));
    }
    assert_ne!(
        of(&spans, "no-key").text("error.type"),
        of(&spans, "bad-key").text("error.type")
    );
    assert_eq!(of(&spans, "served").text("omni.outcome"), "stop");
    for (id, status) in [
        ("grpc-no-key", "UNAUTHENTICATED"),
        ("grpc-no-voice", "INVALID_ARGUMENT"),
    ] {
        let span = of(&spans, id);
        assert_eq!(span.text("omni.request.status"), status, "{span:#?}");
        assert_eq!(span.text("network.protocol.name"), "grpc");
    }
}

#[tokio::test]
async fn requests_by_wyoming_have_spans_with_an_id_and_one_that_is_refused_after_another_too() {
    let collector = Collector::start().await;
    let args = ["--wyoming", "127.0.0.1:0"];
    let server = with_args(&collector.url(), &args, FakeScript::default(), |_| {}).await;
    let address = server.app.wyoming_address().expect("--wyoming");
    let mut stream = BufReader::new(TcpStream::connect(address).await.expect("it listens"));
    let ask = |text: &str, voice: &str| {
        let data = serde_json::json!({"text": text, "voice": {"name": voice}}).to_string();
        format!(
            "{{\"type\": \"synthesize\", \"data_length\": {}}}\n{data}",
            data.len()
        )
    };
    stream
        .write_all(ask(SENTENCE, "").as_bytes())
        .await
        .expect("it reads");
    while WyomingEvent::next(&mut stream).await.expect("an event").kind != "audio-stop" {}
    stream
        .write_all(ask(SENTENCE, "parrot").as_bytes())
        .await
        .expect("it reads");
    assert_eq!(
        WyomingEvent::next(&mut stream).await.expect("an event").kind,
        "error"
    );
    server.idle(1).await;
    server.stop().await;
    let spans = collector.spans();
    let roots: Vec<_> = spans.iter().filter(|span| span.name == "llm_request").collect();
    let [spoken, refused] = roots[..] else {
        panic!("one span each: {roots:#?}")
    };
    assert_eq!(
        (spoken.text("omni.outcome"), refused.text("omni.outcome")),
        ("stop", "refused")
    );
    for span in roots {
        assert_eq!(span.text("network.protocol.name"), "wyoming");
        assert_eq!(span.text("omni.request.route"), "synthesize");
        assert!(span.text("omni.request.id").starts_with("wyo_"), "{span:#?}");
    }
    assert_eq!(
        spoken.text("omni.request.id"),
        refused.text("omni.request.id"),
        "of one connection"
    );
}

#[tokio::test]
async fn a_speech_socket_whose_first_session_is_refused_has_a_span() {
    let collector = Collector::start().await;
    let server = server(&collector.url(), |_| {}).await;
    let url = format!("ws://{}/v1/audio/speech/stream", server.app.address());
    let stream = TcpStream::connect(server.app.address())
        .await
        .expect("it listens");
    let (mut socket, _) = client_async(url, stream).await.expect("a WebSocket");
    let config = r#"{"type": "session.config", "voice": "parrot"}"#;
    socket.send(Message::text(config)).await.expect("it reads");
    let told = socket.next().await.expect("an error").expect("a message");
    assert!(
        told.to_text().expect("text").contains("voice_not_found"),
        "{told}"
    );
    socket
        .send(Message::text(r#"{"type": "session.close"}"#))
        .await
        .expect("it reads");
    while let Some(Ok(_)) = socket.next().await {}
    server.stop().await;
    let spans = collector.spans();
    let root = only(&spans, "llm_request");
    assert_eq!(root.text("omni.outcome"), "refused");
    assert_eq!(root.text("network.protocol.name"), "websocket");
    assert_eq!(root.text("omni.request.route"), "GET /v1/audio/speech/stream");
}

#[tokio::test]
async fn nothing_that_was_said_is_in_a_trace_and_the_server_says_who_it_is() {
    let collector = Collector::start().await;
    let server = server(&collector.url(), |config| {
        let traces = config.traces.as_mut().expect("an endpoint");
        let secret = "Bearer s3cret".parse().expect("a header");
        traces.headers.insert("authorization", secret);
        traces.gzip = true;
    })
    .await;
    let mut call = server.call().await;
    call.send(config(v1::SpeechConfig::default())).await;
    call.ready().await;
    call.send(text("Confidential words.")).await;
    call.hang_up();
    call.utterance().await;
    assert_eq!(call.next().await, None);
    let question = vec![chat_message(v1::Role::User, "say Confidential words.")];
    generate(&mut server.chat(), chat_config(true), question)
        .await
        .expect("an answer");
    server.stop().await;
    let batches = collector.batches();
    let all = format!(
        "{:?}",
        batches.iter().map(|batch| &batch.request).collect::<Vec<_>>()
    );
    assert!(!all.is_empty() && !all.contains("onfidential"), "{all}");
    assert!(!all.contains("s3cret"));
    for batch in &batches {
        assert_eq!(
            batch.metadata.get("authorization").expect("it was sent"),
            "Bearer s3cret"
        );
        let resource = batch.request.resource_spans[0]
            .resource
            .as_ref()
            .expect("a resource");
        let service = attributes(&resource.attributes)["service.name"].clone();
        assert_eq!(format!("{service:?}"), "StringValue(\"omni-server\")");
    }
}
