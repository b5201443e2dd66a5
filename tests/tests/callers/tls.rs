//! The port, encrypted: trust in both directions, and certificates that come and go.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use omni_client::{Client, ClientError, Endpoint, TlsProblem};
use omni_config::{RawConfig, TlsFiles, subject};
use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_tests::{Authority, FakeScript, Reading, Signed, TestServer, audio_of};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A server with this certificate; with an authority, only its clients are served.
async fn server(files: &(PathBuf, PathBuf), clients: Option<&Path>) -> TestServer {
    let mut args = vec!["--tls-cert", text(&files.0), "--tls-key", text(&files.1)];
    if let Some(clients) = clients {
        args.extend(["--tls-client-ca", text(clients)]);
    }
    TestServer::fake(FakeScript::default(), &args).await
}

/// A connection of a caller that trusts `authority`.
async fn connect(
    server: &TestServer,
    authority: &Authority,
    identity: Option<&Signed>,
) -> Result<Channel, tonic::transport::Error> {
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&authority.certificate));
    if let Some(own) = identity {
        tls = tls.identity(Identity::from_pem(&own.certificate, &own.key));
    }
    let endpoint = Channel::from_shared(format!("https://{}", server.app.address())).expect("an address");
    endpoint.tls_config(tls)?.connect().await
}

/// Returns true if a caller that trusts `authority` is served.
async fn speaks(server: &TestServer, authority: &Authority, identity: Option<&Signed>) -> bool {
    let Ok(channel) = connect(server, authority, identity).await else {
        return false;
    };
    let mut client = SpeechServiceClient::new(channel);
    let audio = audio_of(
        &mut client,
        v1::SpeechConfig::default(),
        "Only the two sides hear this.",
    )
    .await;
    audio.is_ok_and(|audio| !audio.0.is_empty())
}

#[tokio::test]
async fn speech_is_encrypted_for_whoever_trusts_the_authority() {
    let place = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let other = Authority::new("another");
    let server = server(&ours.server().write(place.path(), "server"), None).await;
    assert!(speaks(&server, &ours, None).await);
    assert!(!speaks(&server, &other, None).await);
    server.idle(1).await;
    server.stop().await;
}

#[tokio::test]
async fn http_1_is_encrypted_too() {
    let place = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let server = server(&ours.server().write(place.path(), "server"), None).await;
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ours.certificate.as_bytes()).unwrap())
        .unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(server.app.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let request = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"fake\""),
        "{answer}"
    );
    server.stop().await;
}

#[tokio::test]
async fn with_an_authority_for_clients_only_those_are_served() {
    let place = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let clients = Authority::new("clients");
    let others = Authority::new("others");
    let trusted = clients.write(place.path(), "clients");
    let server = server(&ours.server().write(place.path(), "server"), Some(&trusted)).await;
    assert!(speaks(&server, &ours, Some(&clients.client("backend"))).await);
    assert!(!speaks(&server, &ours, None).await);
    assert!(!speaks(&server, &ours, Some(&others.client("backend"))).await);
    server.idle(1).await;
    let reading = Reading::of(&server).await;
    assert!(reading.sum("vllm:omni_connections_total", &[("result", "tls_failed")]) >= 1.0);
    let expiry = reading.sum("vllm:omni_tls_certificate_expiry_timestamp_s", &[]);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970");
    assert!(expiry > now.as_secs_f64(), "{expiry}");
    server.stop().await;
}

