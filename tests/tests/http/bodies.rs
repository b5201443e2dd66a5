//! Bodies of requests as clients write them: packed, marked, with halves of characters, and with numbers as text.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use hyper::StatusCode;
use omni_tests::{FakeScript, HttpAnswer, TestServer, http};
use serde_json::{Value, json};

const SPEECH: &str = "/v1/audio/speech";

async fn send(server: &TestServer, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> HttpAnswer {
    http(server, "POST", SPEECH, headers, body.into()).await
}

async fn json_of(server: &TestServer, body: &str) -> HttpAnswer {
    send(server, &[("content-type", "application/json")], body).await
}

fn error(answer: &HttpAnswer) -> Value {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("no JSON: {answer:?}"));
    body["error"].clone()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[tokio::test]
async fn a_body_may_be_packed_and_has_the_same_bounds_then() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let body = json!({"input": "Hello.", "response_format": "pcm", "seed": 7}).to_string();
    let plain = json_of(&server, &body).await;
    let kind = ("content-type", "application/json");
    for (encoding, packed) in [
        ("gzip", gzip(body.as_bytes())),
        ("x-gzip", gzip(body.as_bytes())),
        ("GZIP", gzip(body.as_bytes())),
        ("deflate", deflate(body.as_bytes())),
        ("identity", body.clone().into_bytes()),
        ("identity, gzip", gzip(body.as_bytes())),
    ] {
        let answer = send(&server, &[kind, ("content-encoding", encoding)], packed).await;
        assert_eq!(answer.status, StatusCode::OK, "{encoding}: {answer:?}");
        assert_eq!(answer.body, plain.body, "{encoding}");
    }
    for encoding in ["br", "zstd", "compress", "gzip, gzip"] {
        let answer = send(&server, &[kind, ("content-encoding", encoding)], body.clone()).await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{encoding}");
        let message = error(&answer)["message"].to_string();
        assert!(message.contains("expected gzip, deflate or none"), "{message}");
    }
    let torn = send(&server, &[kind, ("content-encoding", "gzip")], body.clone()).await;
    assert_eq!(torn.status, StatusCode::BAD_REQUEST, "{torn:?}");
    // A few KiB that stand for 64 MiB.
    let bomb = gzip(&vec![b' '; 64 << 20]);
    let bomb = send(&server, &[kind, ("content-encoding", "gzip")], bomb).await;
    assert_eq!(bomb.status, StatusCode::PAYLOAD_TOO_LARGE, "{bomb:?}");
    server.stop().await;
}

#[tokio::test]
async fn json_is_known_by_any_name_that_no_page_may_send_unasked() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let body = json!({"input": "Hello."}).to_string();
    for kind in [
        "application/json",
        "Application/JSON; charset=UTF-8",
        "application/json;charset=utf-8",
        "text/json",
        "application/vnd.api+json",
    ] {
        let answer = send(&server, &[("content-type", kind)], body.clone()).await;
        assert_eq!(answer.status, StatusCode::OK, "{kind}: {answer:?}");
    }
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "",
    ] {
        let answer = send(&server, &[("content-type", kind)], body.clone()).await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
        let message = error(&answer)["message"].to_string();
        assert!(message.contains("expected application/json"), "{message}");
    }
    server.stop().await;
}

#[tokio::test]
async fn marks_cases_numbers_as_text_and_nulls_are_taken_as_they_are_meant() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let wanted = json_of(
        &server,
        r#"{"input": "Hello.", "response_format": "pcm", "speed": 1.5, "seed": 7, "stream": true}"#,
    )
    .await;
    assert_eq!(wanted.status, StatusCode::OK);
    for body in [
        "\u{FEFF}{\"input\": \"Hello.\", \"response_format\": \"pcm\", \"speed\": 1.5, \"seed\": 7}",
        r#"{"input": "Hello.", "response_format": "PCM", "speed": "1.5", "seed": "7", "stream": "true"}"#,
        r#"{"input": "Hello.", "response_format": " Pcm ", "speed": 1.5, "seed": 7.0, "stream": "False"}"#,
        r#"{"input": "Hello.", "response_format": "pcm", "speed": 1.5, "seed": 7, "voice": null, "model": null,
            "instructions": null, "language": null, "stream": null, "stream_format": null, "sample_rate": null, "ref_audio": null}"#,
    ] {
        let answer = json_of(&server, body).await;
        assert_eq!(answer.status, StatusCode::OK, "{body}: {answer:?}");
        assert_eq!(answer.body, wanted.body, "{body}");
        assert_eq!(answer.header("x-omni-ignored"), "", "{body}");
    }
    for (body, found) in [
        (r#"{"input": "Hello.", "speed": "fast"}"#, "fast"),
        (r#"{"input": "Hello.", "seed": 1.5}"#, "1.5"),
        (r#"{"input": "Hello.", "stream": "maybe"}"#, "maybe"),
    ] {
        let answer = json_of(&server, body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(
            error(&answer)["message"].to_string().contains(found),
            "{answer:?}"
        );
    }
    let latin = send(
        &server,
        &[("content-type", "application/json")],
        b"{\"input\": \"caf\xE9\"}".to_vec(),
    )
    .await;
    assert_eq!(latin.status, StatusCode::BAD_REQUEST);
    assert!(
        error(&latin)["message"].to_string().contains("UTF-8"),
        "{latin:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn half_a_character_costs_no_request() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for input in [
        r"Great job \ud83d",
        r"\ude00 Great job",
        r"Great \ud83d job",
        r"Great job \ud83d\ude00",
        r"Great \ude00\ud83d job",
    ] {
        let answer = json_of(&server, &format!(r#"{{"input": "{input}"}}"#)).await;
        assert_eq!(answer.status, StatusCode::OK, "{input}: {answer:?}");
        let asked = format!(r#"{{"messages": [{{"role": "user", "content": "recite {input}"}}]}}"#);
        let headers = [("content-type", "application/json")];
        let answer = http(&server, "POST", "/v1/chat/completions", &headers, asked).await;
        assert_eq!(answer.status, StatusCode::OK, "{input}: {answer:?}");
        let text = String::from_utf8(answer.body).expect("text");
        assert!(text.contains("Great") && text.contains("job"), "{text}");
    }
    // JSON within JSON: a function's arguments.
    let call =
        r#"{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": \"\\ud83d\"}"}}"#;
    let asked = format!(
        r#"{{"messages": [{{"role": "user", "content": "a"}}, {{"role": "assistant", "tool_calls": [{call}]}},
            {{"role": "tool", "tool_call_id": "c", "content": "b"}}, {{"role": "user", "content": "recite"}}]}}"#
    );
    let headers = [("content-type", "application/json")];
    let answer = http(&server, "POST", "/v1/chat/completions", &headers, asked).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    server.stop().await;
}
