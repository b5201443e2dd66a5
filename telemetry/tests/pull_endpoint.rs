//! The HTTP endpoint, as Prometheus, a probe and a person use it.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use omni_telemetry::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

struct Server {
    address: std::net::SocketAddr,
    ready: Arc<AtomicBool>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn server() -> Server {
    let telemetry = Telemetry::new(&TelemetryOptions::default()).expect("good options");
    SessionInstruments::new(telemetry.meter()).opened();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let ready = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&ready);
    let endpoint = PullEndpoint::new(&telemetry, Arc::new(move || asked.load(Ordering::Relaxed)));
    let stop = CancellationToken::new();
    let task = tokio::spawn(endpoint.serve(listener, stop.clone()));
    Server {
        address,
        ready,
        stop,
        task,
    }
}

/// Head and body of the answer to one request.
async fn ask(server: &Server, request: &str, headers: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(server.address).await.expect("a connection");
    let text = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(text.as_bytes()).await.expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    let end = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    (head, answer.split_off(end + 4))
}

async fn text(server: &Server, request: &str) -> (String, String) {
    let (head, body) = ask(server, request, "").await;
    (head, String::from_utf8(body).expect("text"))
}

#[tokio::test]
async fn metrics_are_text_with_the_right_type() {
    let server = server().await;
    let (head, body) = text(&server, "GET /metrics").await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(
        head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
        "{head}"
    );
    assert!(body.contains("vllm:omni_sessions_active{model_name=\"\"} 1.0\n"));
}

#[tokio::test]
async fn names_select_families() {
    let server = server().await;
    let (_, body) = text(
        &server,
        "GET /metrics?name[]=vllm:omni_sessions_active&name%5B%5D=process_open_fds",
    )
    .await;
    let types: Vec<_> = body.lines().filter(|line| line.starts_with("# TYPE")).collect();
    assert_eq!(
        types,
        [
            "# TYPE vllm:omni_sessions_active gauge",
            "# TYPE process_open_fds gauge"
        ]
    );
    let (head, body) = text(&server, "GET /metrics?name[]=nothing").await;
    assert!(head.starts_with("http/1.1 200") && body.starts_with("# nothing to show"));
}

#[tokio::test]
async fn a_body_is_compressed_for_those_who_take_it() {
    let server = server().await;
    let (head, body) = ask(&server, "GET /metrics", "accept-encoding: gzip\r\n").await;
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut plain = String::new();
    flate2::read::GzDecoder::new(body.as_slice())
        .read_to_string(&mut plain)
        .expect("gzip");
    assert!(plain.contains("# TYPE vllm:omni_sessions_active gauge\n"));
    assert!(body.len() * 3 < plain.len());
}

#[tokio::test]
async fn a_head_has_the_length_and_no_body() {
    let server = server().await;
    let (head, body) = ask(&server, "HEAD /metrics/catalogue", "").await;
    let (full, _) = text(&server, "GET /metrics/catalogue").await;
    let length = |head: &str| {
        head.lines()
            .find(|line| line.starts_with("content-length"))
            .map(str::to_owned)
    };
    assert!(body.is_empty());
    assert_eq!(length(&head), length(&full));
}

#[tokio::test]
async fn the_catalogue_is_json() {
    let server = server().await;
    let (head, body) = text(&server, "GET /metrics/catalogue").await;
    assert!(head.contains("content-type: application/json"), "{head}");
    let json: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert!(
        json["families"]
            .as_array()
            .is_some_and(|families| families.len() > 40)
    );
    assert!(json["absent"].as_array().is_some_and(|absent| !absent.is_empty()));
}

#[tokio::test]
async fn probes_tell_alive_from_ready() {
    let server = server().await;
    assert!(text(&server, "GET /healthz").await.0.starts_with("http/1.1 200"));
    assert!(text(&server, "GET /readyz").await.0.starts_with("http/1.1 503"));
    server.ready.store(true, Ordering::Relaxed);
    assert!(text(&server, "GET /readyz").await.0.starts_with("http/1.1 200"));
}

#[tokio::test]
async fn other_methods_and_paths_are_told_what_there_is() {
    let server = server().await;
    let (head, _) = text(&server, "POST /metrics").await;
    assert!(
        head.starts_with("http/1.1 405") && head.contains("allow: get, head"),
        "{head}"
    );
    let (head, body) = text(&server, "GET /").await;
    assert!(head.starts_with("http/1.1 404") && body.contains("/metrics"));
}

#[tokio::test]
async fn a_stopped_endpoint_ends_though_a_connection_is_idle() {
    let server = server().await;
    let idle = TcpStream::connect(server.address).await.expect("a connection");
    assert!(text(&server, "GET /healthz").await.0.starts_with("http/1.1 200"));
    server.stop.cancel();
    server.task.await.expect("the endpoint ends");
    drop(idle);
}
