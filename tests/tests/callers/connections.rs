//! Connections that come through proxies, that are kept, refused and ended: what their callers notice.

use std::net::SocketAddr;
use std::time::Duration;

use omni_config::{Config, Scope};
use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_tests::{
    Call, FakeScript, FakeSpeech, TestServer, audio_of, finish, http, http_to, http2, reason, seeded, text,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

const SYNTHESIZE: &str = "/omni.v1.SpeechService/Synthesize";

async fn server(args: &[&str], adjust: impl FnOnce(&mut Config)) -> TestServer {
    let load = || Ok(FakeSpeech::new(FakeScript::default()));
    let mut server = TestServer::adjusted(args, adjust, load).await;
    server.app.ready().await.expect("the fake model loads");
    server
}

/// A connection of HTTP/1.1, by hand.
struct Raw(TcpStream);

impl Raw {
    async fn to(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.expect("the server listens"))
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("the server reads");
    }

    async fn get(&mut self, path: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes())
            .await;
        self.answer().await
    }

    /// One answer, whose length is announced.
    async fn answer(&mut self) -> String {
        let mut head = Vec::new();
        let read = async {
            while !head.ends_with(b"\r\n\r\n") {
                head.push(self.0.read_u8().await.expect("a head"));
            }
            let head = String::from_utf8_lossy(&head).to_lowercase();
            let length = head
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next());
            let length = length.map_or(0, |length| length.parse().expect("a number"));
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).await.expect("a body");
            format!("{head}{}", String::from_utf8_lossy(&body))
        };
        tokio::time::timeout(PATIENCE, read)
            .await
            .expect("an answer in time")
    }

    /// The bytes that come until the server ends the connection in order.
    async fn ends(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut rest)).await;
        ended
            .expect("an end in time")
            .expect("an end in order, and no reset");
        rest
    }
}

#[tokio::test]
async fn a_connection_without_requests_is_kept_longer_than_a_head_may_take_and_ends_in_order() {
    let server = server(&["--keep-alive-timeout", "1s"], |_| {}).await;
    let mut idle = Raw::to(server.app.address()).await;
    let answer = idle.get("/livez").await;
    assert!(answer.contains("keep-alive: timeout=1\r\n"), "{answer}");
    assert_eq!(idle.ends().await, b"");
    server.stop().await;

    let server = self::server(&[], |config| {
        assert!(config.connections.idle_time >= Duration::from_secs(75));
        config.connections.request_time = Duration::from_millis(500);
    })
    .await;
    let mut idle = Raw::to(server.app.address()).await;
    idle.get("/livez").await;
    // An incomplete head times out meanwhile.
    let mut half = Raw::to(server.app.address()).await;
    half.send(b"GET /livez HTTP/1.1\r\nho").await;
    half.ends().await;
    assert!(idle.get("/livez").await.starts_with("http/1.1 200"));
    server.stop().await;
}

fn named<T>(message: T, header: &'static str, value: &str) -> Request<T> {
    let mut request = Request::new(message);
    request
        .metadata_mut()
        .insert(header, value.parse().expect("a value"));
    request
}

/// The address that operators see of a call with this header.
async fn seen(server: &TestServer, header: &'static str, value: &str) -> String {
    let (events, stream) = tokio::sync::mpsc::channel::<v1::SpeakRequest>(4);
    let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
    let call = server
        .speech()
        .speak(named(stream, header, value))
        .await
        .expect("a session");
    let all = v1::WatchStatsRequest {
        include_sessions: true,
        ..v1::WatchStatsRequest::default()
    };
    let mut watched = server
        .admin()
        .await
        .watch_stats(all)
        .await
        .expect("figures")
        .into_inner();
    let first = watched.message().await.expect("figures").expect("the first");
    drop((events, call));
    let peer = first.session_stats.first().expect("one session").peer.clone();
    server
        .until("the session is over", || server.app.sessions() == 0)
        .await;
    peer
}

