//! A gateway behind TLS gets the metrics of a server that trusts it; a server that does not trust it logs this.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use omni_tests::{Authority, FakeScript, Reading, Signed, TestServer};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Requests that the gateway received.
type Asked = (Method, String);

/// A gateway that takes everything. It runs until it is aborted.
async fn gateway(signed: &Signed) -> (String, mpsc::Receiver<Asked>, JoinHandle<()>) {
    let chain = CertificateDer::from_pem_slice(signed.certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .expect("a pair");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let (sender, asked) = mpsc::channel(64);
    let task = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            // A client that does not trust it hangs up.
            let Ok(stream) = acceptor.accept(stream).await else {
                continue;
            };
            let answer = |request: Request<Incoming>| {
                let sender = sender.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await?.to_bytes();
                    let text = String::from_utf8_lossy(&body).into_owned();
                    // The test may have ended by now.
                    let _ = sender.send((head.method, text)).await;
                    Ok::<_, hyper::Error>(Response::new(Empty::<Bytes>::new()))
                }
            };
            let serving = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            // A broken connection shows in the received requests.
            let _ = serving.await;
        }
    });
    (url, asked, task)
}

async fn server(url: &str, authority: &Path) -> TestServer {
    let authority = authority.to_str().expect("text");
    let args = [
        "--push-gateway",
        url,
        "--push-interval",
        "100ms",
        "--push-ca-file",
        authority,
    ];
    TestServer::fake(FakeScript::default(), &args).await
}

async fn pushes(server: &TestServer, result: &str) -> f64 {
    let reading = Reading::of(server).await;
    reading.sum("vllm:omni_metrics_push_total", &[("result", result)])
}

#[tokio::test]
async fn metrics_arrive_at_a_gateway_behind_tls() {
    let place = tempfile::tempdir().expect("a folder");
    let ours = Authority::new("ours");
    let (url, mut asked, task) = gateway(&ours.server()).await;
    let server = server(&url, &ours.write(place.path(), "ours")).await;
    let put = tokio::time::timeout(PATIENCE, asked.recv())
        .await
        .expect("a push");
    let (method, text) = put.expect("the gateway runs");
    assert_eq!(method, Method::PUT);
    assert!(text.contains("vllm:omni_metrics_push_total"), "{text}");
    let works = tokio::time::timeout(PATIENCE, async {
        while pushes(&server, "success").await == 0.0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    works.await.expect("it is counted");
    task.abort();
    server.stop().await;
}

#[tokio::test]
async fn a_gateway_that_is_not_trusted_gets_nothing_and_is_counted() {
    let place = tempfile::tempdir().expect("a folder");
    let ours = Authority::new("ours");
    let others = Authority::new("others");
    let (url, mut asked, task) = gateway(&others.server()).await;
    let server = server(&url, &ours.write(place.path(), "ours")).await;
    let fails = tokio::time::timeout(PATIENCE, async {
        while pushes(&server, "failure").await == 0.0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    fails.await.expect("it is counted");
    assert!(asked.try_recv().is_err());
    task.abort();
    server.stop().await;
}

/// As `openssl req -x509` makes one: a server's certificate that is its own authority.
fn own_authority(name: &str) -> Signed {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).expect("a certificate");
    let pem = |label: &str, der: &[u8]| {
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            BASE64.encode(der)
        )
    };
    Signed {
        certificate: pem("CERTIFICATE", certificate.der()),
        key: pem("PRIVATE KEY", &key.serialize_der()),
    }
}

#[tokio::test]
async fn a_certificate_that_is_its_own_authority_is_trusted_by_who_names_it_and_for_its_name_only() {
    for (name, result) in [("127.0.0.1", "success"), ("gateway.example", "failure")] {
        let place = tempfile::tempdir().expect("a folder");
        let own = own_authority(name);
        let (file, _) = own.write(place.path(), "own");
        let (url, mut asked, task) = gateway(&own).await;
        let server = server(&url, &file).await;
        let told = tokio::time::timeout(PATIENCE, async {
            while pushes(&server, result).await == 0.0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        told.await.expect("it is counted");
        assert_eq!(asked.try_recv().is_ok(), result == "success", "{name}");
        task.abort();
        server.stop().await;
    }
}
