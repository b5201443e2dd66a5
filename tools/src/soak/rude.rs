//! Callers that do not keep to the protocol, by mistake or not.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::chat_service_client::ChatServiceClient;
use omni_proto::v1::speak_response::Event;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_tests::{Call, ChatCall, Ending, cancel, config, finish, http_to, named, respond, text};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use super::callers::{Visit, refused};

/// Invalid messages: each gets the right status, and nothing else suffers.
pub(super) async fn wrong_messages(visit: &mut Visit) -> String {
    if visit.dice.one_in(4) {
        return unready(visit).await;
    }
    let call = Call::try_open(&mut SpeechServiceClient::new(visit.channel()), None).await;
    let mut call = match call {
        Ok(call) => call,
        Err(status) => return refused(&status),
    };
    let default = v1::SpeechConfig::default;
    let expected = match visit.dice.below(6) {
        0 => {
            call.send(text("Too early.")).await;
            Code::InvalidArgument
        }
        1 => {
            call.send(config(v1::SpeechConfig {
                voice: "nobody".to_owned(),
                ..default()
            }))
            .await;
            Code::InvalidArgument
        }
        2 => {
            call.send(config(v1::SpeechConfig {
                speed: Some(f64::NAN),
                ..default()
            }))
            .await;
            Code::InvalidArgument
        }
        3 => {
            call.send(config(default())).await;
            call.send(text("It goes on")).await;
            call.send(config(default())).await;
            Code::FailedPrecondition
        }
        4 => {
            call.send(config(default())).await;
            call.send(named("one", "It goes on")).await;
            call.send(named("two", "and on")).await;
            Code::InvalidArgument
        }
        _ => {
            call.send(config(default())).await;
            return too_long(call).await;
        }
    };
    while call.next().await.is_some() {}
    assert_eq!(call.history().ending, Ending::Status(expected));
    format!("told {expected:?}")
}

/// Text beyond the limit fails its utterance, and only that.
async fn too_long(mut call: Call) -> String {
    call.send(text(&"word ".repeat(5_000))).await;
    call.send(finish()).await;
    call.send(cancel("nobody")).await;
    call.hang_up();
    let history = call.end().await.expect("the call goes on");
    let done = history
        .responses
        .iter()
        .find_map(|response| match &response.event {
            Some(Event::Done(done)) => done.outcome.as_ref(),
            _ => None,
        });
    assert_eq!(omni_tests::error_reason(done.expect("a done")), "TEXT_TOO_LONG");
    "told TEXT_TOO_LONG".to_owned()
}

/// A conversation in which an answer is requested before anything was said.
async fn unready(visit: &mut Visit) -> String {
    let call = ChatCall::try_open(&mut ChatServiceClient::new(visit.channel()), None).await;
    let mut call = match call {
        Ok(call) => call,
        Err(status) => return refused(&status),
    };
    call.send(respond()).await;
    while call.next().await.is_some() {}
    assert_eq!(call.history().ending, Ending::Status(Code::InvalidArgument));
    "told InvalidArgument".to_owned()
}

/// Bytes that are no message of any protocol, or one that was damaged on the way.
pub(super) async fn wrong_bytes(visit: &mut Visit) -> String {
    let length = visit.dice.below(2_000) as usize;
    let noise = visit.dice.bytes(length);
    let json = ("content-type", "application/json");
    match visit.dice.below(4) {
        0 => {
            connect_with(visit, &noise).await;
            "ignored".to_owned()
        }
        1 => {
            let hello = [
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
                &noise[..],
            ]
            .concat();
            connect_with(visit, &hello).await;
            "ignored".to_owned()
        }
        2 => {
            let answer = http_to(
                visit.target.address,
                "POST",
                "/v1/chat/completions",
                &[json],
                noise,
            )
            .await;
            assert!(answer.status.is_client_error(), "{answer:?}");
            format!("told {}", answer.status.as_u16())
        }
        _ => {
            let kind = ("content-type", "application/grpc-web+proto");
            let mut framed = vec![0];
            framed.extend((noise.len() as u32).to_be_bytes());
            framed.extend(noise);
            let path = "/omni.v1.SpeechService/Synthesize";
            let answer = http_to(visit.target.address, "POST", path, &[kind], framed).await;
            assert!(
                answer.status.is_success() || answer.status.is_client_error(),
                "{answer:?}"
            );
            "told".to_owned()
        }
    }
}

/// Sends and sees whether anything comes back, for a moment.
async fn connect_with(visit: &mut Visit, bytes: &[u8]) {
    let mut stream = TcpStream::connect(visit.target.address)
        .await
        .expect("the server listens");
    // It may hang up before it has read all.
    let _ = stream.write_all(bytes).await;
    let mut answer = [0; 256];
    let time = visit.dice.moment(Duration::from_millis(300));
    let _ = tokio::time::timeout(time, stream.read(&mut answer)).await;
}
