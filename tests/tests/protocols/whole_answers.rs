//! Whole answers that are not read: each has a place until it was taken, and loses it when it is not taken in time.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use omni_proto::riva::tts::riva_speech_synthesis_client::RivaSpeechSynthesisClient;
use omni_proto::riva::tts::{SynthesizeSpeechRequest, SynthesizeSpeechResponse};
use omni_proto::v1;
use omni_tests::{FakeScript, Reading, TestServer, http, reason};
use prost::Message;
use tokio::net::TcpStream;
use tonic::{Code, Status};

/// Longer than anything here takes; only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

fn request() -> SynthesizeSpeechRequest {
    SynthesizeSpeechRequest {
        text: "word ".repeat(300),
        ..SynthesizeSpeechRequest::default()
    }
}

const WHOLE: &str = "nvidia.riva.tts.RivaSpeechSynthesis/Synthesize";
const STREAM: &str = "omni.v1.SpeechService/Synthesize";

/// An answer whose reader has little room.
struct Unread {
    answer: Response<Incoming>,
    _sender: SendRequest<Full<Bytes>>,
}

impl Unread {
    /// One that has room for one byte.
    async fn of(server: &TestServer) -> Self {
        Self::with_room(server, 1, WHOLE, &request()).await
    }

    /// Answer to a message, read with a window of `bytes` bytes.
    async fn with_room(server: &TestServer, bytes: u32, method: &str, message: &impl Message) -> Self {
        let stream = TcpStream::connect(server.app.address())
            .await
            .expect("the server listens");
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(bytes);
        let connection = builder.handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = connection.expect("a connection");
        tokio::spawn(connection);
        let message = message.encode_to_vec();
        let mut framed = vec![0];
        framed.extend(u32::try_from(message.len()).expect("a short one").to_be_bytes());
        framed.extend(message);
        let uri = format!("http://{}/{method}", server.app.address());
        let request = Request::post(uri)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(framed)))
            .expect("a request");
        let answer = sender.send_request(request).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(answer.headers().get("grpc-status").is_none(), "{answer:?}");
        Self {
            answer,
            _sender: sender,
        }
    }
}

async fn ask(server: &TestServer) -> Result<(), Status> {
    let mut client = RivaSpeechSynthesisClient::new(server.channel.clone());
    let answer = client.synthesize(request()).await?;
    assert!(!answer.into_inner().audio.is_empty());
    Ok(())
}

/// Asks until there is a place.
async fn until_there_is_a_place(server: &TestServer) {
    let asked = async {
        while let Err(refused) = ask(server).await {
            assert_eq!(reason(&refused), "CONCURRENCY_LIMIT");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asked).await;
    asked.expect("a place is free at last");
}

#[tokio::test]
async fn an_answer_keeps_its_place_until_it_was_taken_or_its_reader_is_gone() {
    let server = TestServer::fake(FakeScript::default(), &["--max-sessions", "1"]).await;
    let unread = Unread::of(&server).await;
    let refused = ask(&server).await.expect_err("the only place is taken");
    assert_eq!(reason(&refused), "CONCURRENCY_LIMIT");
    let body = r#"{"model": "fake", "messages": [{"role": "user", "content": "ab"}]}"#;
    let headers = [("content-type", "application/json")];
    let refused = http(&server, "POST", "/v1/chat/completions", &headers, body).await;
    assert_eq!(refused.status, 429);
    let reading = Reading::of(&server).await;
    let counted = reading.sum("vllm:admission_rejections_total", &[("reason", "max_sessions")]);
    assert_eq!(counted, 2.0, "operators see it");
    drop(unread);
    until_there_is_a_place(&server).await;
    // Those that were read have given theirs back.
    ask(&server).await.expect("a place");
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_nobody_takes_loses_its_place() {
    let args = ["--max-sessions", "1", "--stall-timeout", "1s"];
    let server = TestServer::fake(FakeScript::default(), &args).await;
    let unread = Unread::of(&server).await;
    until_there_is_a_place(&server).await;
    assert_eq!(unread.answer.status(), StatusCode::OK);
    server.stop().await;
}

/// Drains the server while a reader with a window of `room` bytes reads its answer; returns the messages received.
async fn drained(room: u32, method: &str, message: &impl Message) -> Vec<Vec<u8>> {
    let server = TestServer::fake(FakeScript::default(), &["--drain-timeout", "60s"]).await;
    let unread = Unread::with_room(&server, room, method, message).await;
    server
        .until("it is made", || server.records.all().len() == 1)
        .await;
    let app = server.app;
    let ends = tokio::spawn(async move { app.shut_down(std::future::pending()).await });
    // Longer than connections without calls are given.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(!ends.is_finished());
    let body = unread.answer.into_body().collect().await.expect("all of it");
    let status = body
        .trailers()
        .and_then(Status::from_header_map)
        .expect("a status");
    assert_eq!(status.code(), Code::Ok);
    let ended = tokio::time::timeout(PATIENCE, ends).await;
    ended.expect("it ends").expect("well");
    let bytes = body.to_bytes();
    let mut messages = Vec::new();
    let mut rest = &bytes[..];
    while let [0, a, b, c, d, more @ ..] = rest {
        let (message, more) = more.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
        messages.push(message.to_owned());
        rest = more;
    }
    assert!(rest.is_empty());
    messages
}

#[tokio::test]
async fn an_answer_that_is_being_read_is_read_to_its_end_while_the_server_is_drained() {
    let messages = drained(4 << 10, WHOLE, &request()).await;
    assert_eq!(messages.len(), 1);
    let answer = SynthesizeSpeechResponse::decode(&messages[0][..]).expect("an answer");
    assert!(!answer.audio.is_empty());
}

/// Its audio waits for the reader in two places: where events are handed over, and, with `done` behind it, in the
/// session.
#[tokio::test]
async fn a_stream_that_is_being_read_is_read_to_its_end_while_the_server_is_drained() {
    let request = v1::SynthesizeRequest {
        text: "ab".to_owned(),
        ..v1::SynthesizeRequest::default()
    };
    let messages = drained(1, STREAM, &request).await;
    let last = v1::SynthesizeResponse::decode(&messages.last().expect("an event")[..]).expect("an event");
    assert!(
        matches!(last.event, Some(v1::synthesize_response::Event::Done(_))),
        "{last:?}"
    );
}

#[tokio::test]
async fn an_answer_that_is_not_made_yet_is_made_and_read_while_the_server_is_drained() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--drain-timeout", "60s"]).await;
    script.talker.close();
    let mut client = RivaSpeechSynthesisClient::new(server.channel.clone());
    let answer = tokio::spawn(async move { client.synthesize(request()).await });
    server
        .until("it is asked for", || server.app.sessions() > 0)
        .await;
    let app = server.app;
    let ends = tokio::spawn(async move { app.shut_down(std::future::pending()).await });
    script.talker.open();
    let answer = answer.await.expect("no panic").expect("an answer").into_inner();
    assert!(!answer.audio.is_empty());
    let ended = tokio::time::timeout(PATIENCE, ends).await;
    ended.expect("it ends").expect("well");
}
