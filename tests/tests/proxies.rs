//! The configurations of `deploy/proxy`, by the proxies themselves: every protocol, pauses longer than what proxies do
//! unasked, uploads, and a server that ends. Minutes long, so only `make test-all` runs them. A proxy that
//! `scripts/setup proxies` could not get is skipped.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_tests::{Authority, FakeScript, TestServer, audio_of, finish, text};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tonic::transport::{Certificate, Channel, ClientTlsConfig};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the 60 s that proxies wait for a byte unless told otherwise.
const PAUSE: Duration = Duration::from_secs(70);
/// Delay for which the servers go on serving after a request to end.
const DELAY: &str = "4s";

/// A proxy before two servers.
struct Proxied {
    proxy: Child,
    port: u16,
    authority: Authority,
    servers: Vec<TestServer>,
    folder: tempfile::TempDir,
}

impl Drop for Proxied {
    fn drop(&mut self) {
        // Asked first: one that is killed leaves its own processes behind.
        let _ = kill_process(Pid::from_child(&self.proxy), Signal::TERM);
        for _ in 0..50 {
            if !matches!(self.proxy.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

/// Folder of the proxies.
fn tools() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/proxies");
    std::env::var_os("OMNI_TEST_PROXIES").map_or(own, PathBuf::from)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

impl Proxied {
    /// Starts the program with these files of `deploy/proxy`; `None` if it is not installed.
    async fn start(program: &str, arguments: &[&str], files: &[&str]) -> Option<Self> {
        let tools = tools();
        let program = tools.join(program);
        if !program.exists() {
            eprintln!(
                "skipped: {} is not here, `scripts/setup proxies` fetches it",
                program.display()
            );
            return None;
        }
        let mut servers = Vec::new();
        for _ in 0..2 {
            let arguments = [
                "--trusted-proxies",
                "127.0.0.1",
                "--drain-delay",
                DELAY,
                "--drain-closes-port",
                "--drain-timeout",
                "1m",
            ];
            servers.push(TestServer::fake(FakeScript::default(), &arguments).await);
        }
        let folder = tempfile::tempdir().expect("a folder");
        // Some programs switch to another user, which must reach it.
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("ours");
        let authority = Authority::new("proxies");
        let (certificate, key) = authority.server().write(folder.path(), "speech");
        let both = [&certificate, &key]
            .map(|file| fs::read_to_string(file).expect("a file"))
            .concat();
        fs::write(folder.path().join("speech-with-key.pem"), both).expect("a file");
        let port = free_port();
        let place = folder.path().to_str().expect("text");
        let [a, b] = [0, 1].map(|n| servers[n].app.address().port().to_string());
        for file in files {
            let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/proxy");
            let mut text = fs::read_to_string(deploy.join(file)).expect("a configuration");
            for (from, to) in [
                ("50051", a.as_str()),
                ("50052", &b),
                ("port_value: 443", &format!("port_value: {port}")),
                ("listen 443", &format!("listen {port}")),
                ("Listen 443", &format!("Listen {port}")),
                (":443", &format!(":{port}")),
                (
                    "/usr/lib/apache2/modules",
                    tools.join("usr/lib/apache2/modules").to_str().expect("text"),
                ),
                ("/etc/omni", place),
                ("/etc/apache2", place),
                ("/etc/traefik", place),
                ("/run/apache2", place),
                ("/run", place),
                ("/var/log/nginx", place),
                ("/var/log/apache2", place),
                ("speech.example", "localhost"),
            ] {
                text = text.replace(from, to);
            }
            if *file == "nginx.conf" {
                text = text.replace("access_log off;", &format!("access_log off; client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi; uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;"));
                text.insert_str(0, "daemon off;\n");
            }
            fs::write(folder.path().join(file), text).expect("a file");
        }
        let arguments = arguments.iter().map(|argument| argument.replace("DIR", place));
        let log = fs::File::create(folder.path().join("log")).expect("a file");
        let proxy = Command::new(&program)
            .args(arguments)
            .env("LD_LIBRARY_PATH", tools.join("usr/lib/x86_64-linux-gnu"))
            .env("HOME", folder.path())
            .env("XDG_DATA_HOME", folder.path())
            .env("XDG_CONFIG_HOME", folder.path())
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the proxy starts");
        let own = Self {
            proxy,
            port,
            authority,
            servers,
            folder,
        };
        let ready = async {
            while !own.answers().await {
                sleep(Duration::from_millis(200)).await;
            }
        };
        let ready = timeout(PATIENCE, ready).await;
        assert!(ready.is_ok(), "{program:?} serves: {}", own.log());
        Some(own)
    }

    fn log(&self) -> String {
        let log = |name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        log("log") + &log("error.log")
    }

    /// True if both kinds of routes lead to a server.
    async fn answers(&self) -> bool {
        let Ok(mut sender) = self.try_http().await else {
            return false;
        };
        let answer = sender
            .send_request(self.request("GET", "/readyz", "", Bytes::new()))
            .await;
        let Ok(channel) = self.channel().await else {
            return false;
        };
        let healthy = HealthClient::new(channel)
            .check(HealthCheckRequest::default())
            .await;
        healthy.is_ok() && answer.is_ok_and(|answer| answer.status() == 200)
    }

    async fn tls(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.authority.certificate.as_bytes()).expect("PEM");
        roots.add(authority).expect("a certificate");
        let provider = Arc::new(crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.port))).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn try_http(&self) -> anyhow::Result<hyper::client::conn::http1::SendRequest<Full<Bytes>>> {
        let stream = TokioIo::new(self.tls().await?);
        let (sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, method: &str, path: &str, kind: &str, body: Bytes) -> hyper::Request<Full<Bytes>> {
        hyper::Request::builder()
            .method(method)
            .uri(path)
            // Of a caller who would like the server to tell of another host.
            .header("x-forwarded-host", "evil.example")
            .header("host", format!("localhost:{}", self.port))
            .header("content-type", kind)
            .body(Full::new(body))
            .expect("a request")
    }

    /// One request on a connection of its own: the status and the body.
    async fn http(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<(u16, Vec<u8>)> {
        let mut sender = self.try_http().await?;
        let answer = sender
            .send_request(self.request(method, path, kind, body.into()))
            .await?;
        let status = answer.status().as_u16();
        Ok((status, answer.into_body().collect().await?.to_bytes().to_vec()))
    }

    async fn speech(&self) -> anyhow::Result<(u16, Vec<u8>)> {
        let body = r#"{"model": "fake", "input": "Said through a proxy.", "response_format": "pcm"}"#;
        self.http("POST", "/v1/audio/speech", "application/json", body)
            .await
    }

    async fn channel(&self) -> anyhow::Result<Channel> {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.authority.certificate));
        let endpoint = Channel::from_shared(format!("https://localhost:{}", self.port))?;
        Ok(endpoint.tls_config(tls)?.connect().await?)
    }

    /// Everything that has to pass.
    async fn passes(mut self) {
        self.protocols().await;
        tokio::join!(self.typing(), self.silent_websocket(), self.idle_connection());
        self.one_server_ends().await;
        for server in self.servers.drain(..) {
            server.stop().await;
        }
    }

    async fn protocols(&self) {
        let channel = self.channel().await.expect("a connection");
        let mut speech = SpeechServiceClient::new(channel.clone());
        let spoken = audio_of(&mut speech, v1::SpeechConfig::default(), "Said by gRPC.").await;
        assert!(
            !spoken
                .unwrap_or_else(|status| panic!("{status}: {}", self.log()))
                .0
                .is_empty()
        );
        let mut health = HealthClient::new(channel);
        health
            .check(HealthCheckRequest::default())
            .await
            .expect("health by gRPC");
        let nobody = v1::SpeechConfig {
            voice: "nobody".to_owned(),
            ..v1::SpeechConfig::default()
        };
        let refused = audio_of(&mut speech, nobody, "Hello.")
            .await
            .expect_err("no such voice");
        assert!(
            !omni_tests::reason(&refused).is_empty(),
            "details of errors pass: {refused:?}"
        );
        let (status, audio) = self.speech().await.expect("an answer");
        assert!(status == 200 && audio.len() > 1_000, "{status}");
        let (status, about) = self.http("GET", "/v1", "", "").await.expect("an answer");
        let about = String::from_utf8_lossy(&about).into_owned();
        assert_eq!(status, 200, "{about}");
        let told = format!("https://localhost:{}/v1", self.port);
        assert!(about.contains(&told), "{about}");
        let kind = "application/grpc-web+proto";
        let path = "/grpc.health.v1.Health/Check";
        let (status, web) = self
            .http("POST", path, kind, vec![0; 5])
            .await
            .expect("an answer");
        assert!(
            status == 200 && String::from_utf8_lossy(&web).contains("grpc-status:0"),
            "gRPC-Web: {status}"
        );
        // A refusal, which is read in full by a caller that has sent 9 MB.
        let upload = vec![b'x'; 9_000_000];
        let (status, told) = self
            .http(
                "POST",
                "/v1/audio/voices",
                "multipart/form-data; boundary=b",
                upload,
            )
            .await
            .expect("an answer");
        assert!((400..500).contains(&status), "{status}");
        assert!(
            String::from_utf8_lossy(&told).contains("\"error\""),
            "{status}: {}",
            String::from_utf8_lossy(&told)
        );
    }

    /// A caller that sends a word, pauses, and sends the rest. Some proxies forward a call only with its first
    /// message.
    async fn typing(&self) {
        let channel = self.channel().await.expect("a connection");
        let (requests, stream) = tokio::sync::mpsc::channel(8);
        let send = async |event| {
            requests
                .send(v1::SpeakRequest { event: Some(event) })
                .await
                .expect("it is open");
        };
        send(v1::speak_request::Event::Config(v1::SpeechConfig::default())).await;
        send(text("Said at once. ")).await;
        let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
        let opened = timeout(PATIENCE, SpeechServiceClient::new(channel).speak(stream))
            .await
            .expect("in time");
        let mut call = opened
            .unwrap_or_else(|status| panic!("{status}: {}", self.log()))
            .into_inner();
        let mut heard = async |wanted: bool| {
            loop {
                let next = timeout(PATIENCE, call.message()).await.expect("in time");
                let next = next.unwrap_or_else(|status| panic!("{status}: {}", self.log()));
                let Some(next) = next else { break false };
                if wanted && matches!(next.event, Some(v1::speak_response::Event::Audio(_))) {
                    break true;
                }
            }
        };
        assert!(heard(true).await, "the first words are heard");
        sleep(PAUSE).await;
        send(text("Said after a while.")).await;
        send(finish()).await;
        assert!(heard(true).await, "the others, too");
        drop(requests);
        heard(false).await;
    }

    async fn silent_websocket(&self) {
        let stream = self.tls().await.expect("a connection");
        let url = format!("wss://localhost:{}/v1/realtime?model=fake", self.port);
        let (mut socket, _) = client_async(url, stream)
            .await
            .unwrap_or_else(|error| panic!("{error}: {}", self.log()));
        let first = timeout(PATIENCE, socket.next()).await.expect("in time");
        assert!(matches!(first, Some(Ok(Message::Text(_)))), "{first:?}");
        // Pings are answered meanwhile.
        let silent = timeout(PAUSE, async {
            while let Some(message) = socket.next().await {
                assert!(
                    matches!(message, Ok(Message::Ping(_) | Message::Pong(_))),
                    "{message:?}"
                );
            }
        });
        assert!(silent.await.is_err(), "it stays open");
        let odd = r#"{"type": "no.such.event"}"#;
        socket.send(Message::Text(odd.into())).await.expect("it is open");
        let answer = timeout(PATIENCE, socket.next()).await.expect("in time");
        assert!(matches!(answer, Some(Ok(Message::Text(_)))), "{answer:?}");
    }

    /// Sends calls after the proxy's connections to the servers have been idle for as long as it keeps them.
    async fn idle_connection(&self) {
        self.speech().await.expect("an answer");
        sleep(PAUSE).await;
        for _ in 0..20 {
            let (status, _) = self.speech().await.expect("an answer");
            assert_eq!(status, 200);
        }
    }

    /// One of two servers ends under load, and no call is lost.
    async fn one_server_ends(&mut self) {
        let server = self.servers.remove(0);
        let ends = tokio::spawn(server.app.shut_down(std::future::pending()));
        let calls = async {
            let mut spoken = 0;
            while !ends.is_finished() || spoken < 20 {
                let channel = self.channel().await.expect("a connection");
                let mut speech = SpeechServiceClient::new(channel);
                let by_grpc = audio_of(&mut speech, v1::SpeechConfig::default(), "Not lost.");
                let (by_grpc, by_http) = tokio::join!(by_grpc, self.speech());
                by_grpc.unwrap_or_else(|status| panic!("after {spoken}: {status}: {}", self.log()));
                assert_eq!(
                    by_http.expect("an answer").0,
                    200,
                    "after {spoken}: {}",
                    self.log()
                );
                spoken += 1;
            }
            spoken
        };
        let spoken = timeout(PATIENCE * 2, calls).await.expect("it ends");
        assert!(spoken >= 20);
    }
}

macro_rules! proxies {
    ($($name:ident: $program:literal, [$($argument:literal),*], [$($file:literal),*];)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "takes minutes: make test-all"]
            async fn $name() {
                if let Some(proxied) = Proxied::start($program, &[$($argument),*], &[$($file),*]).await {
                    proxied.passes().await;
                }
            }
        )*
    };
}

proxies! {
    nginx_passes_everything: "usr/sbin/nginx", ["-p", "DIR", "-e", "DIR/error.log", "-c", "DIR/nginx.conf"], ["nginx.conf"];
    haproxy_passes_everything: "usr/sbin/haproxy", ["-f", "DIR/haproxy.cfg"], ["haproxy.cfg"];
    caddy_passes_everything: "usr/bin/caddy", ["run", "--config", "DIR/Caddyfile", "--adapter", "caddyfile"], ["Caddyfile"];
    apache_passes_everything: "usr/sbin/apache2", ["-D", "FOREGROUND", "-f", "DIR/apache.conf"], ["apache.conf"];
    envoy_passes_everything: "python/bin/envoy", ["-c", "DIR/envoy.yaml", "--concurrency", "1", "--disable-hot-restart"], ["envoy.yaml"];
    traefik_passes_everything: "python/bin/traefik", ["--configfile=DIR/traefik.yaml"], ["traefik.yaml", "traefik-routes.yaml"];
}
