//! Wyoming: the wire format, its own client, and misbehaving ones.

use std::fs;
use std::io::ErrorKind;
use std::time::Duration;

use mdns_sd::{ServiceDaemon, ServiceEvent};
use omni_config::{Quotas, Scope, new_key};
use omni_proto::v1;
use omni_tests::{
    FAKE_RATE, FakeScript, FakeSpeech, Gate, Reading, TestServer, WyomingEvent, audio_of, http_to, python,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

const TEXT: &str = "Hello there. How are you?";
const WYOMING: [&str; 2] = ["--wyoming", "127.0.0.1:0"];

struct Client(BufReader<TcpStream>);

impl Client {
    async fn connect(server: &TestServer) -> Self {
        let address = server.app.wyoming_address().expect("--wyoming");
        Self(BufReader::new(
            TcpStream::connect(address).await.expect("it listens"),
        ))
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("the server reads");
    }

    async fn send(&mut self, kind: &str, data: Value) {
        let data = data.to_string();
        let head = json!({"type": kind, "data_length": data.len()});
        self.write(format!("{head}\n{data}").as_bytes()).await;
    }

    /// The next event; none at the end of the connection.
    async fn next(&mut self) -> Option<WyomingEvent> {
        WyomingEvent::next(&mut self.0).await
    }

    /// The code of the error that comes next, behind which the connection ends.
    async fn refused(&mut self) -> String {
        let event = self.next().await.expect("an error");
        assert_eq!(event.kind, "error", "{event:?}");
        assert!(event.data["text"].is_string());
        assert_eq!(self.next().await, None);
        event.data["code"].as_str().expect("a code").to_owned()
    }

    /// The audio of an utterance, whose pieces must join.
    async fn utterance(&mut self) -> Vec<u8> {
        let start = self.next().await.expect("audio-start");
        assert_eq!(start.kind, "audio-start", "{start:?}");
        assert_eq!(
            start.data,
            json!({"rate": FAKE_RATE, "width": 2, "channels": 1, "timestamp": 0})
        );
        let mut audio = Vec::new();
        loop {
            let event = self.next().await.expect("audio-stop");
            if event.kind == "audio-stop" {
                return audio;
            }
            assert_eq!(
                (event.kind.as_str(), &event.data["rate"]),
                ("audio-chunk", &json!(FAKE_RATE))
            );
            let at = audio.len() as u64 / 2 * 1_000 / u64::from(FAKE_RATE);
            assert_eq!(event.data["timestamp"], json!(at));
            audio.extend(event.payload);
        }
    }
}

async fn server(script: FakeScript) -> TestServer {
    TestServer::fake(script, &WYOMING).await
}

/// The count of requests that ended so.
async fn requests(server: &TestServer, result: &str) -> f64 {
    let labels = [("protocol", "wyoming"), ("result", result)];
    let reading = Reading::of(server).await;
    reading.sum("vllm:omni_protocol_requests_total", &labels)
}

#[tokio::test]
async fn a_text_and_its_pieces_are_spoken_as_long_as_other_callers_text() {
    let server = server(FakeScript::default()).await;
    let own = audio_of(&mut server.speech(), v1::SpeechConfig::default(), TEXT).await;
    let length = own.unwrap().0.len();
    let mut client = Client::connect(&server).await;
    client.send("synthesize", json!({"text": TEXT})).await;
    assert_eq!(client.utterance().await.len(), length);
    for voice in [json!(null), json!({"name": "alloy"}), json!({"language": "en"})] {
        client.send("synthesize-start", json!({"voice": voice})).await;
        for piece in TEXT.split_inclusive(' ') {
            client.send("synthesize-chunk", json!({"text": piece})).await;
        }
        // As Home Assistant sends it, for servers that take no pieces.
        client.send("synthesize", json!({"text": TEXT})).await;
        client.send("synthesize-stop", json!({})).await;
        assert_eq!(client.utterance().await.len(), length);
        assert_eq!(client.next().await.expect("the end").kind, "synthesize-stopped");
    }
    server.idle(5).await;
    assert_eq!(requests(&server, "ok").await, 4.0);
    server.stop().await;
}

#[tokio::test]
async fn audio_comes_while_text_is_still_written() {
    let server = server(FakeScript::default()).await;
    let mut client = Client::connect(&server).await;
    client.send("synthesize-start", json!({})).await;
    client
        .send("synthesize-chunk", json!({"text": "Hello there. "}))
        .await;
    client.send("synthesize-chunk", json!({"text": "How are"})).await;
    assert_eq!(client.next().await.expect("an event").kind, "audio-start");
    assert_eq!(client.next().await.expect("an event").kind, "audio-chunk");
    client.send("ping", json!({"text": "still there?"})).await;
    client.send("synthesize-stop", json!({})).await;
    let mut kinds = Vec::new();
    loop {
        let event = client.next().await.expect("an event");
        kinds.push(event.kind.clone());
        if event.kind == "synthesize-stopped" {
            break;
        }
    }
    assert!(kinds.contains(&"pong".to_owned()), "{kinds:?}");
    server.idle(1).await;
    server.stop().await;
}

#[tokio::test]
async fn requests_that_come_at_once_are_answered_one_after_the_other() {
    let server = server(FakeScript::default()).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..3 {
        client.send("synthesize", json!({"text": "Hello."})).await;
    }
    client.send("synthesize-start", json!({})).await;
    client.send("synthesize-stop", json!({})).await;
    client.send("ping", json!({"text": "last"})).await;
    for _ in 0..3 {
        assert!(!client.utterance().await.is_empty());
    }
    // Without text there is a short silence, and an end.
    client.utterance().await;
    assert_eq!(client.next().await.expect("the end").kind, "synthesize-stopped");
    assert_eq!(client.next().await.expect("a pong").data, json!({"text": "last"}));
    server.idle(4).await;
    server.stop().await;
}

#[tokio::test]
async fn a_ping_is_answered_while_a_whole_text_is_spoken() {
    let script = FakeScript::default();
    let server = server(script.clone()).await;
    let mut client = Client::connect(&server).await;
    script.code2wav.close();
    client.send("synthesize", json!({"text": TEXT})).await;
    for text in ["one", "two"] {
        client.send("ping", json!({"text": text})).await;
        let mut event = client.next().await.expect("a pong");
        if event.kind == "audio-start" {
            event = client.next().await.expect("a pong");
        }
        assert_eq!((event.kind.as_str(), event.data), ("pong", json!({"text": text})));
    }
    // What asks for more than that is answered behind it.
    client.send("describe", json!({})).await;
    client.send("ping", json!({"text": "three"})).await;
    script.code2wav.open();
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "pong") {
        kinds.push(client.next().await.expect("an event").kind);
    }
    assert!(
        kinds.ends_with(&["audio-stop", "info", "pong"].map(str::to_owned)),
        "{kinds:?}"
    );
    server.idle(1).await;
    server.stop().await;
}

