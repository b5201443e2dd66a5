//! Peers that send garbage, half of something, or nothing: their connections end, nothing of them remains, and all
//! others are served.

use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use omni_config::{Config, ConnectionLimits};
use omni_proto::v1;
use omni_tests::{Authority, FakeScript, FakeSpeech, Held, Reading, TestServer, audio_of};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tonic::{Code, Status};

/// Held resources are counted for the whole process, so that only one test runs at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Timeout of the server in place of its minutes.
const SOON: Duration = Duration::from_secs(1);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Kinds of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

const SYNTHESIZE: &str = "/omni.v1.SpeechService/Synthesize";

fn soon(config: &mut Config) {
    config.connections.opening_time = SOON;
    config.connections.request_time = SOON;
    config.connections.keepalive = SOON;
    config.connections.keepalive_timeout = SOON * 2;
    config.connections.leftover_time = SOON;
}

async fn server(args: &[&str], adjust: impl FnOnce(&mut Config)) -> TestServer {
    let load = || Ok(FakeSpeech::new(FakeScript::default()));
    let mut server = TestServer::adjusted(args, adjust, load).await;
    server.app.ready().await.expect("the fake model loads");
    server
}

/// Another caller, which must not notice.
async fn speaks(server: &TestServer) {
    let mut client = v1::speech_service_client::SpeechServiceClient::new(server.connect().await);
    let audio = audio_of(&mut client, v1::SpeechConfig::default(), "All is well.").await;
    assert!(!audio.expect("speech").0.is_empty());
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short one").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A header, neither indexed nor compressed (RFC 7541, section 6.2.2).
fn header(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        match text.len() {
            short @ 0..127 => bytes.push(short as u8),
            long => {
                bytes.push(127);
                let mut rest = long - 127;
                while rest >= 128 {
                    bytes.push((rest % 128) as u8 | 128);
                    rest /= 128;
                }
                bytes.push(rest as u8);
            }
        }
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// The headers of a call that is meant to be answered.
fn call() -> Vec<u8> {
    [
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":path", SYNTHESIZE),
        header(":authority", "localhost"),
        header("content-type", "application/grpc"),
        header("te", "trailers"),
    ]
    .concat()
}

fn hello() -> Vec<u8> {
    [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[])].concat()
}

/// A peer with a socket.
struct Stranger(TcpStream);

impl Stranger {
    async fn to(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.expect("the server listens"))
    }

    /// Sends as much as the server takes.
    async fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok()
    }

    /// Reads to the end, which comes from the server; gives all that was read.
    async fn ends(mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut all)).await;
        // A reset is an end, too.
        let _ = ended.expect("the server ends the connection");
        all
    }

    /// Vanishes without a word, as a machine does that lost its power and came back.
    fn reset(self) {
        self.0.set_zero_linger().expect("a socket");
    }
}

/// Returns true if there is a frame of this kind among these.
fn has(kind: u8, mut frames: &[u8]) -> bool {
    while let [a, b, c, found, rest @ ..] = frames {
        if *found == kind {
            return true;
        }
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        frames = rest.get(5 + length..).unwrap_or_default();
    }
    false
}