#[tokio::test]
async fn the_caller_behind_a_proxy_is_believed_of_trusted_ones_alone() {
    for (trusted, header, value, expected) in [
        (
            "127.0.0.1",
            "x-forwarded-for",
            "198.51.100.9, 192.0.2.7",
            "192.0.2.7",
        ),
        (
            "127.0.0.0/8",
            "forwarded",
            "for=192.0.2.7;proto=https",
            "192.0.2.7",
        ),
        ("10.0.0.0/8", "x-forwarded-for", "192.0.2.7", "127.0.0.1"),
    ] {
        let args = ["--trusted-proxies", trusted, "--admin-listen", "127.0.0.1:0"];
        let server = server(&args, |_| {}).await;
        assert_eq!(seen(&server, header, value).await, expected, "{trusted} {value}");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_proxy_that_hands_bytes_on_names_the_caller_and_its_connections_count_as_the_callers() {
    let args = [
        "--trusted-proxies",
        "127.0.0.1",
        "--max-connections-per-peer",
        "1",
    ];
    let server = server(&args, |_| {}).await;
    let header = b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\n";
    let mut first = Raw::to(server.app.address()).await;
    first.send(header).await;
    assert!(first.get("/v1").await.starts_with("http/1.1 200"));
    let mut second = Raw::to(server.app.address()).await;
    second.send(header).await;
    let refused = second.get("/v1").await;
    assert!(refused.starts_with("http/1.1 429"), "{refused}");
    let mut other = Raw::to(server.app.address()).await;
    other.send(b"PROXY TCP4 192.0.2.8 127.0.0.1 4711 80\r\n").await;
    assert!(other.get("/v1").await.starts_with("http/1.1 200"));
    // The proxy's own connections have no bound of their own.
    let mut own = Vec::new();
    for _ in 0..20 {
        let mut one = Raw::to(server.app.address()).await;
        assert!(one.get("/v1").await.starts_with("http/1.1 200"));
        own.push(one);
    }
    server.stop().await;
}

#[tokio::test]
async fn addresses_that_are_told_are_those_that_the_caller_used() {
    let server = server(&["--trusted-proxies", "127.0.0.1"], |_| {}).await;
    let headers = [
        ("host", "localhost:50051"),
        ("x-forwarded-for", "192.0.2.7"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "speech.example"),
    ];
    let answer = http(&server, "GET", "/v1", &headers, "").await;
    let told: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(told["openai_base_url"], "https://speech.example/v1");
    assert_eq!(
        told["metrics"],
        serde_json::Value::Null,
        "outsiders do not reach it"
    );
    let answer = http(&server, "GET", "/v1", &[("host", "localhost:50051")], "").await;
    let told: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(told["openai_base_url"], "http://localhost:50051/v1");
    assert!(told["metrics"].is_string());
    server.stop().await;
}

#[tokio::test]
async fn a_connection_beyond_a_bound_is_told_so_and_probes_are_answered() {
    for (arg, status, code) in [
        ("--max-connections-per-peer", 429, Code::ResourceExhausted),
        ("--max-connections", 503, Code::Unavailable),
    ] {
        let server = server(&[arg, "1"], |_| {}).await;
        let address = server.app.address();
        let answer = http_to(
            address,
            "POST",
            "/v1/audio/speech",
            &[("content-type", "application/json")],
            "{}",
        )
        .await;
        assert_eq!(answer.status, status, "{arg}");
        assert_eq!(answer.header("connection"), "close");
        assert_eq!(answer.header("retry-after"), "1");
        let told = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(
            told.contains("connection_limit") && told.contains("1 connections"),
            "{told}"
        );
        let refused = http2(address, "GET", "/v1", &[], "").await;
        assert_eq!(refused.status, status, "{arg}");
        for path in ["/readyz", "/livez", "/health"] {
            assert_eq!(
                http_to(address, "GET", path, &[], "").await.status,
                200,
                "{arg} {path}"
            );
        }
        let channel = Channel::from_shared(format!("http://{address}"))
            .unwrap()
            .connect_lazy();
        let mut speech = SpeechServiceClient::new(channel);
        let refused = audio_of(&mut speech, v1::SpeechConfig::default(), "Hello.")
            .await
            .unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
        assert!(refused.message().contains("1 connections"), "{refused}");
        let channel = Channel::from_shared(format!("http://{address}"))
            .unwrap()
            .connect_lazy();
        HealthClient::new(channel)
            .check(HealthCheckRequest::default())
            .await
            .expect("a probe is answered");
        // The one that has the place is served.
        audio_of(&mut server.speech(), v1::SpeechConfig::default(), "Hello.")
            .await
            .expect("speech");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateways_one_connection_outlives_any_number_of_refusals_and_cancels() {
    let server = server(&["--max-sessions", "600"], |_| {}).await;
    let mut speech = server.speech();
    for n in 0..400 {
        let voice = v1::SpeechConfig {
            voice: "nobody".to_owned(),
            ..v1::SpeechConfig::default()
        };
        let (events, stream) = tokio::sync::mpsc::channel(4);
        let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
        let mut call = speech
            .speak(stream)
            .await
            .unwrap_or_else(|status| panic!("{n}: {status}"))
            .into_inner();
        let config = v1::SpeakRequest {
            event: Some(v1::speak_request::Event::Config(voice)),
        };
        events.send(config).await.expect("the call is open");
        let refused = loop {
            match call.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{n}: it is refused"),
                Err(status) => break status,
            }
        };
        assert_ne!(refused.code(), Code::Unavailable, "{n}: {refused}");
        // It still writes.
        for _ in 0..3 {
            let _ = events
                .send(v1::SpeakRequest {
                    event: Some(text("more ")),
                })
                .await;
        }
    }
    for round in 0..4 {
        let mut calls = Vec::new();
        for n in 0..200 {
            let call = Call::try_open(&mut speech, None).await;
            calls.push(call.unwrap_or_else(|status| panic!("{round} {n}: {status}")));
        }
        drop(calls);
    }
    audio_of(&mut speech, v1::SpeechConfig::default(), "All is well.")
        .await
        .expect("the connection lives");
    let connections = omni_tests::Reading::of(&server).await.sum(
        "vllm:omni_connections_total",
        &[("result", "served"), ("listener", "callers")],
    );
    assert!((connections - 1.0).abs() < 0.5, "{connections}");
    server.stop().await;
}

#[tokio::test]
async fn a_refusal_is_read_by_a_caller_that_is_still_writing_and_the_connection_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("keys");
    let (_, line) = omni_config::new_key("anna", &[Scope::Speech], &Default::default()).unwrap();
    std::fs::write(&file, format!("{line}\n")).unwrap();
    let server = server(&["--api-keys", file.to_str().unwrap()], |_| {}).await;
    for (path, headers, status) in [
        (
            "/v1/audio/speech",
            "content-type: application/json\r\nauthorization: Bearer wrong",
            401,
        ),
        ("/v1/nowhere", "content-type: application/json", 404),
        (
            "/v1/audio/voices",
            "content-type: multipart/form-data; boundary=x",
            401,
        ),
        ("/v1/models", "content-type: application/json", 405),
    ] {
        for length in [100, 5_000, 200_000, 9_000_000] {
            let mut caller = Raw::to(server.app.address()).await;
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\ncontent-length: {length}\r\n\r\n"
            );
            // All of it, before a byte of the answer is read.
            caller.send(head.as_bytes()).await;
            caller.send(&vec![b'x'; length]).await;
            let answer = caller.answer().await;
            assert!(
                answer.starts_with(&format!("http/1.1 {status}")),
                "{path} {length}: {answer}"
            );
            assert!(
                caller.get("/livez").await.starts_with("http/1.1 200"),
                "{path} {length}"
            );
        }
    }
    // One that waits to be asked sends nothing, and is not waited for.
    let mut polite = Raw::to(server.app.address()).await;
    polite
        .send(b"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n")
        .await;
    assert!(polite.answer().await.starts_with("http/1.1 401"));
    polite.ends().await;
    server.stop().await;
}

#[tokio::test]
async fn grpc_by_http_1_is_told_what_it_needs() {
    let server = server(&["--admin-listen", "127.0.0.1:0"], |_| {}).await;
    for address in [server.app.address(), server.app.admin_address().unwrap()] {
        for kind in ["application/grpc", "application/grpc+proto"] {
            let answer = http_to(address, "POST", SYNTHESIZE, &[("content-type", kind)], vec![0; 5]).await;
            assert_eq!((answer.status.as_u16(), answer.kind()), (200, kind));
            assert_eq!(answer.header("grpc-status"), "9");
            assert!(answer.header("grpc-message").contains("HTTP/2"), "{answer:?}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn only_hosts_that_the_server_is_called_by_are_answered_on_every_port() {
    let args = [
        "--admin-listen",
        "127.0.0.1:0",
        "--allowed-hosts",
        "speech.example,*.internal.example",
    ];
    for (args, allowed) in [(&args[..2], false), (&args[..], true)] {
        let server = server(args, |_| {}).await;
        let ports = [
            (server.app.address(), "/v1/audio/voices", 200),
            (server.app.metrics_address().unwrap(), "/metrics", 200),
            // Only gRPC is spoken there.
            (server.app.admin_address().unwrap(), "/", 415),
        ];
        for (address, path, fine) in ports {
            for (host, served) in [
                ("localhost", true),
                ("127.0.0.1:1", true),
                ("[::1]:50051", true),
                ("evil.example", false),
                ("evil.example:50051", false),
                ("speech.example", allowed),
                ("a.internal.example:443", allowed),
                ("192.168.1.2", false),
            ] {
                // Headers of a proxy or a page have no effect.
                let headers = [("host", host), ("x-forwarded-host", "localhost")];
                let answer = http_to(address, "GET", path, &headers, "").await;
                let expected = if served { fine } else { 403 };
                assert_eq!(answer.status.as_u16(), expected, "{path} {host}");
                assert!(served || String::from_utf8_lossy(&answer.body).contains("--allowed-hosts"));
            }
            for broken in ["host: localhost\r\nhost: localhost\r\n", "", "host: a b\r\n"] {
                let mut raw = Raw::to(address).await;
                raw.send(format!("GET {path} HTTP/1.1\r\n{broken}\r\n").as_bytes())
                    .await;
                let answer = raw.answer().await;
                assert!(answer.starts_with("http/1.1 400"), "{path} {broken:?}: {answer}");
            }
        }
        let address = server.app.address();
        let uri = format!("http://{address}");
        let endpoint = Channel::from_shared(uri)
            .unwrap()
            .origin("http://evil.example:50051".parse().unwrap());
        let mut evil = SpeechServiceClient::new(endpoint.connect_lazy());
        let refused = audio_of(&mut evil, v1::SpeechConfig::default(), "Hello.")
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        server.stop().await;
    }
}

#[tokio::test]
async fn before_it_drains_a_server_says_that_it_is_not_ready_and_serves_on() {
    let server = server(&["--drain-delay", "1h", "--drain-timeout", "1h"], |_| {}).await;
    let address = server.app.address();
    let metrics = server.app.metrics_address().unwrap();
    let mut kept = Raw::to(address).await;
    assert!(kept.get("/livez").await.contains("keep-alive"));
    let mut speech = server.speech();
    let mut health = server.health();
    let (now, told) = tokio::sync::oneshot::channel::<()>();
    let ends = tokio::spawn(server.app.shut_down(async { _ = told.await }));
    let leaving = async {
        while http_to(address, "GET", "/readyz", &[], "").await.status == 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, leaving).await.expect("it says so");
    let ready = http_to(address, "GET", "/readyz", &[], "").await;
    assert!(String::from_utf8_lossy(&ready.body).contains("DRAINING"));
    assert_eq!(http_to(metrics, "GET", "/readyz", &[], "").await.status, 503);
    assert_eq!(http_to(address, "GET", "/livez", &[], "").await.status, 200);
    let unhealthy = async {
        use tonic_health::pb::health_check_response::ServingStatus::Serving;
        while health
            .check(HealthCheckRequest::default())
            .await
            .unwrap()
            .into_inner()
            .status()
            == Serving
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, unhealthy)
        .await
        .expect("it says so by gRPC, too");
    audio_of(&mut speech, v1::SpeechConfig::default(), "Still served.")
        .await
        .expect("speech");
    let last = kept.get("/livez").await;
    assert!(last.contains("connection: close"), "{last}");
    kept.ends().await;
    drop(now);
    tokio::time::timeout(PATIENCE, ends)
        .await
        .expect("it ends at once then")
        .unwrap();
}

#[tokio::test]
async fn connections_on_which_nothing_is_open_do_not_hold_the_end_up() {
    let server = server(&["--drain-timeout", "1h"], |_| {}).await;
    // Idle, and answers no ping: an Apache's pool.
    let mut silent = Raw::to(server.app.address()).await;
    silent
        .send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await;
    let mut idle = Raw::to(server.app.address()).await;
    idle.get("/livez").await;
    let app = server.app;
    let ends = tokio::spawn(app.shut_down(std::future::pending()));
    tokio::time::timeout(PATIENCE, ends)
        .await
        .expect("it ends")
        .unwrap();
}

#[tokio::test]
async fn while_it_drains_proxies_see_refusals_of_grpc_and_the_port_closes_if_asked_to() {
    for closes in [false, true] {
        let args = ["--drain-timeout", "1h", "--drain-closes-port"];
        let server = server(&args[..if closes { 3 } else { 2 }], |_| {}).await;
        let address = server.app.address();
        let mut call = server.call().await.configured(seeded(1)).await;
        call.send(text("Something that is still said. ")).await;
        call.first_audio().await;
        let ends = tokio::spawn(server.app.shut_down(std::future::pending()));
        let kind = [("content-type", "application/grpc"), ("te", "trailers")];
        let drains = async {
            loop {
                let Ok(stream) = TcpStream::connect(address).await else {
                    break None;
                };
                drop(stream);
                let answer = http2(address, "POST", "/omni.v1.SpeechService/Speak", &kind, "").await;
                if answer.status == 503 {
                    break Some(answer);
                }
                tokio::task::yield_now().await;
            }
        };
        let refused = tokio::time::timeout(PATIENCE, drains).await.expect("it drains");
        assert_eq!(refused.is_none(), closes);
        if let Some(refused) = refused {
            assert_eq!(refused.header("grpc-status"), "14");
        }
        call.send(finish()).await;
        call.utterance().await;
        drop(call);
        tokio::time::timeout(PATIENCE, ends)
            .await
            .expect("it ends")
            .unwrap();
    }
}

#[tokio::test]
async fn a_message_that_drips_is_given_up() {
    let server = server(&[], |config| {
        config.connections.request_time = Duration::from_millis(500);
    })
    .await;
    for path in ["/omni.v1.SpeechService/Speak", SYNTHESIZE] {
        let stream = TcpStream::connect(server.app.address()).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let exec = hyper_util::rt::TokioExecutor::new();
        let (mut sender, connection) = hyper::client::conn::http2::handshake(exec, io).await.unwrap();
        let connection = tokio::spawn(connection);
        let drip = futures::stream::unfold(0_u32, |n| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let byte = if n == 4 { 200_u8 } else { 0 };
            let frame = hyper::body::Frame::data(hyper::body::Bytes::copy_from_slice(&[byte]));
            Some((Ok::<_, std::convert::Infallible>(frame), n + 1))
        });
        let request = hyper::Request::post(format!("http://{}{path}", server.app.address()))
            .header("content-type", "application/grpc")
            .body(http_body_util::StreamBody::new(Box::pin(drip)))
            .unwrap();
        let ended = async {
            let answer = sender.send_request(request).await.expect("an answer");
            let status = |headers: &hyper::HeaderMap| headers.get("grpc-status").cloned();
            let early = status(answer.headers());
            let late = http_body_util::BodyExt::collect(answer.into_body())
                .await
                .expect("a body");
            early.or_else(|| late.trailers().and_then(status))
        };
        let status = tokio::time::timeout(PATIENCE, ended)
            .await
            .expect("it is given up");
        assert_eq!(status.expect("a status"), "4", "{path}");
        connection.abort();
    }
    server.idle(0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_key_keeps_what_it_has_used_while_its_file_is_rewritten() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("keys");
    let (key, line) = omni_config::new_key("anna", &[Scope::Speech], &Default::default()).unwrap();
    let line = format!("{line} streams=1\n");
    std::fs::write(&file, &line).unwrap();
    let server = server(&["--api-keys", file.to_str().unwrap()], |_| {}).await;
    let open = async || {
        let (events, stream) = tokio::sync::mpsc::channel::<v1::SpeakRequest>(4);
        let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
        let call = named(stream, "authorization", &format!("Bearer {key}"));
        server.speech().speak(call).await.map(|call| (events, call))
    };
    let _held = open().await.expect("one");
    for part in ["", &line[..20], &line] {
        std::fs::write(&file, part).unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(1_500) {
            let refused = open().await.expect_err("one is open");
            assert_eq!(reason(&refused), "CONCURRENCY_LIMIT", "{part:?}");
        }
    }
    server.stop().await;
}
