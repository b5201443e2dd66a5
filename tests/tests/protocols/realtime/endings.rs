//! Sessions that end while a response is in progress: it ends first, and is counted by how it ended.

use futures::SinkExt as _;
use omni_proto::v1;
use omni_tests::{FakeScript, TestServer};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::{Client, fake, over, requests};

/// Begins a response that does not end by itself.
async fn speaking(client: &mut Client) {
    client.say("forever").await;
    client.respond(json!({})).await;
    client.until("response.output_audio.delta").await;
}

/// The end of the response in progress, of its session and of its connection.
async fn ended(client: &mut Client) -> (Value, Value, Value) {
    let done = client.until("response.done").await["response"].clone();
    let error = client.expect("error").await["error"].clone();
    (done, error, client.event().await)
}

#[tokio::test]
async fn a_response_whose_session_is_ended_fails_with_the_reason() {
    let server = TestServer::fake(FakeScript::default(), &["--admin-listen", "127.0.0.1:0"]).await;
    let mut client = Client::connect(&server).await;
    speaking(&mut client).await;
    let mut admin = server.admin().await;
    let watch = v1::WatchStatsRequest {
        interval: None,
        include_sessions: true,
    };
    let mut stats = admin.watch_stats(watch).await.expect("figures").into_inner();
    let stats = stats.message().await.expect("figures").expect("figures");
    let session_id = stats.session_stats[0].session_id.clone();
    let cancel = v1::CancelSessionRequest {
        session_id,
        reason: "maintenance".to_owned(),
    };
    admin.cancel_session(cancel).await.expect("it is there");
    let (done, error, closed) = ended(&mut client).await;
    assert_eq!(done["status"], "failed");
    assert_eq!(done["output"][0]["status"], "incomplete");
    assert_eq!(done["status_details"]["error"]["code"], "session_cancelled");
    assert_eq!(error["code"], "session_cancelled");
    assert_eq!(closed, json!({"type": "closed", "code": 1008}));
    over(&server).await;
    let counted = (
        requests(&server, "error").await,
        requests(&server, "cancelled").await,
    );
    assert_eq!(counted, (1.0, 0.0));
    server.stop().await;
}

#[tokio::test]
async fn a_response_fails_when_its_client_sends_more_than_is_allowed() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut client = Client::connect(&server).await;
    speaking(&mut client).await;
    // While both sides write, neither reads.
    script.code2wav.close();
    let long = json!({"type": "input_audio_buffer.append", "audio": "A".repeat(2 << 20)});
    let _ = client.0.send(Message::text(long.to_string())).await;
    let (done, error, closed) = ended(&mut client).await;
    assert_eq!(
        (&done["status"], &error["param"]),
        (&json!("failed"), &Value::Null)
    );
    assert_eq!(closed["code"], 1009);
    script.code2wav.open();
    over(&server).await;
    assert_eq!(requests(&server, "error").await, 1.0);
    server.stop().await;
}

#[tokio::test]
async fn a_notice_is_spoken_to_its_end_by_a_server_that_ends() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut client = Client::connect(&server).await;
    client
        .update(json!({"audio": {"input": {"turn_detection": null}}}))
        .await;
    script.code2wav.close();
    let audio = "AAAA".repeat(4_000);
    client
        .send(json!({"type": "input_audio_buffer.append", "audio": audio}))
        .await;
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    client.respond(json!({})).await;
    client.until("response.created").await;
    let admission = server.app.orchestrator().admission();
    server
        .until("the notice is spoken", || admission.free() == 63)
        .await;
    let orchestrator = server.app.orchestrator().clone();
    let draining = server.app.orchestrator().draining().clone();
    let ending = tokio::spawn(server.app.shut_down(std::future::pending()));
    draining.cancelled().await;
    assert_eq!(orchestrator.admission().free(), 63, "it is still spoken");
    script.code2wav.open();
    let heard = client.heard().await;
    assert_eq!(heard.status(), "completed");
    assert!(heard.transcript.ends_with("Please write to me."), "{heard:?}");
    // A character is spoken in 40 ms.
    let least = heard.transcript.len() * 40 * 48;
    assert!(heard.audio.len() >= least, "{} of {least}", heard.audio.len());
    client.expect("error").await;
    assert_eq!(client.event().await["code"], 1001);
    ending.await.expect("it ends");
}

#[tokio::test]
async fn a_close_frame_is_answered_by_one() {
    let server = fake().await;
    let mut client = Client::connect(&server).await;
    let frame = CloseFrame {
        code: CloseCode::Normal,
        reason: "done".into(),
    };
    client.0.close(Some(frame)).await.expect("it is sent");
    assert_eq!(client.event().await, json!({"type": "closed", "code": 1000}));
    over(&server).await;
    server.stop().await;
}
