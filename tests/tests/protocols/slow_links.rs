//! Links slower than speech, and callers that do not read: gRPC, and raw sockets.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_tests::{Call, FAKE_RATE, FakeScript, SlowLink, TestServer, cancel, endless, finish, seeded, text};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::Channel;

const WAY: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_cancel_on_a_full_link_stops_speech_within_seconds_of_audio() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for kbit in [160, 1_000] {
        let link = SlowLink::to(server.app.address(), kbit, WAY);
        let channel = Channel::from_shared(format!("http://{}", link.address())).expect("an address");
        let channel = channel.connect().await.expect("the server listens");
        let mut call = Call::open(&mut SpeechServiceClient::new(channel))
            .await
            .configured(seeded(1))
            .await;
        call.send(text(&endless())).await;
        call.send(finish()).await;
        call.first_audio().await;
        call.send(cancel("")).await;
        let cancelled = call.utterance().await;
        assert_eq!(cancelled.finish(), v1::FinishReason::Interrupted);
        let seconds = cancelled.samples() as f64 / f64::from(FAKE_RATE);
        // The window of the client is two seconds of it.
        assert!(seconds < 7.0, "{seconds} s at {kbit} kbit/s");
    }
    server.idle(2).await;
    server.stop().await;
}

#[tokio::test]
async fn a_wyoming_client_that_goes_while_its_link_is_full_leaves_nothing_behind() {
    let server = TestServer::fake(FakeScript::default(), &["--wyoming", "127.0.0.1:0"]).await;
    let address = server.app.wyoming_address().expect("--wyoming");
    let mut client = TcpStream::connect(address).await.expect("it listens");
    let data = json!({"text": endless()}).to_string();
    let event = json!({"type": "synthesize", "data_length": data.len()});
    let event = format!("{event}\n{data}");
    client.write_all(event.as_bytes()).await.expect("it is read");
    client.read_exact(&mut [0; 1 << 10]).await.expect("audio");
    client.shutdown().await.expect("its side ends");
    // It stays connected, and reads nothing more.
    server
        .until("the session has ended", || server.app.sessions() == 0)
        .await;
    server.stop().await;
}
