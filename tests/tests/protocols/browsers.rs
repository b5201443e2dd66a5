//! Web pages: gRPC-Web over HTTP/1.1, and which origins may call.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::StatusCode;
use omni_proto::v1;
use omni_tests::{FakeScript, HttpAnswer, TestServer, http, http_to};
use prost::Message as _;

const SYNTHESIZE: &str = "/omni.v1.SpeechService/Synthesize";
const ORIGIN: &str = "https://page.example";

fn request() -> Vec<u8> {
    let request = v1::SynthesizeRequest {
        text: "Hello there.".to_owned(),
        ..v1::SynthesizeRequest::default()
    };
    let message = request.encode_to_vec();
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).expect("a short one").to_be_bytes());
    framed.extend(message);
    framed
}

/// Messages and trailers of a gRPC-Web answer.
fn frames(mut body: &[u8]) -> (Vec<v1::SynthesizeResponse>, String) {
    let mut messages = Vec::new();
    let mut trailers = String::new();
    while let [flags, a, b, c, d, rest @ ..] = body {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let (frame, rest) = rest.split_at(length);
        match flags {
            0 => messages.push(v1::SynthesizeResponse::decode(frame).expect("a message")),
            0x80 => trailers.push_str(std::str::from_utf8(frame).expect("text")),
            other => panic!("a frame of kind {other}"),
        }
        body = rest;
    }
    assert!(body.is_empty(), "whole frames");
    (messages, trailers)
}

async fn synthesize(server: &TestServer, kind: &str, body: Vec<u8>) -> HttpAnswer {
    let headers = [("content-type", kind), ("accept", kind), ("origin", ORIGIN)];
    http(server, "POST", SYNTHESIZE, &headers, body).await
}

fn is_speech(messages: &[v1::SynthesizeResponse], trailers: &str) {
    use v1::synthesize_response::Event;
    let audio = messages
        .iter()
        .filter(|message| matches!(message.event, Some(Event::Audio(_))));
    assert!(audio.count() > 0, "{messages:?}");
    assert!(matches!(
        messages.last().and_then(|last| last.event.as_ref()),
        Some(Event::Done(_))
    ));
    assert!(trailers.contains("grpc-status:0"), "{trailers}");
}

#[tokio::test]
async fn a_page_gets_speech_in_bytes_and_in_text() {
    let server = TestServer::fake(FakeScript::default(), &["--cors-origin", ORIGIN]).await;
    let answer = synthesize(&server, "application/grpc-web+proto", request()).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("access-control-allow-origin"), ORIGIN);
    assert!(
        answer
            .header("access-control-expose-headers")
            .contains("grpc-status")
    );
    let (messages, trailers) = frames(&answer.body);
    is_speech(&messages, &trailers);

    let text = BASE64.encode(request()).into_bytes();
    let answer = synthesize(&server, "application/grpc-web-text+proto", text).await;
    // Every piece that was sent is base64 of its own, padding included.
    let mut bytes = Vec::new();
    for quad in answer.body.chunks(4) {
        bytes.extend(BASE64.decode(quad).expect("base64"));
    }
    let (messages, trailers) = frames(&bytes);
    is_speech(&messages, &trailers);
    server.idle(2).await;
    server.stop().await;
}

#[tokio::test]
async fn a_page_is_asked_for_by_its_browser_and_let_in_only_from_where_the_operator_says() {
    let asked = [
        ("origin", ORIGIN),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,x-grpc-web"),
    ];
    for (arguments, allowed) in [
        (&["--cors-origin", ORIGIN][..], ORIGIN),
        (&["--cors-origin", "*"], "*"),
        (&["--cors-origin", "https://other.example"], ""),
        (&[], ""),
    ] {
        let server = TestServer::fake(FakeScript::default(), arguments).await;
        for path in [SYNTHESIZE, "/v1/audio/speech"] {
            let answer = http(&server, "OPTIONS", path, &asked, "").await;
            assert_eq!(
                answer.header("access-control-allow-origin"),
                allowed,
                "{arguments:?}"
            );
            if !allowed.is_empty() {
                assert!(
                    answer
                        .header("access-control-allow-headers")
                        .contains("x-grpc-web")
                );
                assert!(answer.header("access-control-allow-methods").contains("POST"));
            }
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn what_a_page_may_send_unasked_is_not_taken() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let body = r#"{"model": "fake", "input": "Hello."}"#;
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let answer = http(
            &server,
            "POST",
            "/v1/audio/speech",
            &[("content-type", kind)],
            body,
        )
        .await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    server.idle(0).await;
    server.stop().await;
}

#[tokio::test]
async fn no_page_steers_the_server_of_an_operator() {
    let server = TestServer::fake(FakeScript::default(), &["--admin-listen", "127.0.0.1:0"]).await;
    let address = server.app.admin_address().expect("operators are served");
    // Content types that a page may send without a preflight request.
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let path = "/omni.v1.AdminService/Drain";
        let answer = http_to(address, "POST", path, &[("content-type", kind)], vec![0; 5]).await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let info = server
        .admin()
        .await
        .get_server_info(v1::GetServerInfoRequest {})
        .await;
    assert!(!info.expect("an answer").into_inner().draining);
    server.stop().await;
}

/// A browser sends such a page's calls without asking first: for it the page and this server have one origin.
#[tokio::test]
async fn a_page_whose_name_is_made_to_lead_to_this_machine_neither_speaks_nor_watches() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let own = server.app.address().to_string();
    for (host, status) in [("evil.example:50051", "7"), (own.as_str(), "0")] {
        let origin = format!("http://{host}");
        let kind = "application/grpc-web+proto";
        let headers = [
            ("content-type", kind),
            ("host", host),
            ("origin", origin.as_str()),
        ];
        let answer = http(&server, "POST", SYNTHESIZE, &headers, request()).await;
        let told = answer.header("grpc-status");
        let (_, trailers) = frames(&answer.body);
        assert!(
            told == status || trailers.contains(&format!("grpc-status:{status}")),
            "{host}: {told:?} {trailers:?}"
        );
    }
    server.idle(1).await;
    server.stop().await;
}
