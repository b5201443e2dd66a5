//! Request bodies without a session: bytes in flight are bounded per client, and short bodies count with their real
//! length.

use std::time::Duration;

use omni_proto::v1;
use omni_tests::{FakeScript, FakeSpeech, HttpAnswer, TestServer, audio_of, http, reason, seeded};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tonic::Code;

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of all bodies together that the server admits.
const BUDGET: usize = 64 << 10;

async fn post(server: &TestServer, path: &str, body: String) -> HttpAnswer {
    let headers = [("content-type", "application/json")];
    http(server, "POST", path, &headers, body).await
}

/// Sends a body of 20 kB that is refused for its content.
async fn knock(server: &TestServer) -> HttpAnswer {
    let body = json!({"model": "none", "input": "a".repeat(20_000)});
    post(server, "/v1/audio/speech", body.to_string()).await
}

async fn until(server: &TestServer, status: u16) -> HttpAnswer {
    let asked = async {
        loop {
            let answer = knock(server).await;
            if answer.status == status {
                return answer;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .expect("an answer in time")
}

#[tokio::test]
async fn bodies_that_are_on_their_way_share_a_budget_whatever_they_are_sent_by() {
    let load = || Ok(FakeSpeech::new(FakeScript::default()));
    let adjust = |config: &mut omni_config::Config| config.connections.body_bytes = BUDGET;
    let mut server = TestServer::adjusted(&[], adjust, load).await;
    server.app.ready().await.expect("the fake model loads");
    assert_eq!(knock(&server).await.status, 404);
    let mut stuck = TcpStream::connect(server.app.address()).await.unwrap();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 50000\r\n\r\n";
    stuck.write_all(head.as_bytes()).await.unwrap();
    stuck.write_all(&[b' '; 30_000]).await.unwrap();
    let refused = until(&server, 429).await;
    let error: Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(error["error"]["code"], "server_overloaded");
    assert_eq!(refused.header("retry-after"), "1");
    let text = "a".repeat(20_000);
    let refused = audio_of(&mut server.speech(), seeded(1), &text)
        .await
        .unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::ResourceExhausted, "SERVER_OVERLOADED")
    );
    // A caller with a small body is served.
    audio_of(&mut server.speech(), seeded(1), "Hello.").await.unwrap();
    drop(stuck);
    until(&server, 404).await;
    server.stop().await;
}

#[tokio::test]
async fn many_bodies_one_after_the_other_leave_nothing_of_the_budget_taken() {
    let load = || Ok(FakeSpeech::new(FakeScript::default()));
    let adjust = |config: &mut omni_config::Config| config.connections.body_bytes = BUDGET;
    let mut server = TestServer::adjusted(&[], adjust, load).await;
    server.app.ready().await.expect("the fake model loads");
    for _ in 0..8 {
        assert_eq!(knock(&server).await.status, 404);
        let text = "a".repeat(20_000);
        let config = v1::SpeechConfig {
            model: "none".to_owned(),
            ..seeded(1)
        };
        let refused = audio_of(&mut server.speech(), config, &text).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_long_and_refused_is_refused_by_its_name() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let many = |one: &str| vec![one; 100_000].join(",");
    let zeros = format!("[{}]", many("0"));
    let messages = r#"[{"role": "user", "content": "ab"}]"#;
    for (field, value) in [
        ("tools", zeros.as_str()),
        ("response_format", r#"{"type": "json_schema"}"#),
        // A value too long to be valid is not read to its end.
        ("stop", &zeros),
        ("audio", &format!(r#"{{"format": "wav", "voice": {zeros}}}"#)),
        ("modalities", &format!("[{}]", many(r#""text""#))),
    ] {
        let body = format!(r#"{{"model": "fake", "messages": {messages}, "{field}": {value}}}"#);
        let answer = post(&server, "/v1/chat/completions", body).await;
        let error: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer.status.as_u16(), 400, "{field}");
        let param = error["error"]["param"].as_str().unwrap_or_default();
        assert!(param.starts_with(field), "{field}: {error}");
    }
    for messages in [
        many(r#"{"role": ""}"#),
        format!(r#"{{"role": "user", "content": {zeros}}}"#),
    ] {
        let body = format!(r#"{{"model": "fake", "messages": [{messages}]}}"#);
        let answer = post(&server, "/v1/chat/completions", body).await;
        assert_eq!(answer.status, 400);
    }
    // Hints of any length are skipped without being built.
    for (field, value) in [("functions", zeros.as_str()), ("logit_bias", r#"{"1": 2}"#)] {
        let body = format!(r#"{{"model": "fake", "messages": {messages}, "{field}": {value}}}"#);
        let answer = post(&server, "/v1/chat/completions", body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("x-omni-ignored")),
            (200, field)
        );
    }
    // Empty values request nothing, in any spelling.
    let nothing = r#""tools": [], "functions": null, "logit_bias": {}, "response_format": {"type": "text"}"#;
    let body = format!(r#"{{"model": "fake", "messages": {messages}, {nothing}}}"#);
    assert_eq!(post(&server, "/v1/chat/completions", body).await.status, 200);
    server.stop().await;
}
