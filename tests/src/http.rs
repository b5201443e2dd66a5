//! HTTP to a test server, for callers that speak no gRPC.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::server::TestServer;

/// An answer that has come in full.
#[derive(Debug)]
pub struct HttpAnswer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
}

impl HttpAnswer {
    /// A header; empty if there is none, or it is no text.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    /// Its content type.
    pub fn kind(&self) -> &str {
        self.header(CONTENT_TYPE.as_str())
    }
}

/// Asks `server`, by a connection for this alone.
///
/// # Panics
/// If the connection breaks before the answer has come in full.
pub async fn http(
    server: &TestServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> HttpAnswer {
    http_to(server.app.address(), method, path, headers, body).await
}

/// Asks the server at `address`, likewise.
///
/// # Panics
/// If the connection breaks before the answer has come in full.
pub async fn http_to(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> HttpAnswer {
    let stream = TcpStream::connect(address).await.expect("the server listens");
    let connection = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connection.expect("a connection");
    let connection = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request = request.header(HOST, address.to_string());
    }
    let request = filled(request, headers, body);
    let answer = sender.send_request(request).await.expect("an answer");
    let answer = whole(answer).await;
    drop(sender);
    let _ = connection.await;
    answer
}

/// Asks the server at `address`, by HTTP/2.
///
/// # Panics
/// If the connection breaks before the answer has come in full.
pub async fn http2(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> HttpAnswer {
    let stream = TcpStream::connect(address).await.expect("the server listens");
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.expect("a connection");
    let connection = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(format!("http://{address}{path}"));
    let request = filled(request, headers, body);
    let answer = sender.send_request(request).await.expect("an answer");
    let answer = whole(answer).await;
    drop(sender);
    let _ = connection.await;
    answer
}

fn filled(
    mut request: http::request::Builder,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).expect("a request")
}

async fn whole(answer: Response<Incoming>) -> HttpAnswer {
    let (head, body) = answer.into_parts();
    let body = body.collect().await.expect("a whole body");
    HttpAnswer {
        status: head.status,
        headers: head.headers,
        body: body.to_bytes().to_vec(),
    }
}