#[tokio::test]
async fn a_new_certificate_is_taken_while_the_server_runs_and_a_bad_one_is_not() {
    let place = tempfile::tempdir().unwrap();
    let old = Authority::new("old");
    let new = Authority::new("new");
    let server = server(&old.server().write(place.path(), "server"), None).await;
    let open = connect(&server, &old, None).await.unwrap();

    let (certificate, _) = new.server().write(place.path(), "server");
    let taken = tokio::time::timeout(PATIENCE, async {
        while !speaks(&server, &new, None).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    taken.await.expect("the new certificate is shown");
    assert!(!speaks(&server, &old, None).await);
    let mut client = SpeechServiceClient::new(open);
    let audio = audio_of(
        &mut client,
        v1::SpeechConfig::default(),
        "Who is connected stays.",
    )
    .await;
    assert!(!audio.unwrap().0.is_empty());

    // Two of them: when the second is read, the first was judged.
    for _ in 0..2 {
        read_from_a_pipe(&certificate, b"this is no certificate").await;
    }
    assert!(
        speaks(&server, &new, None).await,
        "a broken file takes nothing away"
    );
    fs::remove_file(&certificate).unwrap();
    server.stop().await;
}

/// Puts a pipe in the place of `file`, and waits until a reader came to it and got `bytes`.
async fn read_from_a_pipe(file: &Path, bytes: &[u8]) {
    let pipe = file.with_extension("pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    fs::rename(&pipe, file).unwrap();
    let opened = tokio::time::timeout(PATIENCE, async {
        loop {
            // Without a reader this fails; waiting for one would take a thread that nothing wakes.
            let opened = rustix::fs::open(file, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
            match opened {
                Ok(pipe) => return fs::File::from(pipe),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    });
    let mut opened = opened.await.expect("the file is read again");
    opened.write_all(bytes).unwrap();
}

#[tokio::test]
async fn who_does_not_encrypt_gets_nothing() {
    let place = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let server = server(&ours.server().write(place.path(), "server"), None).await;
    let address = format!("http://{}", server.app.address());
    let plain = async {
        let channel = Channel::from_shared(address).unwrap().connect().await.ok()?;
        let mut client = SpeechServiceClient::new(channel);
        audio_of(&mut client, v1::SpeechConfig::default(), "Everybody hears this.")
            .await
            .ok()
    };
    assert!(plain.await.is_none());
    assert!(speaks(&server, &ours, None).await);
    server.stop().await;
}

#[tokio::test]
async fn who_does_not_encrypt_is_told_so_in_either_version_of_http() {
    let place = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let server = server(&ours.server().write(place.path(), "server"), None).await;
    for (said, begins) in [
        (
            &b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"[..],
            &b"HTTP/1.1 400"[..],
        ),
        (
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..],
            // The frame's length, and its type: GOAWAY, which no settings precede.
            &[0, 0, 100, 7][..],
        ),
    ] {
        let mut peer = TcpStream::connect(server.app.address()).await.unwrap();
        peer.write_all(said).await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(PATIENCE, peer.read_to_end(&mut answer))
            .await
            .expect("the server ends it")
            .unwrap();
        assert!(answer.starts_with(begins), "{answer:?}");
        let told = String::from_utf8_lossy(&answer);
        assert!(told.contains("this port speaks TLS"), "{told}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_client_says_that_tls_is_expected() {
    let place = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let server = server(&ours.server().write(place.path(), "server"), None).await;
    let endpoint = Endpoint::parse(&format!("http://{}", server.app.address())).unwrap();
    let health = async { Client::connect(&endpoint).await?.health("").await };
    let error = health.await.unwrap_err();
    let problem = match &error {
        ClientError::Tls { problem, .. } => Some(*problem),
        _ => None,
    };
    assert_eq!(problem, Some(TlsProblem::TlsExpected), "{error}");
    server.stop().await;
}

/// Problems that a server with these arguments reports.
fn problems(args: &[&str]) -> Vec<String> {
    let args = ["omni-server"].iter().chain(args);
    let raw = RawConfig::arguments_only(args).expect("arguments");
    raw.validate().map_or_else(|error| error.0, |_| Vec::new())
}

#[test]
fn files_that_cannot_be_used_stop_the_start_with_what_is_wrong() {
    let place = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let (certificate, key) = ours.server().write(place.path(), "server");
    let (_, other) = ours.server().write(place.path(), "other");
    let certificate = text(&certificate);
    let key = text(&key);
    let other = text(&other);
    assert_eq!(problems(&["--tls-cert", certificate, "--tls-key", key]), [""; 0]);
    for (args, says) in [
        (vec!["--tls-cert", certificate], "expected --tls-key"),
        (vec!["--tls-key", key], "expected --tls-cert"),
        (
            vec!["--tls-client-ca", certificate],
            "expected --tls-cert and --tls-key",
        ),
        (
            vec!["--tls-cert", "/nowhere", "--tls-key", key],
            "--tls-cert /nowhere: ",
        ),
        (vec!["--tls-cert", key, "--tls-key", key], "holds no certificate"),
        (
            vec!["--tls-cert", certificate, "--tls-key", certificate],
            "holds no private key",
        ),
        (
            vec!["--tls-cert", certificate, "--tls-key", other],
            "cannot be used together",
        ),
        (
            vec![
                "--tls-cert",
                certificate,
                "--tls-key",
                key,
                "--tls-client-ca",
                key,
            ],
            "--tls-client-ca",
        ),
    ] {
        let problems = problems(&args);
        assert!(
            problems.len() == 1 && problems[0].contains(says),
            "{args:?}: {problems:?}"
        );
        assert!(!problems[0].contains("PRIVATE"), "{problems:?}");
    }
    let everywhere = ["--listen", "0.0.0.0:1"];
    let refused = problems(&everywhere);
    assert!(
        refused[0].contains("--tls-cert") && refused[0].contains("--insecure-plaintext"),
        "{refused:?}"
    );
    let encrypted = [&everywhere[..], &["--tls-cert", certificate, "--tls-key", key]].concat();
    assert_eq!(problems(&encrypted), [""; 0]);
}

#[test]
fn an_operator_is_warned_of_a_certificate_whose_time_runs_out() {
    let place = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let warning = |signed: &Signed, now: SystemTime| {
        let (certificate, key) = signed.write(place.path(), "server");
        let files = TlsFiles {
            certificate,
            key,
            client_ca: None,
        };
        let identity = files.read().unwrap();
        (identity.expires, identity.warning(now))
    };
    let (expires, far) = warning(&ours.server(), SystemTime::now());
    assert_eq!(far, None);
    let day = Duration::from_secs(24 * 3_600);
    let (_, near) = warning(&ours.server(), expires - 30 * day - day / 2);
    assert_eq!(near, None);
    let (_, near) = warning(&ours.server(), expires - 30 * day + day / 2);
    assert!(near.unwrap().contains("expires in 29 days"));
    let (_, over) = warning(&ours.expired(), SystemTime::now());
    assert!(over.unwrap().contains("has expired"));
}

#[test]
fn a_caller_is_known_by_the_first_name_in_his_certificate() {
    let clients = Authority::new("clients");
    for (signed, name) in [
        (clients.client("backend"), Some("backend")),
        (
            clients.nameless_client(&["backend.example", "other.example"]),
            Some("backend.example"),
        ),
        (clients.nameless_client(&[]), None),
    ] {
        let der = CertificateDer::from_pem_slice(signed.certificate.as_bytes()).unwrap();
        assert_eq!(subject(&der).as_deref(), name);
    }
}
