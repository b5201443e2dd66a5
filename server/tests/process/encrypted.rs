//! Log of a server whose receivers of metrics and traces cannot be trusted.

use std::fs;
use std::io::BufReader;
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use rcgen::{Certificate, CertificateParams, DnType, KeyPair};
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, crypto};

use crate::Server;
use crate::line_with;
use crate::omni_server;

/// A self-signed certificate for this machine, and its key.
fn certificate(maker: &str) -> (Certificate, KeyPair) {
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, maker);
    let key = KeyPair::generate().expect("random bytes");
    (params.self_signed(&key).expect("a certificate"), key)
}

fn pem(certificate: &[u8]) -> String {
    let text = BASE64.encode(certificate);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

/// Shows a certificate to all that connect, until the last has gone; gives its address.
fn stranger() -> String {
    let (shown, key) = certificate("a stranger");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![shown.der().clone()], key)
        .expect("a pair");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let config = Arc::new(config);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut session = ServerConnection::new(Arc::clone(&config)).expect("a session");
            // A client that does not trust it hangs up.
            let _ = session.complete_io(&mut stream);
        }
    });
    address.to_string()
}

#[test]
fn a_gateway_that_is_not_trusted_is_said_so() {
    let place = tempfile::tempdir().expect("a folder");
    let authority = place.path().join("other.pem");
    fs::write(&authority, pem(certificate("a friend").0.der())).expect("it can be written");
    let mut process = omni_server()
        .args(["--listen", "127.0.0.1:0", "--push-gateway"])
        .arg(format!("https://{}", stranger()))
        .arg("--push-ca-file")
        .arg(&authority)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut log = BufReader::new(process.stderr.take().expect("it is piped"));
    let line = line_with(&mut log, "pushing metrics failed");
    assert!(line.contains("UnknownIssuer"), "{line}");
    process.kill().expect("it runs");
    process.wait().expect("it ends");
}

#[tokio::test]
async fn a_collector_that_is_not_trusted_is_said_so() {
    let place = tempfile::tempdir().expect("a folder");
    let authority = place.path().join("other.pem");
    fs::write(&authority, pem(certificate("a friend").0.der())).expect("it can be written");
    let mut command = omni_server();
    command
        .env(
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            format!("https://{}", stranger()),
        )
        .env("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", &authority)
        .env("OTEL_BSP_SCHEDULE_DELAY", "10");
    let mut server = Server::run(command);
    let mut client = SpeechServiceClient::connect(format!("http://{}", server.address))
        .await
        .expect("it listens");
    let request = v1::SynthesizeRequest {
        text: "One.".to_owned(),
        ..v1::SynthesizeRequest::default()
    };
    let mut responses = client
        .synthesize(request)
        .await
        .expect("it is taken")
        .into_inner();
    while responses.message().await.expect("it ends well").is_some() {}
    let line = line_with(&mut server.log, "sending spans failed");
    assert!(line.contains("UnknownIssuer"), "{line}");
    server.signal("-KILL");
    server.end();
}