/// Everything that no client sends.
fn nonsense() -> Vec<(&'static str, Vec<u8>)> {
    let mut oversized = hello();
    oversized.extend([0xFF, 0xFF, 0xFF, DATA, 0, 0, 0, 0, 1]);
    oversized.resize(oversized.len() + 100_000, 0);
    let mut continued = [hello(), frame(HEADERS, 0, 1, &call())].concat();
    let piece = header("x-flood", &"x".repeat(16_000));
    for _ in 0..200 {
        continued.extend(frame(CONTINUATION, 0, 1, &piece));
    }
    let mut reset = hello();
    for stream in (1..20_000).step_by(2) {
        reset.extend(frame(HEADERS, END_HEADERS, stream, &call()));
        reset.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    vec![
        ("noise", vec![0xAA; 4_096]),
        (
            "a preface that goes astray",
            [&PREFACE[..18], b"XX\r\n\r\n"].concat(),
        ),
        (
            "no settings",
            [PREFACE.to_vec(), frame(DATA, 0, 1, b"hello")].concat(),
        ),
        ("a frame that is too large", oversized),
        (
            "data for a stream that is not open",
            [hello(), frame(DATA, 0, 5, b"hello")].concat(),
        ),
        ("headers that never end", continued),
        ("streams that are reset at once", reset),
        (
            "headers that cannot be decoded",
            [hello(), frame(HEADERS, END_HEADERS, 1, &[0xFF; 40])].concat(),
        ),
        (
            "an endless head",
            [b"GET / HTTP/1.1\r\nx: ".to_vec(), vec![b'x'; 1 << 20]].concat(),
        ),
        ("HTTP of old", b"GET /\r\n\r\n".to_vec()),
    ]
}

/// Sends each input in `sent` from a stranger, in turn: the server keeps speaking, and nothing of them remains.
async fn nothing_is_left_of(sent: Vec<(&'static str, Vec<u8>)>, visit: impl AsyncFn(SocketAddr, &[u8])) {
    let server = server(&[], soon).await;
    speaks(&server).await;
    let before = Held::settled(None).await;
    for (what, bytes) in sent {
        visit(server.app.address(), &bytes).await;
        speaks(&server).await;
        let after = Held::settled(Some(&before)).await;
        assert!(
            after.within(&before),
            "{what}: before {before:?}, after {after:?}"
        );
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_client_sends_ends_the_connection_and_nothing_else() {
    let _alone = ALONE.lock().await;
    nothing_is_left_of(nonsense(), async |address, bytes: &[u8]| {
        let mut stranger = Stranger::to(address).await;
        stranger.send(bytes).await;
        stranger.ends().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_reset_at_once_are_answered_with_goaway() {
    let _alone = ALONE.lock().await;
    let server = server(&[], soon).await;
    let (_, bytes) = nonsense().swap_remove(6);
    let mut stranger = Stranger::to(server.app.address()).await;
    stranger.send(&hello()).await;
    stranger.send(&bytes[hello().len()..]).await;
    assert!(has(GOAWAY, &stranger.ends().await));
    server.idle(0).await;
    server.stop().await;
}

/// Beginnings of requests, over HTTP/1.1 and HTTP/2, and of a TLS handshake.
fn halves() -> Vec<(&'static str, Vec<u8>)> {
    let body = b"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"model\"";
    let opened = [hello(), frame(HEADERS, END_HEADERS, 1, &call())].concat();
    let message = [0, 0, 0, 0, 100, 1, 2, 3];
    vec![
        ("nothing", Vec::new()),
        ("one byte", b"P".to_vec()),
        ("half a preface", PREFACE[..12].to_vec()),
        (
            "half a head",
            b"POST /v1/audio/speech HTTP/1.1\r\nhost: om".to_vec(),
        ),
        ("half a body", body.to_vec()),
        ("a preface", PREFACE.to_vec()),
        (
            "half a frame",
            [hello(), vec![0, 0, 50, HEADERS, END_HEADERS, 0]].concat(),
        ),
        ("a call without a message", opened.clone()),
        ("half a message", [opened, frame(DATA, 0, 1, &message)].concat()),
        ("half a hello of TLS", vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_vanishes_in_the_middle_leaves_nothing_behind() {
    let _alone = ALONE.lock().await;
    nothing_is_left_of(halves(), async |address, bytes: &[u8]| {
        let mut gone = Stranger::to(address).await;
        gone.send(bytes).await;
        gone.reset();
        let mut closed = Stranger::to(address).await;
        closed.send(bytes).await;
        closed.0.shutdown().await.expect("a socket");
        closed.ends().await;
    })
    .await;
}

async fn never_finish(server: &TestServer) {
    let mut waiting = Vec::new();
    for (_, bytes) in halves() {
        let mut stranger = Stranger::to(server.app.address()).await;
        stranger.send(&bytes).await;
        waiting.push(stranger);
    }
    futures::future::join_all(waiting.into_iter().map(Stranger::ends)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_finishes_is_let_go() {
    let _alone = ALONE.lock().await;
    let server = server(&[], soon).await;
    speaks(&server).await;
    let before = Held::settled(None).await;
    never_finish(&server).await;
    speaks(&server).await;
    let after = Held::settled(Some(&before)).await;
    assert!(after.within(&before), "before {before:?}, after {after:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_says_nothing_that_is_tls_to_an_encrypted_port_is_let_go() {
    let _alone = ALONE.lock().await;
    let place = tempfile::tempdir().expect("a folder");
    let (certificate, key) = Authority::new("ours").server().write(place.path(), "server");
    let path = |path: &std::path::PathBuf| path.to_str().expect("text").to_owned();
    let args = ["--tls-cert", &path(&certificate), "--tls-key", &path(&key)];
    let server = server(&args, soon).await;
    let before = Held::settled(None).await;
    never_finish(&server).await;
    for (_, bytes) in nonsense() {
        let mut stranger = Stranger::to(server.app.address()).await;
        stranger.send(&bytes).await;
        stranger.ends().await;
    }
    let after = Held::settled(Some(&before)).await;
    assert!(after.within(&before), "before {before:?}, after {after:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_caller_that_breaks_off_its_request_is_no_failure_of_the_server() {
    let _alone = ALONE.lock().await;
    let server = server(&[], |_| {}).await;
    let method = ("grpc_method", "Synthesize");
    let sum = async |family: &str, labels: &[(&str, &str)]| {
        let reading = Reading::of(&server).await;
        reading
            .of_name(family, labels)
            .map(|sample| sample.value)
            .sum::<f64>()
    };
    let reach = async |family: &str, expected: f64| {
        let reached = async {
            while sum(family, &[method]).await < expected {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        reached.unwrap_or_else(|_| panic!("{family} reaches {expected}"));
    };
    let headers = || frame(HEADERS, END_HEADERS, 1, &call());
    // Within the head of its message, within the message, and before it.
    let begun = [vec![0, 0, 0], vec![0, 0, 0, 0, 9, 1, 2], Vec::new()];
    let cancel = frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    let mut calls = 0.0;
    for part in &begun {
        for end in ["fin", "reset", "cancel"] {
            let mut stranger = Stranger::to(server.app.address()).await;
            let data = frame(DATA, 0, 1, part);
            assert!(stranger.send(&[hello(), headers(), data].concat()).await);
            calls += 1.0;
            reach("grpc_server_started_total", calls).await;
            match end {
                "fin" => drop(stranger),
                "reset" => stranger.reset(),
                _ => assert!(stranger.send(&cancel).await),
            }
            reach("grpc_server_handled_total", calls).await;
        }
    }
    // All of it, without a message.
    let mut stranger = Stranger::to(server.app.address()).await;
    let nothing = frame(DATA, 1, 1, &[]);
    assert!(stranger.send(&[hello(), headers(), nothing].concat()).await);
    reach("grpc_server_handled_total", calls + 1.0).await;
    for code in ["Unknown", "Internal", "OK"] {
        let counted = sum("grpc_server_handled_total", &[method, ("grpc_code", code)]).await;
        assert!(counted < 0.5, "{counted} calls ended with {code}");
    }
    let invalid = sum(
        "grpc_server_handled_total",
        &[method, ("grpc_code", "InvalidArgument")],
    )
    .await;
    assert!(invalid > 0.5, "a request without a message is the caller's fault");
    drop(stranger);
    speaks(&server).await;
    server.stop().await;
}

/// Waits until the counter of connections with this result reaches `expected`.
async fn counted(server: &TestServer, result: &str, expected: f64) {
    let family = "vllm:omni_connections_total";
    let counted = tokio::time::timeout(PATIENCE, async {
        while Reading::of(server).await.sum(family, &[("result", result)]) < expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    counted
        .await
        .unwrap_or_else(|_| panic!("{expected} are {result}"));
    assert!((Reading::of(server).await.sum(family, &[("result", result)]) - expected).abs() < 0.5);
}

#[tokio::test]
async fn those_who_say_nothing_keep_nobody_out() {
    let _alone = ALONE.lock().await;
    let few = |config: &mut Config| config.connections.openings = 3;
    let server = server(&[], few).await;
    let mut silent = Vec::new();
    for _ in 0..10 {
        silent.push(Stranger::to(server.app.address()).await);
    }
    // The others were closed in favour of later ones.
    for stranger in silent.drain(..7) {
        assert_eq!(stranger.ends().await, b"");
    }
    speaks(&server).await;
    // The one that speaks was one too many as well.
    counted(&server, "crowded_out", 8.0).await;
    drop(silent);
    counted(&server, "abandoned", 2.0).await;
    server.stop().await;
}

/// Opens a connection and has a request answered, which is refused on a connection without a place.
async fn established(address: SocketAddr) -> Option<Stranger> {
    let mut stranger = Stranger::to(address).await;
    stranger
        .send(b"GET /v1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    let mut answer = [0; 12];
    let read = tokio::time::timeout(PATIENCE, stranger.0.read_exact(&mut answer)).await;
    read.expect("an answer in time").expect("an answer");
    (answer == *b"HTTP/1.1 200").then_some(stranger)
}

#[tokio::test]
async fn connections_are_counted_and_the_limit_is_the_last_that_is_let_in() {
    let _alone = ALONE.lock().await;
    for (args, result) in [
        (["--max-connections", "4"], "max_connections"),
        (["--max-connections-per-peer", "4"], "max_connections_per_peer"),
    ] {
        let server = server(&args, |_| {}).await;
        // One is the test's own.
        let mut inside = Vec::new();
        for _ in 0..3 {
            inside.push(established(server.app.address()).await.expect("a place"));
        }
        assert!(established(server.app.address()).await.is_none(), "{result}");
        counted(&server, result, 1.0).await;
        let open = Reading::of(&server)
            .await
            .sum("vllm:omni_connections_active", &[]);
        assert!((open - 4.0).abs() < 0.5, "{open}");
        inside.pop().expect("three").reset();
        let again = tokio::time::timeout(PATIENCE, async {
            while established(server.app.address()).await.is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        again.await.expect("a place is free again");
        server.stop().await;
    }
}

/// Calls with this body; returns the status.
async fn ask(server: &TestServer, headers: &[(&str, String)], body: Vec<u8>) -> Status {
    use http_body_util::{BodyExt as _, Full};
    let stream = TcpStream::connect(server.app.address())
        .await
        .expect("the server listens");
    let connection = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = connection.expect("a connection");
    let connection = tokio::spawn(connection);
    let mut request = hyper::Request::post(format!("http://localhost{SYNTHESIZE}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request
        .body(Full::new(hyper::body::Bytes::from(body)))
        .expect("a request");
    let (head, body) = sender
        .send_request(request)
        .await
        .expect("an answer")
        .into_parts();
    let collected = body.collect().await.expect("a whole answer");
    let status = Status::from_header_map(&head.headers)
        .or_else(|| collected.trailers().and_then(Status::from_header_map))
        .unwrap_or_else(|| Status::new(Code::Unknown, head.status.to_string()));
    drop(sender);
    let _ = connection.await;
    status
}

#[tokio::test]
async fn messages_that_lie_about_themselves_are_errors_of_their_call() {
    let _alone = ALONE.lock().await;
    let server = server(&[], |_| {}).await;
    let framed = |flag: u8, length: u32, bytes: &[u8]| {
        let mut frame = vec![flag];
        frame.extend(length.to_be_bytes());
        frame.extend(bytes);
        frame
    };
    for (what, body, codes) in [
        (
            "shorter than it says",
            framed(0, 100, b"abc"),
            &[Code::Internal, Code::InvalidArgument, Code::Unknown][..],
        ),
        (
            "four gigabytes",
            framed(0, u32::MAX, b"abc"),
            &[Code::OutOfRange, Code::InvalidArgument, Code::ResourceExhausted],
        ),
        (
            "compressed without a word",
            framed(1, 3, b"abc"),
            &[Code::Internal, Code::Unimplemented],
        ),
        (
            "a flag that does not exist",
            framed(7, 3, b"abc"),
            &[Code::Internal],
        ),
        (
            "no message",
            Vec::new(),
            &[Code::Internal, Code::InvalidArgument, Code::Unimplemented],
        ),
        (
            "noise",
            framed(0, 3, &[0xFF; 3]),
            &[Code::Internal, Code::InvalidArgument],
        ),
    ] {
        let status = ask(&server, &[], body).await;
        assert!(codes.contains(&status.code()), "{what}: {status:?}");
        speaks(&server).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn headers_may_be_as_long_as_the_limit_and_no_longer() {
    let _alone = ALONE.lock().await;
    let server = server(&[], |_| {}).await;
    let limit = ConnectionLimits::DEFAULT.header_bytes as usize;
    let message = vec![0, 0, 0, 0, 0];
    let fits = ask(&server, &[("x-long", "x".repeat(limit / 2))], message.clone()).await;
    assert_ne!(fits.message(), "431 Request Header Fields Too Large");
    let too_long = ask(&server, &[("x-long", "x".repeat(limit))], message).await;
    assert!(too_long.message().starts_with("431"), "{too_long:?}");
    speaks(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_message_may_be_as_large_as_the_limit_and_no_larger() {
    let _alone = ALONE.lock().await;
    let server = server(&["--max-message-bytes", "4096"], |_| {}).await;
    let framed = |length: usize| {
        let mut frame = vec![0];
        frame.extend(u32::try_from(length).expect("a short one").to_be_bytes());
        frame.resize(frame.len() + length, 0xFF);
        frame
    };
    let fits = ask(&server, &[], framed(4_096)).await;
    let too_large = ask(&server, &[], framed(4_097)).await;
    assert_ne!(fits.code(), too_large.code(), "{fits:?}");
    assert!(too_large.message().contains("4096"), "{too_large:?}");
    server.stop().await;
}
