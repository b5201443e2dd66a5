//! A server that does what a script says and tells what it saw.

mod chat;
mod listing;
mod operator;
mod speech;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::admin_service_server::AdminServiceServer;
use omni_proto::v1::catalog_service_server::CatalogServiceServer;
use omni_proto::v1::chat_service_server::ChatServiceServer;
use omni_proto::v1::speech_service_server::SpeechServiceServer;
use tokio::runtime::Runtime;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, ServerTlsConfig};
use tonic::{Code, Request, Status};
use tonic_health::pb::health_server::HealthServer;
use tonic_types::{ErrorDetails, StatusExt as _};

pub(crate) use chat::ChatScript;

pub(crate) const RATE: u32 = 24_000;
pub(crate) const CHUNK: u32 = RATE / 1_000 * 80;

/// Long enough for any machine; only a test that fails waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Behaviour of the server for every utterance.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// Pieces of 80 ms of audio.
    pub(crate) chunks: u32,
    /// Speak with the first text instead of at the end.
    pub(crate) eager: bool,
    /// End every utterance as cut when it has been spoken, and drop what still comes for it.
    pub(crate) cut: bool,
    /// After the audio wait for a cancel.
    pub(crate) hold: bool,
    /// Sent before the audio: reason and message.
    pub(crate) warning: Option<(&'static str, &'static str)>,
    /// End the call with this instead of `ready`.
    pub(crate) refuse: Option<Status>,
    /// End the utterance with this after its audio.
    pub(crate) fail: Option<Status>,
    /// Finish reason of an utterance otherwise.
    pub(crate) finish: v1::FinishReason,
    /// Longest text of an utterance in bytes; 0 says none.
    pub(crate) limit: u32,
    /// Leave this many samples out after the first chunk.
    pub(crate) skip: u64,
    /// Do nothing about a cancel.
    pub(crate) deaf: bool,
    /// List voices and speak only for callers with this API key.
    pub(crate) api_key: Option<&'static str>,
    /// End the call well right after `ready`.
    pub(crate) leave: bool,
    /// Told of with the first pieces of audio, one with each.
    pub(crate) words: &'static [&'static str],
    /// Serve operators, too.
    pub(crate) operators: bool,
    /// Has no voices: a model that speaks with those of recordings.
    pub(crate) voiceless: bool,
    /// Behaviour in conversations.
    pub(crate) chat: ChatScript,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            chunks: 5,
            eager: false,
            cut: false,
            hold: false,
            warning: None,
            refuse: None,
            fail: None,
            finish: v1::FinishReason::Stop,
            limit: 0,
            skip: 0,
            deaf: false,
            api_key: None,
            leave: false,
            words: &[],
            operators: true,
            voiceless: false,
            chat: ChatScript::default(),
        }
    }
}

/// Requests that the server received, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    Config(Box<v1::SpeechConfig>),
    Text(String),
    Flush,
    Finish,
    Cancel,
    /// The client has closed its sending side.
    Closed,
    /// All audio is sent; only a cancel goes on.
    Holding,
    Health,
    ChatConfig(Box<v1::ChatConfig>),
    /// A message's role and text.
    Message(v1::Role, String),
    /// Bytes of speech.
    Speech(usize),
    Commit,
    Respond(Box<v1::CreateResponse>),
    /// With the samples played.
    Interrupt(Option<u64>),
    /// Request of an operator.
    Steered(String),
    /// The server has ended the call.
    Left,
}

/// The n-th sample of every utterance.
pub(crate) fn sample(n: u64) -> i16 {
    (n * 37 % 20_011) as i16 - 10_000
}

#[derive(Debug, Clone)]
struct Service {
    script: Arc<Script>,
    seen: SyncSender<Seen>,
    serving: Arc<AtomicBool>,
}

/// The running server.
#[derive(Debug)]
pub(crate) struct Fake {
    runtime: Option<Runtime>,
    scheme: &'static str,
    address: SocketAddr,
    seen: Receiver<Seen>,
    serving: Arc<AtomicBool>,
}

