//! Events of the Wyoming protocol, as clients read them.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;

/// An event of the server.
#[derive(Debug, PartialEq)]
pub struct WyomingEvent {
    /// Its type.
    pub kind: String,
    /// Its data; null if it has none.
    pub data: Value,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl WyomingEvent {
    /// The next event of a connection; none at its end.
    ///
    /// # Panics
    /// If it is malformed or breaks off.
    pub async fn next(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut line = String::new();
        if stream.read_line(&mut line).await.expect("a line") == 0 {
            return None;
        }
        let head: Value = serde_json::from_str(&line).expect("JSON");
        let length = |name: &str| head[name].as_u64().unwrap_or(0) as usize;
        let mut data = vec![0; length("data_length")];
        let mut payload = vec![0; length("payload_length")];
        stream.read_exact(&mut data).await.expect("data");
        stream.read_exact(&mut payload).await.expect("a payload");
        let data = if data.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&data).expect("JSON")
        };
        let kind = head["type"].as_str().expect("a type").to_owned();
        Some(Self { kind, data, payload })
    }
}
