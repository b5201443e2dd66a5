//! What a failed call hides: a server that speaks TLS at an address that asks for none.

use std::net::SocketAddr;
use std::time::Duration;

use omni_client::{ClientError, Endpoint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::failure::Failure;

/// Limit for a server to answer the HTTP/2 preface.
const ANSWER: Duration = Duration::from_secs(1);

/// The failure, or [`Failure::NeedsTls`] if that is why: HTTP/2 only tells that what came was no HTTP/2.
pub(crate) async fn diagnosed(failure: Failure) -> Failure {
    match failure {
        Failure::Rpc(ClientError::Lost { endpoint, .. } | ClientError::Unreachable { endpoint, .. })
            if !endpoint.is_encrypted() && expects_tls(&endpoint).await =>
        {
            Failure::NeedsTls(endpoint)
        }
        failure => failure,
    }
}

async fn expects_tls(endpoint: &Endpoint) -> bool {
    let addresses = timeout(ANSWER, lookup_host((endpoint.host(), endpoint.port()))).await;
    match addresses
        .ok()
        .and_then(Result::ok)
        .and_then(|mut found| found.next())
    {
        Some(address) => speaks_tls(address).await,
        None => false,
    }
}

/// True if a server answers the HTTP/2 preface with a TLS alert.
pub(crate) async fn speaks_tls(address: SocketAddr) -> bool {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const ALERT: u8 = 21;
    let asked = timeout(ANSWER, async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(PREFACE).await.ok()?;
        stream.read_u8().await.ok()
    });
    asked.await.is_ok_and(|first| first == Some(ALERT))
}
