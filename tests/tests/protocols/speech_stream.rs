//! `/v1/audio/speech/stream`, the WebSocket of vLLM-Omni: the wire format, Python and browser clients, and
//! misbehaving ones.

mod pending;

use std::fs;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use hyper::StatusCode;
use omni_config::{Quotas, Scope, new_key};
use omni_tests::{
    Authority, FAKE_RATE, FakeScript, FakeSpeech, Gate, Reading, TestServer, http, http2, python,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

const PATH: &str = "/v1/audio/speech/stream";
const TEXT: &str = "Hello there. How are you?";
/// Bytes before the samples of a WAV file.
const HEADER: usize = 44;

/// Frame that the server sends.
#[derive(Debug, PartialEq)]
enum Frame {
    Text(Value),
    Audio(Vec<u8>),
    /// The code of a close frame.
    Closed(u16),
    /// The connection is gone without one.
    Gone,
}

struct Client(WebSocketStream<TcpStream>);

impl Client {
    /// Asks with these headers; gives the status of a refusal.
    async fn open(
        server: &TestServer,
        headers: &[(&str, &str)],
    ) -> Result<(Self, Option<String>), StatusCode> {
        let address = server.app.address();
        let mut request = format!("ws://{address}{PATH}")
            .into_client_request()
            .expect("a request");
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().expect("a name");
            request
                .headers_mut()
                .insert(name, value.parse().expect("a value"));
        }
        let stream = TcpStream::connect(address).await.expect("the server listens");
        match client_async(request, stream).await {
            Ok((socket, answer)) => {
                let protocol = answer.headers().get("sec-websocket-protocol");
                let protocol = protocol.map(|value| value.to_str().expect("text").to_owned());
                Ok((Self(socket), protocol))
            }
            Err(Error::Http(refused)) => Err(refused.status()),
            Err(error) => panic!("{error}"),
        }
    }

    async fn connect(server: &TestServer) -> Self {
        Self::open(server, &[]).await.expect("it is accepted").0
    }

    async fn send(&mut self, message: Value) {
        let text = Message::text(message.to_string());
        self.0.send(text).await.expect("the server reads");
    }

    async fn configure(&mut self, more: Value) {
        let mut config = json!({"type": "session.config", "stream_audio": true, "seed": 7});
        let fields = config.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        self.send(config).await;
    }

    async fn say(&mut self, text: &str) {
        for piece in text.split_inclusive(' ') {
            self.send(json!({"type": "input.text", "text": piece})).await;
        }
        self.send(json!({"type": "input.done"})).await;
    }

    async fn next(&mut self) -> Frame {
        loop {
            return match self.0.next().await {
                Some(Ok(Message::Text(text))) => Frame::Text(serde_json::from_str(&text).expect("JSON")),
                Some(Ok(Message::Binary(bytes))) => Frame::Audio(bytes.to_vec()),
                Some(Ok(Message::Close(frame))) => Frame::Closed(frame.expect("a code").code.into()),
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => Frame::Gone,
            };
        }
    }

    async fn told(&mut self) -> Value {
        match self.next().await {
            Frame::Text(told) => told,
            other => panic!("expected text, got {other:?}"),
        }
    }

    async fn error(&mut self) -> (String, Value) {
        let told = self.told().await;
        assert_eq!(told["type"], "error", "{told}");
        (
            told["code"].as_str().expect("a code").to_owned(),
            told["param"].clone(),
        )
    }

    /// The frames of the next utterance, and what stood before them.
    async fn utterance(&mut self, index: u64) -> (Value, Vec<Vec<u8>>) {
        let start = self.told().await;
        assert_eq!(start["type"], "audio.start", "{start}");
        assert_eq!(
            (&start["utterance_index"], &start["sentence_index"]),
            (&json!(index), &json!(0))
        );
        let mut frames = Vec::new();
        loop {
            match self.next().await {
                Frame::Audio(bytes) => frames.push(bytes),
                Frame::Text(done) => {
                    let bytes: usize = frames.iter().map(Vec::len).sum();
                    let expected = json!({
                        "type": "audio.done", "utterance_index": index, "sentence_index": 0, "total_bytes": bytes, "error": false,
                    });
                    assert_eq!(done, expected);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        let done = self.told().await;
        assert_eq!(
            (&done["type"], &done["utterance_index"], &done["total_sentences"]),
            (&json!("session.done"), &json!(index), &json!(1))
        );
        (start, frames)
    }
}

async fn fake(arguments: &[&str]) -> TestServer {
    TestServer::fake(FakeScript::default(), arguments).await
}

/// The same speech by HTTP.
async fn posted(server: &TestServer, format: &str) -> Vec<u8> {
    requested(server, json!({"response_format": format})).await
}

/// As above, with this voice.
async fn posted_as(server: &TestServer, voice: &str) -> Vec<u8> {
    requested(server, json!({"response_format": "pcm", "voice": voice})).await
}

async fn requested(server: &TestServer, mut body: Value) -> Vec<u8> {
    (body["input"], body["seed"]) = (json!(TEXT), json!(7));
    let body = body.to_string();
    let kind = [("content-type", "application/json")];
    let answer = http(server, "POST", "/v1/audio/speech", &kind, body).await;
    assert_eq!(answer.status, StatusCode::OK);
    answer.body
}

async fn requests(server: &TestServer, result: &str) -> f64 {
    let labels = [("protocol", "websocket"), ("result", result)];
    let reading = Reading::of(server).await;
    reading.sum("vllm:omni_protocol_requests_total", &labels)
}

async fn over(server: &TestServer) {
    server
        .until("every session has ended", || server.app.sessions() == 0)
        .await;
}

#[tokio::test]
async fn text_that_comes_in_pieces_is_the_audio_of_the_whole_text() {
    let server = fake(&[]).await;
    let mut client = Client::connect(&server).await;
    client.configure(json!({})).await;
    for index in 0..2 {
        client.say(TEXT).await;
        let (start, frames) = client.utterance(index).await;
        assert_eq!(
            (&start["format"], &start["sample_rate"]),
            (&json!("pcm"), &json!(24_000))
        );
        let text = start["sentence_text"].as_str().expect("a text");
        assert!(!text.is_empty() && TEXT.starts_with(text), "{text:?}");
        assert!(frames.len() > 1 && frames.iter().all(|frame| frame.len() % 2 == 0));
        assert_eq!(frames.concat(), posted(&server, "pcm").await);
    }
    client.send(json!({"type": "session.close"})).await;
    assert_eq!(client.next().await, Frame::Closed(1000));
    server.idle(4).await;
    assert_eq!(requests(&server, "ok").await, 2.0);
    server.stop().await;
}

#[tokio::test]
async fn an_utterance_is_one_file_unless_a_stream_is_asked_for() {
    let server = fake(&[]).await;
    let mut client = Client::connect(&server).await;
    let formats = [
        (json!({}), "wav"),
        (json!({"response_format": "mp3"}), "mp3"),
        (json!({"response_format": "flac"}), "flac"),
    ];
    for (index, (more, format)) in (0..).zip(formats) {
        let mut config = json!({"stream_audio": false});
        config
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        client.configure(config).await;
        client.say(TEXT).await;
        let (start, frames) = client.utterance(index).await;
        assert_eq!(start["format"], format);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0], posted(&server, format).await, "{format}");
        if format == "wav" {
            assert_eq!(start["sample_rate"], FAKE_RATE);
            let samples = u32::from_le_bytes(frames[0][40..44].try_into().unwrap()) as usize;
            assert_eq!(samples, frames[0].len() - HEADER, "the header has the length");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn audio_comes_while_text_is_still_written() {
    let server = fake(&[]).await;
    let mut client = Client::connect(&server).await;
    client.configure(json!({})).await;
    client
        .send(json!({"type": "input.text", "text": "Hello there. How"}))
        .await;
    assert_eq!(client.told().await["sentence_text"], "Hello there. How");
    assert!(matches!(client.next().await, Frame::Audio(_)));
    client
        .send(json!({"type": "input.text", "text": " are you?"}))
        .await;
    client.send(json!({"type": "input.done"})).await;
    while client.next().await
        != Frame::Text(json!({"type": "session.done", "utterance_index": 0, "total_sentences": 1}))
    {}
    drop(client);
    server.idle(1).await;
    server.stop().await;
}

#[tokio::test]
async fn a_flush_without_text_is_answered_in_its_turn() {
    let server = fake(&[]).await;
    let mut client = Client::connect(&server).await;
    client.configure(json!({})).await;
    client.say("Hello.").await;
    client.send(json!({"type": "input.done"})).await;
    client.say("Hello.").await;
    client.utterance(0).await;
    let empty = json!({"type": "session.done", "utterance_index": 1, "total_sentences": 0});
    assert_eq!(client.told().await, empty);
    client.utterance(2).await;
    server.stop().await;
}

#[tokio::test]
async fn what_is_refused_is_told_and_the_connection_goes_on() {
    let server = fake(&[]).await;
    let mut client = Client::connect(&server).await;
    client.send(json!({"type": "input.text", "text": "a"})).await;
    assert_eq!(client.error().await, ("invalid_field".to_owned(), json!("type")));
    for (text, param) in [
        ("{", Value::Null),
        ("[]", Value::Null),
        (r#"{"type":"smoke"}"#, json!("type")),
    ] {
        client.0.send(Message::text(text)).await.unwrap();
        assert_eq!(client.error().await.1, param, "{text}");
    }
    client.0.send(Message::binary(vec![1, 2])).await.unwrap();
    client.error().await;
    for (more, code, param) in [
        (json!({"voice": "zz"}), "voice_not_found", "voice"),
        (json!({"model": "zz"}), "model_not_found", "model"),
        (json!({"speed": 9}), "invalid_field", "speed"),
        (
            json!({"response_format": "midi"}),
            "invalid_field",
            "response_format",
        ),
        (
            json!({"word_timestamps": true}),
            "invalid_field",
            "word_timestamps",
        ),
        (json!({"ref_audio": "AAAA"}), "invalid_field", "ref_audio"),
    ] {
        client.configure(more).await;
        assert_eq!(client.error().await, (code.to_owned(), json!(param)));
    }
    client.configure(json!({"instructions": "Speak kindly."})).await;
    client
        .send(json!({"type": "input.text", "text": "Hello. "}))
        .await;
    client.configure(json!({})).await;
    let mut refused = false;
    client.say("You.").await;
    loop {
        match client.next().await {
            Frame::Text(told) if told["type"] == "error" => refused = true,
            Frame::Text(told) if told["type"] == "session.done" => {
                assert_eq!(told["ignored"], json!(["instructions"]));
                break;
            }
            Frame::Closed(_) | Frame::Gone => panic!("the connection goes on"),
            _ => {}
        }
    }
    assert!(refused, "text is buffered");
    client.configure(json!({"voice": "alloy"})).await;
    client.say(TEXT).await;
    client.utterance(1).await;
    server.stop().await;
}

#[tokio::test]
async fn a_text_that_is_too_long_ends_its_utterance_alone() {
    let server = fake(&[]).await;
    let mut client = Client::connect(&server).await;
    client.configure(json!({})).await;
    client
        .send(json!({"type": "input.text", "text": "a".repeat(30_000)}))
        .await;
    assert_eq!(client.error().await.0, "text_too_long");
    assert_eq!(client.told().await["type"], "session.done");
    client
        .send(json!({"type": "input.text", "text": "more of it"}))
        .await;
    client.send(json!({"type": "input.done"})).await;
    client.say(TEXT).await;
    let (start, _) = client.utterance(1).await;
    assert!(TEXT.starts_with(start["sentence_text"].as_str().expect("text")));
    assert_eq!(requests(&server, "error").await, 1.0);
    server.stop().await;
}

#[tokio::test]
async fn keys_come_by_header_and_from_pages_by_subprotocol() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let (key, line) = new_key("somebody", &[Scope::Speech], &Quotas::default()).expect("random bytes");
    let (chatty, other) = new_key("chatty", &[Scope::Chat], &Quotas::default()).expect("random bytes");
    fs::write(&file, format!("{line}\n{other}\n")).unwrap();
    let page = "https://page.example";
    let server = fake(&["--api-keys", file.to_str().expect("text"), "--cors-origin", page]).await;
    let bearer = |key: &str| format!("Bearer {key}");
    let offered = |key: &str| format!("speech, openai-insecure-api-key.{key}");
    let refused = async |headers: &[(&str, &str)]| Client::open(&server, headers).await.err();
    assert_eq!(refused(&[]).await, Some(StatusCode::UNAUTHORIZED));
    let wrong = offered("wrong");
    assert_eq!(
        refused(&[("sec-websocket-protocol", &wrong)]).await,
        Some(StatusCode::UNAUTHORIZED)
    );
    let chatty = bearer(&chatty);
    assert_eq!(
        refused(&[("authorization", &chatty)]).await,
        Some(StatusCode::FORBIDDEN)
    );
    let own = offered(&key);
    let bearer = bearer(&key);
    let foreign = [
        ("sec-websocket-protocol", own.as_str()),
        ("origin", "https://evil.example"),
    ];
    assert_eq!(refused(&foreign).await, Some(StatusCode::FORBIDDEN));
    for (headers, protocol) in [
        (vec![("authorization", bearer.as_str())], None),
        (vec![("x-api-key", key.as_str())], None),
        (
            vec![("sec-websocket-protocol", own.as_str()), ("origin", page)],
            Some("speech"),
        ),
    ] {
        let (mut client, answered) = Client::open(&server, &headers).await.expect("it is accepted");
        assert_eq!(answered.as_deref(), protocol);
        client.configure(json!({})).await;
        client.say("Hello.").await;
        client.utterance(0).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn pages_of_other_origins_are_refused_where_no_keys_are_asked_for_too() {
    let server = fake(&[]).await;
    let refused = Client::open(&server, &[("origin", "https://evil.example")]).await;
    assert_eq!(refused.err(), Some(StatusCode::FORBIDDEN));
    let own = format!("http://{}", server.app.address());
    assert!(Client::open(&server, &[("origin", &own)]).await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_websocket_is_told_what_is_expected() {
    let server = fake(&[]).await;
    let plain = http(&server, "GET", PATH, &[], "").await;
    assert_eq!(plain.status, StatusCode::UPGRADE_REQUIRED);
    let error: Value = serde_json::from_slice(&plain.body).expect("JSON");
    assert_eq!(error["error"]["code"], "websocket_expected");
    let second = http2(server.app.address(), "GET", PATH, &[], "").await;
    assert_eq!(second.status, StatusCode::UPGRADE_REQUIRED);
    let posted = http(&server, "POST", PATH, &[], "").await;
    assert_eq!(posted.status, StatusCode::METHOD_NOT_ALLOWED);
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_nothing_behind() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.talker.close();
    for politely in [false, true] {
        let mut client = Client::connect(&server).await;
        client.configure(json!({})).await;
        client.say(TEXT).await;
        server
            .until("the session runs", || server.app.sessions() == 1)
            .await;
        if politely {
            client.0.close(None).await.expect("a close frame");
        }
        drop(client);
        over(&server).await;
    }
    script.talker.open();
    server.idle(2).await;
    assert_eq!(requests(&server, "cancelled").await, 2.0);
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_stops_reading_is_let_go() {
    let server = fake(&["--stall-timeout", "50ms"]).await;
    let mut client = Client::connect(&server).await;
    client.configure(json!({})).await;
    // More audio than sockets hold.
    client
        .send(json!({"type": "input.text", "text": "abcdefghi ".repeat(1_900)}))
        .await;
    client.send(json!({"type": "input.done"})).await;
    server
        .until("the session runs", || server.app.sessions() == 1)
        .await;
    over(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn messages_without_end_and_bytes_without_sense_end_the_connection() {
    let server = fake(&[]).await;
    let mut client = Client::connect(&server).await;
    let long = json!({"type": "input.text", "text": "a".repeat(2 << 20)});
    let _ = client.0.send(Message::text(long.to_string())).await;
    assert_eq!(client.error().await.1, Value::Null);
    assert_eq!(client.next().await, Frame::Closed(1009));
    // A frame of a gigabyte, and then bytes that are no frames.
    for (bytes, code) in [
        (&[0x81, 0xFF, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4][..], 1009),
        (&[0xFF; 64], 1007),
        // A text that is no UTF-8, under a mask of zeros.
        (&[0x81, 0x82, 0, 0, 0, 0, 0xC3, 0x28], 1007),
    ] {
        let mut client = Client::connect(&server).await;
        client
            .0
            .get_mut()
            .write_all(bytes)
            .await
            .expect("the server reads");
        assert_eq!(client.error().await.1, Value::Null);
        assert_eq!(client.next().await, Frame::Closed(code));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_silent_peer_is_asked_whether_it_is_there() {
    let soon = Duration::from_millis(100);
    let load = || Ok(FakeSpeech::new(FakeScript::default()));
    let adjust = |config: &mut omni_config::Config| {
        config.connections.keepalive = soon;
        config.connections.keepalive_timeout = soon;
    };
    let mut server = TestServer::adjusted(&[], adjust, load).await;
    server.app.ready().await.expect("the fake model loads");
    let mut lost = Client::connect(&server).await;
    lost.configure(json!({})).await;
    server
        .until("the session runs", || server.app.sessions() == 1)
        .await;
    // It reads nothing, and so answers no ping.
    over(&server).await;
    let mut bytes = Vec::new();
    lost.0.get_mut().read_to_end(&mut bytes).await.expect("the end");
    assert!(bytes.starts_with(&[0x89, 0]), "a ping: {bytes:?}");

    let mut patient = Client::connect(&server).await;
    patient.configure(json!({})).await;
    let reader = async {
        tokio::time::timeout(soon * 5, patient.next())
            .await
            .expect_err("nothing is said");
        patient.say(TEXT).await;
        patient.utterance(0).await;
    };
    reader.await;
    server.stop().await;
}

#[tokio::test]
async fn one_that_never_says_how_to_speak_is_let_go() {
    let load = || Ok(FakeSpeech::new(FakeScript::default()));
    let adjust = |config: &mut omni_config::Config| {
        config.connections.request_time = Duration::from_millis(100);
    };
    let mut server = TestServer::adjusted(&[], adjust, load).await;
    server.app.ready().await.expect("the fake model loads");
    let mut client = Client::connect(&server).await;
    client.error().await;
    assert_eq!(client.next().await, Frame::Closed(1008));
    server.stop().await;
}

#[tokio::test]
async fn a_session_that_is_idle_ends_with_its_reason() {
    let server = fake(&["--idle-timeout", "100ms"]).await;
    let mut client = Client::connect(&server).await;
    client.configure(json!({})).await;
    assert_eq!(client.error().await.0, "session_idle");
    assert_eq!(client.next().await, Frame::Closed(1008));
    over(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn sessions_and_connections_are_bounded_as_those_of_other_callers() {
    let server = fake(&["--max-sessions", "1", "--max-connections-per-peer", "4"]).await;
    let mut first = Client::connect(&server).await;
    first.configure(json!({})).await;
    server
        .until("the session runs", || server.app.sessions() == 1)
        .await;
    let second = Client::open(&server, &[]).await.err();
    assert_eq!(second, Some(StatusCode::TOO_MANY_REQUESTS));
    // The server's own connection, the first, and two more: a WebSocket keeps its place.
    let mut kept = Vec::new();
    let more = async {
        loop {
            let mut stream = TcpStream::connect(server.app.address())
                .await
                .expect("it listens");
            let request = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n";
            let mut status = [0; 12];
            let _ = stream.write_all(request).await;
            match stream.read_exact(&mut status).await {
                Ok(_) if &status == b"HTTP/1.1 200" => kept.push(stream),
                _ => break kept.len(),
            }
        }
    };
    let most = tokio::time::timeout(Duration::from_secs(30), more)
        .await
        .expect("there is a bound");
    assert!(most <= 2, "{most}");
    first.say(TEXT).await;
    first.utterance(0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_loads_says_so_and_one_that_drains_ends_what_it_has_begun() {
    let load = Gate::default();
    load.close();
    let script = FakeScript {
        load: load.clone(),
        ..FakeScript::default()
    };
    let own = script.clone();
    let mut server = TestServer::launch(&[], move || Ok(FakeSpeech::new(own))).await;
    let early = Client::open(&server, &[]).await.err();
    assert_eq!(early, Some(StatusCode::SERVICE_UNAVAILABLE));
    load.open();
    server.app.ready().await.unwrap();
    let mut unset = Client::connect(&server).await;
    let mut client = Client::connect(&server).await;
    client.configure(json!({})).await;
    script.code2wav.close();
    client.say(TEXT).await;
    let admission = server.app.orchestrator().admission();
    server
        .until("the utterance has begun", || admission.free() < 64)
        .await;
    let ending = tokio::spawn(server.app.shut_down(std::future::pending()));
    script.code2wav.open();
    client.utterance(0).await;
    let mut last = client.next().await;
    while matches!(last, Frame::Text(_)) {
        assert!(!format!("{last:?}").contains("error"), "all was served: {last:?}");
        last = client.next().await;
    }
    assert!(matches!(last, Frame::Closed(1000 | 1001)), "{last:?}");
    assert_eq!(unset.next().await, Frame::Closed(1001));
    ending.await.expect("it ends");
}

/// Script of vLLM-Omni's callers, with the library that its examples use.
const SCRIPT: &str = r#"
import asyncio, json, sys
import websockets

url, text = sys.argv[1:]

async def utterance(socket):
    size, frames = 0, 0
    while True:
        message = await asyncio.wait_for(socket.recv(), 60)
        if isinstance(message, bytes):
            size, frames = size + len(message), frames + 1
            continue
        event = json.loads(message)
        if event["type"] == "audio.done":
            assert event["total_bytes"] == size
        elif event["type"] == "session.done":
            return event["utterance_index"], event["total_sentences"], size, frames > 1
        elif event["type"] == "error":
            return event["code"], event["param"]

async def main():
    async with websockets.connect(url) as socket:
        await socket.send(json.dumps({"type": "session.config", "voice": "zz"}))
        print(*await utterance(socket))
        for stream in (True, False):
            config = {"type": "session.config", "voice": "alloy", "response_format": "pcm", "stream_audio": stream, "seed": 7}
            await socket.send(json.dumps(config))
            for word in text.split(" "):
                await socket.send(json.dumps({"type": "input.text", "text": word + " "}))
            await socket.send(json.dumps({"type": "input.done"}))
            print(*await utterance(socket))
        await (await socket.ping())
        await socket.send(json.dumps({"type": "session.close"}))
        try:
            await socket.recv()
        except websockets.ConnectionClosedOK as closed:
            print(closed.rcvd.code)

asyncio.run(main())
"#;

#[tokio::test]
async fn pythons_client_speaks() {
    let server = fake(&[]).await;
    let url = format!("ws://{}{PATH}", server.app.address());
    let length = posted(&server, "pcm").await.len();
    let Some(said) = python("websockets", "websockets", SCRIPT, &[&url, TEXT]).await else {
        return;
    };
    let expected = [
        "voice_not_found voice".to_owned(),
        format!("0 1 {length} True"),
        format!("1 1 {length} False"),
        "1000".to_owned(),
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    over(&server).await;
    server.stop().await;
}

/// As above, over TLS with a key.
const ENCRYPTED: &str = r#"
import asyncio, json, ssl, sys
import websockets

url, key, authority = sys.argv[1:]

async def main():
    trusted = ssl.create_default_context(cafile=authority)
    async with websockets.connect(url, ssl=trusted, additional_headers={"authorization": "Bearer " + key}) as socket:
        await socket.send(json.dumps({"type": "session.config", "stream_audio": True}))
        await socket.send(json.dumps({"type": "input.text", "text": "Hello."}))
        await socket.send(json.dumps({"type": "input.done"}))
        size = 0
        while not isinstance(message := await socket.recv(), str) or json.loads(message)["type"] != "session.done":
            size += len(message) if isinstance(message, bytes) else 0
        print(size > 0)

asyncio.run(main())
"#;

#[tokio::test]
async fn a_websocket_is_encrypted_where_the_port_is() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    let roots = folder.path().join("roots");
    let (key, line) = new_key("somebody", &[Scope::Speech], &Quotas::default()).expect("random bytes");
    fs::write(&keys, format!("{line}\n")).unwrap();
    let authority = Authority::new("ours");
    fs::write(&roots, &authority.certificate).unwrap();
    let (certificate, private) = authority.server().write(folder.path(), "server");
    let [keys, roots, certificate, private] =
        [&keys, &roots, &certificate, &private].map(|path| path.to_str().expect("text"));
    let server = fake(&[
        "--api-keys",
        keys,
        "--tls-cert",
        certificate,
        "--tls-key",
        private,
    ])
    .await;
    let url = format!("wss://{}{PATH}", server.app.address());
    let Some(said) = python("websockets", "websockets", ENCRYPTED, &[&url, &key, roots]).await else {
        return;
    };
    assert_eq!(said, "True\n");
    over(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn halves_of_characters_in_consecutive_messages_are_joined() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut client = Client::connect(&server).await;
    client.configure(json!({})).await;
    let cases = [
        (
            &[r"Great job \ud83d", r"\ude00 thanks."][..],
            "Great job \u{1F600} thanks.",
        ),
        (&[r"Great job \ud83d", " thanks."], "Great job \u{FFFD} thanks."),
        (&[r"Great job \ud83d"], "Great job \u{FFFD}"),
        (&[r"\ude00 Great job."], "\u{FFFD} Great job."),
    ];
    for (index, (pieces, whole)) in (0..).zip(cases) {
        for piece in pieces {
            let message = format!(r#"{{"type": "input.text", "text": "{piece}"}}"#);
            client
                .0
                .send(Message::text(message))
                .await
                .expect("the server reads");
        }
        client.send(json!({"type": "input.done"})).await;
        let (start, _) = client.utterance(index).await;
        // Text so far at the first sound.
        let told = start["sentence_text"].as_str().expect("text");
        assert!(
            whole.starts_with(told) && told.starts_with(&whole[..8]),
            "{told:?} of {whole:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn fields_of_a_config_that_have_no_place_are_named_with_every_utterance() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut client = Client::connect(&server).await;
    client
        .configure(json!({"task_type": "Base", "split_granularity": null, "pitch": 3, "input": "no", "instructions": "Whisper."}))
        .await;
    for _ in 0..2 {
        client.say("Hello.").await;
        let done = loop {
            match client.next().await {
                Frame::Text(told) if told["type"] == "session.done" => break told,
                Frame::Text(_) | Frame::Audio(_) => {}
                other => panic!("{other:?}"),
            }
        };
        let mut ignored: Vec<_> = done["ignored"].as_array().expect("names").clone();
        ignored.sort_by_key(ToString::to_string);
        assert_eq!(
            json!(ignored),
            json!(["input", "instructions", "pitch", "task_type"])
        );
    }
    server.stop().await;
    let server = TestServer::fake(FakeScript::default(), &["--strict"]).await;
    let mut client = Client::connect(&server).await;
    client.configure(json!({"pitch": 3})).await;
    assert_eq!(client.error().await, ("unknown_field".to_owned(), json!("pitch")));
    client.configure(json!({})).await;
    client.say("Hello.").await;
    assert_eq!(client.told().await["type"], "audio.start");
    server.stop().await;
}
