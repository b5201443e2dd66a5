//! Whole answers that nobody reads: each has a place until it was taken, and loses it when nobody takes it.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use omni_proto::riva::tts::SynthesizeSpeechRequest;
use omni_proto::riva::tts::riva_speech_synthesis_client::RivaSpeechSynthesisClient;
use omni_tests::{FakeScript, TestServer, reason};
use prost::Message as _;
use tokio::net::TcpStream;
use tonic::Status;

/// Longer than anything here takes; only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

fn request() -> SynthesizeSpeechRequest {
    SynthesizeSpeechRequest {
        text: "word ".repeat(300),
        ..SynthesizeSpeechRequest::default()
    }
}

/// An answer whose reader has room for one byte.
struct Unread {
    answer: Response<Incoming>,
    _sender: SendRequest<Full<Bytes>>,
}

impl Unread {
    async fn of(server: &TestServer) -> Self {
        let stream = TcpStream::connect(server.app.address())
            .await
            .expect("the server listens");
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(1);
        let connection = builder.handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = connection.expect("a connection");
        tokio::spawn(connection);
        let message = request().encode_to_vec();
        let mut framed = vec![0];
        framed.extend(u32::try_from(message.len()).expect("a short one").to_be_bytes());
        framed.extend(message);
        let uri = format!(
            "http://{}/nvidia.riva.tts.RivaSpeechSynthesis/Synthesize",
            server.app.address()
        );
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
    drop(unread);
    until_there_is_a_place(&server).await;
    // Those that were read have given theirs back.
    ask(&server).await.expect("a place");
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_nobody_takes_loses_its_place() {
    let args = ["--max-sessions", "1", "--stall-timeout", "100ms"];
    let server = TestServer::fake(FakeScript::default(), &args).await;
    let unread = Unread::of(&server).await;
    until_there_is_a_place(&server).await;
    assert_eq!(unread.answer.status(), StatusCode::OK);
    server.stop().await;
}
