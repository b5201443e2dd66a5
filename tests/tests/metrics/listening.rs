//! Addresses of the metrics, and the flags that change them.

use std::sync::Arc;

use omni_config::{Quotas, Scope, new_key};
use omni_tests::{Authority, FakeScript, Reading, TestServer, get, http_to, speak};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

#[tokio::test]
async fn probes_say_whether_the_server_lives_and_whether_it_serves() {
    let script = FakeScript::default();
    script.load.close();
    let load = script.clone();
    let mut server = TestServer::launch(&[], move || Ok(omni_tests::FakeSpeech::new(load))).await;
    assert_eq!(get(&server, "/healthz").await, "ok\n");
    assert_eq!(get(&server, "/readyz").await, "not ready\n");
    script.load.open();
    server.app.ready().await.expect("the fake model loads");
    assert_eq!(get(&server, "/readyz").await, "ready\n");
    server.stop().await;
}

#[tokio::test]
async fn statistics_that_are_off_leave_those_of_the_process() {
    let server = TestServer::fake(FakeScript::default(), &["--log-stats", "off"]).await;
    speak(&server, 1).await;
    let reading = Reading::of(&server).await;
    assert!(reading.sum("process_resident_memory_bytes", &[]) > 0.0);
    assert!(
        reading.types.keys().all(|name| name.starts_with("process_")),
        "{}",
        reading.text
    );
    server.stop().await;
}

#[tokio::test]
async fn the_newer_prefix_stands_before_the_same_names() {
    let server = TestServer::fake(FakeScript::default(), &["--metrics-prefix", "vllm_omni:"]).await;
    speak(&server, 1).await;
    let reading = Reading::of(&server).await;
    assert_eq!(
        reading.sum("vllm_omni:requests_success_total", &[("finished_reason", "stop")]),
        1.0
    );
    assert!(!reading.text.contains("vllm:omni_"));
    server.stop().await;
}

#[tokio::test]
async fn two_servers_in_one_process_know_nothing_of_each_other() {
    let one = TestServer::fake(FakeScript::default(), &[]).await;
    let other = TestServer::fake(FakeScript::default(), &[]).await;
    speak(&one, 2).await;
    let requests = |reading: &Reading| reading.sum("vllm:omni_requests_success_total", &[]);
    assert_eq!(requests(&Reading::of(&one).await), 2.0);
    assert_eq!(requests(&Reading::of(&other).await), 0.0);
    one.stop().await;
    other.stop().await;
}

/// Asks the metrics' own server for `path` with that key.
async fn asked(server: &TestServer, path: &str, key: Option<&str>) -> u16 {
    let address = server.app.metrics_address().expect("metrics are served");
    let value = key.map(|key| format!("Bearer {key}"));
    let headers: Vec<_> = value
        .iter()
        .map(|value| ("authorization", value.as_str()))
        .collect();
    http_to(address, "GET", path, &headers, "").await.status.as_u16()
}

#[tokio::test]
async fn readers_need_a_key_for_metrics_where_that_is_asked_for_and_probes_need_none() {
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("keys");
    let new = |scope| new_key("somebody", &[scope], &Quotas::default()).expect("random bytes");
    let reader = new(Scope::Metrics);
    let speaker = new(Scope::Speech);
    std::fs::write(&file, format!("{}\n{}\n", reader.1, speaker.1)).expect("a file");
    let file = file.to_str().expect("text");
    let server = TestServer::fake(FakeScript::default(), &["--api-keys", file, "--metrics-keys"]).await;
    for path in ["/metrics", "/metrics/catalogue"] {
        assert_eq!(asked(&server, path, None).await, 401, "{path}");
        assert_eq!(asked(&server, path, Some(&speaker.0)).await, 401, "{path}");
        assert_eq!(asked(&server, path, Some(&reader.0)).await, 200, "{path}");
    }
    assert_eq!(asked(&server, "/healthz", None).await, 200);
    server.stop().await;
    // Without the flag they are open, as they were.
    let open = TestServer::fake(FakeScript::default(), &["--api-keys", file]).await;
    assert_eq!(asked(&open, "/metrics", None).await, 200);
    open.stop().await;
}

#[tokio::test]
async fn metrics_are_read_over_tls_where_that_is_asked_for() {
    let place = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("ours");
    let (certificate, key) = authority.server().write(place.path(), "server");
    let path = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    let args = [
        "--tls-cert",
        &path(&certificate),
        "--tls-key",
        &path(&key),
        "--metrics-tls",
    ];
    let server = TestServer::fake(FakeScript::default(), &args).await;
    let address = server.app.metrics_address().expect("metrics are served");
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).expect("a certificate");
    roots.add(root).expect("an authority");
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    // As Prometheus offers them.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await.expect("a handshake");
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = Vec::new();
    // A caller may disconnect without an end.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("# TYPE process_open_fds gauge\n"), "{answer}");
    // A plaintext client gets no answer.
    let mut plain = TcpStream::connect(address).await.expect("a connection");
    plain.write_all(request.as_bytes()).await.expect("a request");
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said).await;
    assert!(!String::from_utf8_lossy(&said).contains("process_open_fds"));
    server.stop().await;
}