/// A certificate and its key, PEM.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Fake {
    pub(crate) fn start(script: Script) -> Self {
        Self::serve(script, None)
    }

    /// Behind TLS; with `clients`, only for clients with a certificate that these have signed.
    pub(crate) fn encrypted(script: Script, identity: &Identity, clients: Option<&str>) -> Self {
        let own = tonic::transport::Identity::from_pem(&identity.certificate, &identity.key);
        let tls = ServerTlsConfig::new().identity(own);
        Self::serve(
            script,
            Some(match clients {
                Some(clients) => tls.client_ca_root(Certificate::from_pem(clients)),
                None => tls,
            }),
        )
    }

    fn serve(script: Script, tls: Option<ServerTlsConfig>) -> Self {
        let (sender, seen) = sync_channel(100_000);
        let operators = script.operators;
        let serving = Arc::new(AtomicBool::new(true));
        let service = Service {
            script: Arc::new(script),
            seen: sender,
            serving: serving.clone(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut server = tonic::transport::Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        runtime.spawn(
            server
                .add_service(SpeechServiceServer::new(service.clone()))
                .add_service(ChatServiceServer::new(service.clone()))
                .add_service(CatalogServiceServer::new(service.clone()))
                .add_optional_service(operators.then(|| AdminServiceServer::new(service.clone())))
                .add_service(HealthServer::new(service))
                .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true))),
        );
        Self {
            runtime: Some(runtime),
            scheme,
            address,
            seen,
            serving,
        }
    }

    pub(crate) fn chat(script: ChatScript) -> Self {
        Self::start(Script {
            chat: script,
            ..Script::default()
        })
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    pub(crate) fn set_serving(&self, serving: bool) {
        self.serving.store(serving, Ordering::SeqCst);
    }

    /// The next thing seen.
    pub(crate) fn next(&self) -> Seen {
        self.seen
            .recv_timeout(PATIENCE)
            .expect("the server saw nothing more")
    }

    /// Waits for `wanted`; gives everything seen before it.
    pub(crate) fn until(&self, wanted: &Seen) -> Vec<Seen> {
        let mut before = Vec::new();
        loop {
            match self.next() {
                seen if seen == *wanted => return before,
                seen => before.push(seen),
            }
        }
    }

    /// Everything seen so far that was not taken yet.
    pub(crate) fn rest(&self) -> Vec<Seen> {
        self.seen.try_iter().collect()
    }

    /// Returns true if the client has sent nothing more.
    pub(crate) fn saw_nothing(&self) -> bool {
        self.seen.recv_timeout(Duration::ZERO) == Err(RecvTimeoutError::Timeout)
    }

    /// Dies with all its connections, as if the process was killed.
    pub(crate) fn die(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.die();
    }
}

/// The texts among `seen`, joined.
pub(crate) fn text_of(seen: &[Seen]) -> String {
    seen.iter()
        .filter_map(|seen| {
            if let Seen::Text(text) = seen {
                Some(text.as_str())
            } else {
                None
            }
        })
        .collect()
}

impl Service {
    fn see(&self, seen: Seen) {
        // The test has all it wanted.
        let _ = self.seen.send(seen);
    }

    /// Checks that a call has the expected API key.
    fn admit<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let sent = request.metadata().get("authorization");
        let sent = sent.and_then(|value| value.to_str().ok());
        match self.script.api_key {
            Some(_) if sent.is_none() => {
                let details = ErrorDetails::with_error_info("API_KEY_MISSING", "omni", []);
                let message = "the call has no API key, expected \"authorization: Bearer KEY\"";
                Err(Status::with_error_details(
                    Code::Unauthenticated,
                    message,
                    details,
                ))
            }
            Some(key) if sent != Some(&format!("Bearer {key}")) => {
                Err(Status::unauthenticated("unknown API key"))
            }
            _ => Ok(()),
        }
    }
}

/// An address where nothing listens.
pub(crate) fn nowhere() -> &'static str {
    static NOWHERE: OnceLock<String> = OnceLock::new();
    NOWHERE.get_or_init(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    })
}
