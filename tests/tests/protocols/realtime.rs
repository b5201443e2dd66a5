//! `/v1/realtime`: the wire format, third-party clients, and misbehaving ones.

mod bounds;
mod clients;
mod endings;
mod items;
mod quotas;
mod slow_links;
mod speech;
mod transcripts;
mod turn_detection;
mod turns;

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::{SinkExt as _, StreamExt as _};
use hyper::StatusCode;
use omni_tests::{FakeScript, Reading, TestServer};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

const PATH: &str = "/v1/realtime";

/// A client that speaks the protocol and nothing more.
struct Client(WebSocketStream<TcpStream>);

/// The rest of a response.
#[derive(Debug, Default)]
struct Heard {
    /// Types of its events, in their order.
    kinds: Vec<String>,
    transcript: String,
    text: String,
    audio: Vec<u8>,
    /// Its `response.done`.
    done: Value,
}

impl Client {
    /// Asks with these headers; gives the status of a refusal.
    async fn open(
        server: &TestServer,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Result<(Self, Option<String>), StatusCode> {
        Self::at(server.app.address(), query, headers).await
    }

    /// As above, at this address.
    async fn at(
        address: SocketAddr,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Result<(Self, Option<String>), StatusCode> {
        let mut request = format!("ws://{address}{PATH}{query}")
            .into_client_request()
            .expect("a request");
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().expect("a name");
            request
                .headers_mut()
                .insert(name, value.parse().expect("a value"));
        }
        let stream = TcpStream::connect(address).await.expect("the server listens");
        match client_async(request, stream).await {
            Ok((socket, answer)) => {
                let protocol = answer.headers().get("sec-websocket-protocol");
                let protocol = protocol.map(|value| value.to_str().expect("text").to_owned());
                Ok((Self(socket), protocol))
            }
            Err(Error::Http(refused)) => Err(refused.status()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Connects, and takes `session.created`.
    async fn connect(server: &TestServer) -> Self {
        let mut client = Self::open(server, "", &[]).await.expect("it is accepted").0;
        assert_eq!(client.event().await["type"], "session.created");
        client
    }

    async fn send(&mut self, event: Value) {
        let text = Message::text(event.to_string());
        self.0.send(text).await.expect("the server reads");
    }

    /// The next event; a close frame is one of type `closed`, a connection that is gone one of type `gone`.
    async fn event(&mut self) -> Value {
        loop {
            return match self.0.next().await {
                Some(Ok(Message::Text(text))) => {
                    let event: Value = serde_json::from_str(&text).expect("JSON");
                    assert!(event["event_id"].is_string(), "{event}");
                    if event["type"] == "rate_limits.updated" {
                        assert!(event["rate_limits"].is_array());
                        continue;
                    }
                    event
                }
                Some(Ok(Message::Close(frame))) => {
                    let code: u16 = frame.expect("a code").code.into();
                    json!({"type": "closed", "code": code})
                }
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => json!({"type": "gone"}),
            };
        }
    }

    /// The next event, which is of this type.
    async fn expect(&mut self, kind: &str) -> Value {
        let event = self.event().await;
        assert_eq!(event["type"], kind, "{event}");
        event
    }

    /// Next event of this type, skipping others.
    async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.event().await;
            assert!(
                event["type"] != "closed" && event["type"] != "gone",
                "no {kind}: {event}"
            );
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// Code and parameter of the error that comes next.
    async fn error(&mut self) -> (String, Value) {
        let event = self.expect("error").await;
        let code = event["error"]["code"].as_str().expect("a code").to_owned();
        (code, event["error"]["param"].clone())
    }

    async fn update(&mut self, session: Value) -> Value {
        let mut patch = json!({"type": "realtime"});
        patch
            .as_object_mut()
            .expect("an object")
            .extend(session.as_object().expect("an object").clone());
        self.send(json!({"type": "session.update", "session": patch}))
            .await;
        self.expect("session.updated").await["session"].clone()
    }

    /// Adds a message of the user; gives its name.
    async fn say(&mut self, text: &str) -> String {
        let content = json!([{"type": "input_text", "text": text}]);
        let item = json!({"type": "message", "role": "user", "content": content});
        self.create(item, Value::Null).await
    }

    async fn create(&mut self, item: Value, previous: Value) -> String {
        self.send(json!({"type": "conversation.item.create", "previous_item_id": previous, "item": item}))
            .await;
        let added = self.expect("conversation.item.added").await;
        let done = self.expect("conversation.item.done").await;
        assert_eq!(added["item"], done["item"]);
        added["item"]["id"].as_str().expect("a name").to_owned()
    }

    async fn respond(&mut self, response: Value) {
        self.send(json!({"type": "response.create", "response": response}))
            .await;
    }

    /// Sends text, and returns the spoken answer.
    async fn ask(&mut self, text: &str) -> Heard {
        self.say(text).await;
        self.respond(json!({})).await;
        self.heard().await
    }

    /// The next response, whole.
    async fn heard(&mut self) -> Heard {
        let mut heard = Heard::default();
        loop {
            let event = self.event().await;
            let kind = event["type"].as_str().expect("a type").to_owned();
            assert!(kind != "closed" && kind != "gone", "{heard:?}");
            heard.kinds.push(kind.clone());
            let delta = event["delta"].as_str().unwrap_or_default();
            match kind.as_str() {
                "response.output_audio_transcript.delta" => heard.transcript += delta,
                "response.output_text.delta" => heard.text += delta,
                "response.output_audio.delta" => heard.audio.extend(BASE64.decode(delta).expect("base64")),
                "response.done" => {
                    heard.done = event["response"].clone();
                    return heard;
                }
                _ => {}
            }
        }
    }

    async fn append(&mut self, pcm: &[u8]) {
        self.send(json!({"type": "input_audio_buffer.append", "audio": BASE64.encode(pcm)}))
            .await;
    }
}

impl Heard {
    fn status(&self) -> &str {
        self.done["status"].as_str().expect("a status")
    }

    /// The name of its message.
    fn item(&self) -> &str {
        self.done["output"][0]["id"].as_str().expect("a message")
    }

    fn count(&self, kind: &str) -> usize {
        self.kinds.iter().filter(|own| *own == kind).count()
    }
}

async fn fake() -> TestServer {
    TestServer::fake(FakeScript::default(), &[]).await
}

async fn requests(server: &TestServer, result: &str) -> f64 {
    let labels = [("protocol", "websocket"), ("result", result)];
    let reading = Reading::of(server).await;
    reading.sum("vllm:omni_protocol_requests_total", &labels)
}

async fn over(server: &TestServer) {
    server
        .until("every session has ended", || server.app.sessions() == 0)
        .await;
    let admission = server.app.orchestrator().admission();
    server
        .until("every permit is back", || admission.free() == 64)
        .await;
}
