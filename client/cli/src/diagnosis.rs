//! Diagnosis of a failed call: the address may be that of something else. HTTP/2 reports only that the answer was not
//! HTTP/2.

use std::net::SocketAddr;
use std::time::Duration;

use omni_client::{ClientError, Endpoint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::failure::Failure;

/// Limit for a server to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// Most of an answer that is read.
const MOST: usize = 16 << 10;
/// Answers of TLS servers to plaintext HTTP/1.1, in lower case: this one, nginx, Go's (Caddy, Traefik) and Apache.
const TLS_EXPECTED: [&str; 4] = [
    "tls_expected",
    "sent to https port",
    "to an https server",
    "ssl-enabled server port",
];
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Service that listens at an address that was given as a server's, and takes no calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A server that expects TLS.
    Tls,
    /// The port for Prometheus.
    Metrics,
    /// The port for Home Assistant and voice satellites.
    Wyoming,
    /// A server of HTTP/1.1 alone.
    Http,
}

impl Found {
    /// Problem with the address.
    pub(crate) fn problem(self) -> &'static str {
        match self {
            Self::Tls => "speaks TLS, and the address asks for none",
            Self::Metrics => "is a port for metrics (HTTP, for Prometheus), not the one for calls",
            Self::Wyoming => "is a port for Wyoming (Home Assistant), not the one for calls",
            Self::Http => "speaks HTTP/1.1 alone, and gRPC needs HTTP/2",
        }
    }

    /// The remedy.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Tls => "its address begins with https://",
            Self::Metrics | Self::Wyoming => {
                "name the port that the server's log calls `listening` (omni-server --listen, 50051 unless set)"
            }
            Self::Http => {
                "is it another program? A proxy in between must pass HTTP/2 on, and often needs https:// for it"
            }
        }
    }
}

/// Diagnoses a failure: [`Failure::WrongPort`] if that is the cause.
pub(crate) async fn diagnosed(failure: Failure) -> Failure {
    let endpoint = match &failure {
        Failure::Rpc(ClientError::Lost { endpoint, .. } | ClientError::Unreachable { endpoint, .. })
            if !endpoint.is_encrypted() =>
        {
            endpoint.clone()
        }
        _ => return failure,
    };
    match listener(&endpoint).await {
        Some(found) => Failure::WrongPort { endpoint, found },
        None => failure,
    }
}

async fn listener(endpoint: &Endpoint) -> Option<Found> {
    let addresses = timeout(ANSWER, lookup_host((endpoint.host(), endpoint.port()))).await;
    found(addresses.ok()?.ok()?.next()?).await
}

/// Identifies the service that listens there, if it is known to take no calls.
pub(crate) async fn found(address: SocketAddr) -> Option<Found> {
    const ALERT: u8 = 21;
    let answer = asked(address, PREFACE).await;
    if answer.first() == Some(&ALERT) {
        return Some(Found::Tls);
    }
    if answer.starts_with(b"{") {
        return Some(Found::Wyoming);
    }
    // The length of a frame, and its type: a server of HTTP/2 begins with its settings.
    if answer.get(3) == Some(&4) && !answer.starts_with(b"HTTP/") {
        return None;
    }
    let page = asked(
        address,
        b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    )
    .await;
    let page = String::from_utf8_lossy(&page).to_lowercase();
    if !page.starts_with("http/1.") {
        return None;
    }
    if TLS_EXPECTED.iter().any(|told| page.contains(told)) {
        return Some(Found::Tls);
    }
    let metrics = page.contains("/metrics/catalogue");
    Some(if metrics { Found::Metrics } else { Found::Http })
}

/// Answer to these bytes, or the beginning of it.
async fn asked(address: SocketAddr, question: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(question).await?;
        let mut piece = [0; 4096];
        while answer.len() < MOST {
            let read = stream.read(&mut piece).await?;
            if read == 0 {
                break;
            }
            answer.extend_from_slice(&piece[..read]);
            // Enough to identify it; a server of HTTP/2 waits for more.
            if question == PREFACE {
                break;
            }
        }
        Ok::<_, std::io::Error>(())
    };
    // Bytes received before an error or the timeout count.
    let _ = timeout(ANSWER, asking).await;
    answer
}
