//! Callers by WebSocket and by Wyoming.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::callers::{BUSY, Visit};
use super::speakers::words;

/// Connections of a crowd.
const CROWD: usize = 32;
const PATH: &str = "/v1/audio/speech/stream";

/// A WebSocket; none if the server has no room for one more.
async fn open(visit: &Visit) -> Option<WebSocketStream<TcpStream>> {
    let address = visit.target.address;
    let stream = TcpStream::connect(address).await.expect("the server listens");
    match client_async(format!("ws://{address}{PATH}"), stream).await {
        Ok((socket, _)) => Some(socket),
        Err(Error::Http(answer)) => {
            assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
            None
        }
        Err(error) => panic!("no WebSocket: {error}"),
    }
}

async fn send(socket: &mut WebSocketStream<TcpStream>, message: Value) {
    let text = Message::text(message.to_string());
    socket.send(text).await.expect("the server reads");
}

async fn say(socket: &mut WebSocketStream<TcpStream>, text: &str) {
    for piece in text.split_inclusive(' ') {
        send(socket, json!({"type": "input.text", "text": piece})).await;
    }
    send(socket, json!({"type": "input.done"})).await;
}

/// The frames of one utterance to its end; the code of an error, if there is one.
async fn utterance(socket: &mut WebSocketStream<TcpStream>, index: u64) -> Option<String> {
    let mut bytes = 0;
    let mut refused = None;
    loop {
        let message = socket
            .next()
            .await
            .expect("the connection goes on")
            .expect("a message");
        match message {
            Message::Binary(audio) => bytes += audio.len(),
            Message::Text(text) => {
                let told: Value = serde_json::from_str(&text).expect("JSON");
                match told["type"].as_str().expect("a type") {
                    "error" => refused = told["code"].as_str().map(str::to_owned),
                    "audio.done" => assert_eq!(told["total_bytes"], json!(bytes)),
                    "session.done" => {
                        assert_eq!(told["utterance_index"], json!(index));
                        return refused;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// Returns true if a refusal with this code is accepted under load.
fn busy(code: &str) -> bool {
    BUSY.iter().any(|busy| busy.eq_ignore_ascii_case(code))
}

/// Speaks some utterances by WebSocket, and closes it.
pub(super) async fn websocket(visit: &mut Visit) -> String {
    let Some(mut socket) = open(visit).await else {
        return "refused".to_owned();
    };
    let streamed = visit.dice.one_in(2);
    send(
        &mut socket,
        json!({"type": "session.config", "stream_audio": streamed}),
    )
    .await;
    for index in 0..=visit.dice.below(3) {
        let text = words(&mut visit.dice);
        say(&mut socket, &text).await;
        if let Some(code) = utterance(&mut socket, index).await {
            assert!(busy(&code), "{code}");
            return format!("refused {code}");
        }
    }
    send(&mut socket, json!({"type": "session.close"})).await;
    let end = socket.next().await.expect("a close frame");
    assert!(matches!(end, Ok(Message::Close(_))), "{end:?}");
    "answered".to_owned()
}

/// Leaves a WebSocket in the middle of an utterance, without a close frame.
pub(super) async fn websocket_vanishes(visit: &mut Visit) -> String {
    let Some(mut socket) = open(visit).await else {
        return "refused".to_owned();
    };
    send(
        &mut socket,
        json!({"type": "session.config", "stream_audio": true}),
    )
    .await;
    say(&mut socket, &omni_tests::endless()).await;
    let time = visit.dice.moment(Duration::from_millis(500));
    let _ = tokio::time::timeout(time, utterance(&mut socket, 0)).await;
    "gone".to_owned()
}

async fn wyoming(visit: &Visit) -> BufReader<TcpStream> {
    let address = visit.target.wyoming.expect("--wyoming");
    BufReader::new(TcpStream::connect(address).await.expect("the server listens"))
}

async fn event(stream: &mut BufReader<TcpStream>, kind: &str, data: Value) {
    let line = json!({"type": kind, "data": data}).to_string() + "\n";
    stream.write_all(line.as_bytes()).await.expect("the server reads");
}

/// Reads to the event `last`; the code of an error, if that comes instead.
async fn heard(stream: &mut BufReader<TcpStream>, last: &str) -> Option<String> {
    loop {
        let mut line = String::new();
        assert_ne!(
            stream.read_line(&mut line).await.expect("a line"),
            0,
            "the connection goes on"
        );
        let head: Value = serde_json::from_str(&line).expect("JSON");
        let length = |name: &str| head[name].as_u64().unwrap_or(0) as usize;
        let mut rest = vec![0; length("data_length") + length("payload_length")];
        stream.read_exact(&mut rest).await.expect("data and a payload");
        match head["type"].as_str().expect("a type") {
            "error" => {
                let data: Value = serde_json::from_slice(&rest).expect("JSON");
                return data["code"].as_str().map(str::to_owned);
            }
            kind if kind == last => return None,
            _ => {}
        }
    }
}

/// Speaks by Wyoming, in pieces or not.
pub(super) async fn wyoming_speaks(visit: &mut Visit) -> String {
    let mut stream = wyoming(visit).await;
    let text = words(&mut visit.dice);
    let last = if visit.dice.one_in(2) {
        event(&mut stream, "synthesize", json!({"text": text})).await;
        "audio-stop"
    } else {
        event(&mut stream, "synthesize-start", json!({})).await;
        for piece in text.split_inclusive(' ') {
            event(&mut stream, "synthesize-chunk", json!({"text": piece})).await;
        }
        event(&mut stream, "synthesize-stop", json!({})).await;
        "synthesize-stopped"
    };
    match heard(&mut stream, last).await {
        None => "answered".to_owned(),
        Some(code) => {
            assert!(busy(&code), "{code}");
            format!("refused {code}")
        }
    }
}

/// Leaves a connection of Wyoming in the middle of an utterance.
pub(super) async fn wyoming_vanishes(visit: &mut Visit) -> String {
    let mut stream = wyoming(visit).await;
    event(&mut stream, "synthesize", json!({"text": omni_tests::endless()})).await;
    let time = visit.dice.moment(Duration::from_millis(500));
    let _ = tokio::time::timeout(time, heard(&mut stream, "audio-stop")).await;
    "gone".to_owned()
}

/// Connections that come at once, say a greeting of HTTP/2 each, and go.
pub(super) async fn crowd(visit: &mut Visit) -> String {
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut stream = TcpStream::connect(visit.target.address)
            .await
            .expect("the server listens");
        let greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        let greeted = stream.write_all(greeting).await.is_ok() && stream.read_u8().await.is_ok();
        crowd.extend(greeted.then_some(stream));
    }
    match crowd.len() {
        CROWD => "served".to_owned(),
        _ => "too many".to_owned(),
    }
}