#[tokio::test]
async fn what_is_there_is_described_and_unknown_events_are_dropped() {
    let server = server(FakeScript::default()).await;
    let mut client = Client::connect(&server).await;
    client.send("select-program", json!({"name": "omni"})).await;
    client
        .send("audio-start", json!({"rate": 16000, "width": 2, "channels": 1}))
        .await;
    client.write(b"{\"type\": \"describe\"}\n").await;
    let info = client.next().await.expect("info");
    assert_eq!(info.kind, "info");
    let program = &info.data["tts"][0];
    assert_eq!(program["supports_synthesize_streaming"], true);
    for about in [program, &program["voices"][0]] {
        let url = about["attribution"]["url"].as_str().expect("text");
        assert!(url.starts_with("https://"), "{about}");
    }
    let voices = program["voices"].as_array().expect("voices");
    assert!(
        voices
            .iter()
            .all(|voice| voice["installed"] == true && voice["languages"].is_array())
    );
    for voice in voices {
        // What Home Assistant shows in its menu.
        let shown = voice["description"].as_str().expect("text").to_lowercase();
        let name = voice["name"].as_str().expect("text");
        assert!(shown.starts_with(name), "{voice}");
        client
            .send(
                "synthesize",
                json!({"text": "Hi.", "voice": {"name": voice["name"]}}),
            )
            .await;
        assert!(!client.utterance().await.is_empty());
    }
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_done_is_an_error_and_the_end_of_the_connection() {
    let server = server(FakeScript::default()).await;
    for (kind, data, code) in [
        (
            "synthesize",
            json!({"text": TEXT, "voice": {"name": "zz"}}),
            "VOICE_NOT_FOUND",
        ),
        (
            "synthesize-start",
            json!({"voice": {"name": "zz"}}),
            "VOICE_NOT_FOUND",
        ),
        (
            "synthesize",
            json!({"text": TEXT, "voice": {"language": "nl-BE"}}),
            "LANGUAGE_NOT_FOUND",
        ),
        (
            "synthesize",
            json!({"text": TEXT, "text_format": "smoke"}),
            "INVALID_FIELD",
        ),
        (
            "synthesize-start",
            json!({"text_format": "ssml"}),
            "INVALID_FIELD",
        ),
        (
            "synthesize",
            json!({"text": "<prosody>no</prosody>", "text_format": "ssml"}),
            "MARKUP_NOT_SUPPORTED",
        ),
        ("synthesize", json!({"text": "a".repeat(30_000)}), "TEXT_TOO_LONG"),
        ("synthesize", json!({"text": 1}), "INVALID_EVENT"),
        ("synthesize-chunk", json!({"text": "a"}), "PROTOCOL_VIOLATION"),
        ("transcribe", json!({"language": "en"}), "NOT_SERVED"),
    ] {
        let mut client = Client::connect(&server).await;
        client.send(kind, data).await;
        assert_eq!(client.refused().await, code, "{kind}");
    }
    server
        .until("every session has ended", || server.app.sessions() == 0)
        .await;
    assert_eq!(requests(&server, "error").await, 7.0);
    server.stop().await;
}

#[tokio::test]
async fn text_that_cannot_be_spoken_is_a_short_silence_and_is_counted() {
    let server = server(FakeScript::default()).await;
    let mut client = Client::connect(&server).await;
    client.send("synthesize", json!({"text": "  "})).await;
    let silence = client.utterance().await;
    assert!(!silence.is_empty() && silence.iter().all(|&byte| byte == 0));
    server.idle(1).await;
    let reading = Reading::of(&server).await;
    let labels = [("reason", "nothing_speakable")];
    assert_eq!(reading.sum("vllm:omni_audio_silent_requests_total", &labels), 1.0);
    server.stop().await;
}

#[tokio::test]
async fn the_next_start_ends_the_text_before_it() {
    let server = server(FakeScript::default()).await;
    let mut client = Client::connect(&server).await;
    client.send("synthesize", json!({"text": "One."})).await;
    let one = client.utterance().await.len();
    client.send("synthesize", json!({"text": "Two and three."})).await;
    let two = client.utterance().await.len();
    client.send("synthesize-start", json!({})).await;
    client.send("synthesize-chunk", json!({"text": "One."})).await;
    client.send("synthesize-start", json!({})).await;
    client
        .send("synthesize-chunk", json!({"text": "Two and three."}))
        .await;
    client.send("synthesize-stop", json!({})).await;
    for expected in [one, two] {
        assert_eq!(client.utterance().await.len(), expected);
        assert_eq!(client.next().await.expect("the end").kind, "synthesize-stopped");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_asked_while_text_is_written_is_answered() {
    let server = server(FakeScript::default()).await;
    let mut client = Client::connect(&server).await;
    client.send("synthesize-start", json!({})).await;
    client.send("describe", json!({})).await;
    assert_eq!(client.next().await.expect("info").kind, "info");
    client
        .send("synthesize-chunk", json!({"text": "One and two."}))
        .await;
    client.send("synthesize-stop", json!({})).await;
    assert!(!client.utterance().await.is_empty());
    assert_eq!(client.next().await.expect("the end").kind, "synthesize-stopped");
    client.send("synthesize-start", json!({})).await;
    client.send("transcribe", json!({})).await;
    assert_eq!(client.refused().await, "NOT_SERVED");
    server.stop().await;
}

#[tokio::test]
async fn halves_of_characters_cost_no_text() {
    let server = server(FakeScript::default()).await;
    let mut client = Client::connect(&server).await;
    let raw = |kind: &str, text: &str| {
        let data = format!(r#"{{"text": "{text}"}}"#);
        format!("{{\"type\":\"{kind}\",\"data_length\":{}}}\n{data}", data.len())
    };
    client
        .write(raw("synthesize", r"Great job \ud83d").as_bytes())
        .await;
    assert!(!client.utterance().await.is_empty());
    client.send("synthesize-start", json!({})).await;
    for piece in [r"Great job \ud83d", r"\ude00 and thanks \ud83d"] {
        client.write(raw("synthesize-chunk", piece).as_bytes()).await;
    }
    client.send("synthesize-stop", json!({})).await;
    assert!(!client.utterance().await.is_empty());
    assert_eq!(client.next().await.expect("the end").kind, "synthesize-stopped");
    server.stop().await;
}

/// Port of the service of that name in the network, or its disappearance.
fn found(events: &mdns_sd::Receiver<ServiceEvent>, name: &str, gone: bool) -> Option<u16> {
    let own = |full: &str| full.starts_with(&format!("{name}._wyoming."));
    loop {
        match events.recv_timeout(Duration::from_secs(20)).ok()? {
            ServiceEvent::ServiceResolved(service) if !gone && own(service.get_fullname()) => {
                return Some(service.get_port());
            }
            ServiceEvent::ServiceRemoved(_, full) if gone && own(&full) => return Some(0),
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_network_is_told_where_wyoming_is_spoken_and_that_it_is_not_any_more() {
    let browser = ServiceDaemon::new().expect("a thread");
    let events = browser.browse("_wyoming._tcp.local.").expect("a thread");
    let name = format!("omni-test-{}", std::process::id());
    let flags = [&WYOMING[..], &["--zeroconf", &name]].concat();
    let server = TestServer::fake(FakeScript::default(), &flags).await;
    let port = server.app.wyoming_address().expect("--wyoming").port();
    let events = events;
    let own = name.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let port = found(&events, &own, false);
        (events, port)
    });
    let (events, told) = looked.await.expect("a thread");
    assert_eq!(told, Some(port));
    server.stop().await;
    let looked = tokio::task::spawn_blocking(move || found(&events, &name, true));
    assert_eq!(looked.await.expect("a thread"), Some(0));
    let _ = browser.shutdown();
}

#[tokio::test]
async fn ssml_is_followed_with_and_without_its_outer_element() {
    let server = server(FakeScript::default()).await;
    let mut client = Client::connect(&server).await;
    let mut lengths = Vec::new();
    for text in [
        "Hello. <break time='500ms'/> You.",
        "<speak>Hello. <break time='500ms'/> You.</speak>",
    ] {
        client
            .send("synthesize", json!({"text": text, "text_format": "ssml"}))
            .await;
        lengths.push(client.utterance().await.len());
    }
    assert_eq!(lengths[0], lengths[1]);
    server.stop().await;
}

#[tokio::test]
async fn bytes_that_are_no_events_are_refused() {
    let server = server(FakeScript::default()).await;
    for (bytes, code) in [
        (&b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"[..], "INVALID_EVENT"),
        (b"\x16\x03\x01\x02\n", "INVALID_EVENT"),
        (
            b"{\"type\":\"synthesize\",\"data_length\":1073741824}\n",
            "MESSAGE_TOO_LARGE",
        ),
        (
            b"{\"type\":\"audio-chunk\",\"payload_length\":1073741824}\n",
            "MESSAGE_TOO_LARGE",
        ),
        (&[b' '; 150 << 10], "MESSAGE_TOO_LARGE"),
    ] {
        let mut client = Client::connect(&server).await;
        // The server need not read an overlong message to its end.
        let _ = client.0.write_all(bytes).await;
        assert_eq!(client.refused().await, code);
    }
    let mut client = Client::connect(&server).await;
    client.write(b"{\"type\":\"synth").await;
    client.0.shutdown().await.unwrap();
    assert_eq!(client.next().await, None);
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_nothing_behind() {
    let script = FakeScript::default();
    let server = server(script.clone()).await;
    script.talker.close();
    for streamed in [false, true] {
        let mut client = Client::connect(&server).await;
        if streamed {
            client.send("synthesize-start", json!({})).await;
            client.send("synthesize-chunk", json!({"text": TEXT})).await;
        } else {
            client.send("synthesize", json!({"text": TEXT})).await;
        }
        server
            .until("the session runs", || server.app.sessions() == 1)
            .await;
        drop(client);
        server
            .until("the session has ended", || server.app.sessions() == 0)
            .await;
    }
    script.talker.open();
    server.idle(2).await;
    assert_eq!(requests(&server, "cancelled").await, 2.0);
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_stops_reading_is_let_go() {
    let arguments = [
        WYOMING[0],
        WYOMING[1],
        "--stall-timeout",
        "50ms",
        "--max-audio",
        "1h",
    ];
    let server = TestServer::fake(FakeScript::default(), &arguments).await;
    let mut client = Client::connect(&server).await;
    // More audio than sockets hold.
    client
        .send("synthesize", json!({"text": "abcdefghi ".repeat(1_900)}))
        .await;
    server
        .until("the session runs", || server.app.sessions() == 1)
        .await;
    server
        .until("the session has ended", || server.app.sessions() == 0)
        .await;
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn text_that_never_stops_waits_for_its_audio() {
    let server = server(FakeScript::default()).await;
    let mut client = Client::connect(&server).await;
    client.send("synthesize-start", json!({})).await;
    let mut refused = None;
    for _ in 0..200 {
        let data = json!({"text": "Well, that is all there is to say. ".repeat(10)}).to_string();
        let event = format!(
            "{{\"type\":\"synthesize-chunk\",\"data_length\":{}}}\n{data}",
            data.len()
        );
        if client.0.write_all(event.as_bytes()).await.is_err() {
            break;
        }
    }
    while let Some(event) = client.next().await {
        if event.kind == "error" {
            refused = event.data["code"].as_str().map(str::to_owned);
        }
    }
    // One utterance has a longest text, in pieces or not.
    assert_eq!(refused.as_deref(), Some("TEXT_TOO_LONG"));
    server
        .until("the session has ended", || server.app.sessions() == 0)
        .await;
    server.stop().await;
}

#[tokio::test]
async fn connections_are_bounded_and_silent_ones_end() {
    let arguments = [
        WYOMING[0],
        WYOMING[1],
        "--max-connections-per-peer",
        "1",
        "--handshake-timeout",
        "100ms",
    ];
    let server = TestServer::fake(FakeScript::default(), &arguments).await;
    let mut silent = Client::connect(&server).await;
    let mut second = Client::connect(&server).await;
    // A socket closed with unread data sends a reset.
    let mut nothing = Vec::new();
    let read = second.0.read_to_end(&mut nothing).await;
    assert!(read.is_err() || nothing.is_empty());
    assert_eq!(silent.refused().await, "SESSION_IDLE");
    server.stop().await;
}

#[tokio::test]
async fn where_keys_are_asked_for_all_callers_count_as_one_holder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let quotas = Quotas {
        streams: Some(1),
        ..Quotas::default()
    };
    let (_, line) = new_key("home", &[Scope::Speech], &quotas).expect("random bytes");
    fs::write(&file, format!("{line}\n")).unwrap();
    let keys = [
        "--api-keys",
        file.to_str().expect("text"),
        "--wyoming-holder",
        "home",
    ];
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[&WYOMING[..], &keys].concat()).await;
    script.talker.close();
    let mut first = Client::connect(&server).await;
    first.send("synthesize", json!({"text": TEXT})).await;
    server
        .until("the session runs", || server.app.sessions() == 1)
        .await;
    let mut second = Client::connect(&server).await;
    second.send("synthesize", json!({"text": TEXT})).await;
    assert_eq!(second.refused().await, "CONCURRENCY_LIMIT");
    script.talker.open();
    assert!(!first.utterance().await.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn the_port_opens_when_the_model_is_ready_and_a_server_that_drains_ends_what_it_has_begun() {
    let load = Gate::default();
    load.close();
    let script = FakeScript {
        load: load.clone(),
        ..FakeScript::default()
    };
    let own = script.clone();
    let mut server = TestServer::launch(&WYOMING, move || Ok(FakeSpeech::new(own))).await;
    let address = server.app.wyoming_address().expect("--wyoming");
    let refused = TcpStream::connect(address).await.map(|_| ());
    assert_eq!(
        refused.map_err(|error| error.kind()),
        Err(ErrorKind::ConnectionRefused)
    );
    load.open();
    server.app.ready().await.unwrap();
    let mut idle = Client::connect(&server).await;
    let mut client = Client::connect(&server).await;
    script.code2wav.close();
    client.send("synthesize", json!({"text": TEXT})).await;
    server
        .until("the session runs", || server.app.sessions() == 1)
        .await;
    let never = std::future::pending();
    let ending = tokio::spawn(server.app.shut_down(never));
    script.code2wav.open();
    assert!(!client.utterance().await.is_empty());
    assert_eq!(idle.next().await, None);
    ending.await.expect("it ends");
}

#[tokio::test]
async fn the_port_serves_on_until_the_drain_delay_is_over() {
    let flags = [&WYOMING[..], &["--drain-delay", "1h", "--drain-closes-port"]].concat();
    let server = TestServer::fake(FakeScript::default(), &flags).await;
    let address = server.app.wyoming_address().expect("--wyoming");
    let probes = server.app.metrics_address().expect("metrics are served");
    let (now, told) = tokio::sync::oneshot::channel::<()>();
    let ending = tokio::spawn(server.app.shut_down(async { _ = told.await }));
    while http_to(probes, "GET", "/readyz", &[], "").await.status == 200 {
        tokio::task::yield_now().await;
    }
    let mut late = Client(BufReader::new(
        TcpStream::connect(address).await.expect("it listens"),
    ));
    late.send("synthesize", json!({"text": TEXT})).await;
    assert!(!late.utterance().await.is_empty());
    now.send(()).expect("it waits");
    ending.await.expect("it ends");
}

#[tokio::test]
async fn a_port_that_closes_for_a_drain_is_closed_before_what_was_begun_is_over() {
    let script = FakeScript::default();
    let flags = [&WYOMING[..], &["--drain-closes-port"]].concat();
    let server = TestServer::fake(script.clone(), &flags).await;
    let address = server.app.wyoming_address().expect("--wyoming");
    script.code2wav.close();
    let mut client = Client::connect(&server).await;
    client.send("synthesize", json!({"text": TEXT})).await;
    server
        .until("the session runs", || server.app.sessions() == 1)
        .await;
    let ending = tokio::spawn(server.app.shut_down(std::future::pending()));
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    script.code2wav.open();
    assert!(!client.utterance().await.is_empty());
    ending.await.expect("it ends");
}

/// Script of Home Assistant, with the library that it uses.
const SCRIPT: &str = r#"
import asyncio, sys
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.asr import Transcribe
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeStopped, SynthesizeVoice

uri, text = sys.argv[1:]

async def audio(client, last):
    heard = b""
    while (event := await client.read_event()) is not None:
        if AudioStart.is_type(event.type):
            start = AudioStart.from_event(event)
        elif AudioChunk.is_type(event.type):
            heard += AudioChunk.from_event(event).audio
        elif last.is_type(event.type):
            return start.rate, start.width, start.channels, len(heard)
        elif Error.is_type(event.type):
            return Error.from_event(event).code

async def main():
    async with AsyncClient.from_uri(uri, connect_timeout=30, read_timeout=60) as client:
        await client.write_event(Describe().event())
        info = Info.from_event(await client.read_event())
        program = info.tts[0]
        print(program.name, program.supports_synthesize_streaming, len(info.asr), len(program.voices[0].languages) > 0)
        print(program.voices[0].description, program.attribution.url.startswith("https://"))
        voice = SynthesizeVoice(name=program.voices[0].name)
        await client.write_event(Ping(text="a").event())
        print(Pong.from_event(await client.read_event()).text)
        await client.write_event(Synthesize(text=text, voice=voice).event())
        print(*await audio(client, AudioStop))
        await client.write_event(SynthesizeStart(voice=voice).event())
        for word in text.split(" "):
            await client.write_event(SynthesizeChunk(text=word + " ").event())
        await client.write_event(Synthesize(text=text, voice=voice).event())
        await client.write_event(SynthesizeStop().event())
        print(*await audio(client, SynthesizeStopped))
    for request in [Synthesize(text=text, voice=SynthesizeVoice(name="zz")), Transcribe(language="en")]:
        async with AsyncClient.from_uri(uri, connect_timeout=30, read_timeout=60) as client:
            await client.write_event(request.event())
            print(await audio(client, AudioStop))

asyncio.run(main())
"#;

#[tokio::test]
async fn the_protocols_own_client_speaks() {
    let server = server(FakeScript::default()).await;
    let own = audio_of(&mut server.speech(), v1::SpeechConfig::default(), TEXT).await;
    let heard = format!("{FAKE_RATE} 2 1 {}", own.unwrap().0.len());
    let uri = format!("tcp://{}", server.app.wyoming_address().expect("--wyoming"));
    let Some(said) = python("wyoming", "wyoming", SCRIPT, &[&uri, TEXT]).await else {
        return;
    };
    let expected = [
        "omni True 0 True",
        "ALTO: a tone True",
        "a",
        &heard,
        &heard,
        "VOICE_NOT_FOUND",
        "NOT_SERVED",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    server.stop().await;
}
