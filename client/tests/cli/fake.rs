//! A server that does what a script says and tells what it saw.

mod chat;
mod listing;
mod operator;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::admin_service_server::AdminServiceServer;
use omni_proto::v1::catalog_service_server::CatalogServiceServer;
use omni_proto::v1::chat_service_server::ChatServiceServer;
use omni_proto::v1::speak_request::Event as In;
use omni_proto::v1::speak_response::Event as Out;
use omni_proto::v1::speech_service_server::{SpeechService, SpeechServiceServer};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};
use tonic_health::pb::health_server::HealthServer;

pub(crate) use chat::ChatScript;

pub(crate) const RATE: u32 = 24_000;
pub(crate) const CHUNK: u32 = RATE / 1_000 * 80;

/// Long enough for any machine; only a test that fails waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What the server does with every utterance.
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
    /// How an utterance ends otherwise.
    pub(crate) finish: v1::FinishReason,
    /// Longest text of an utterance in bytes; 0 says none.
    pub(crate) limit: u32,
    /// Leave this many samples out after the first chunk.
    pub(crate) skip: u64,
    /// Do nothing about a cancel.
    pub(crate) deaf: bool,
    /// List voices only to who has this API key.
    pub(crate) api_key: Option<&'static str>,
    /// End the call well right after `ready`.
    pub(crate) leave: bool,
    /// Told of with the first pieces of audio, one with each.
    pub(crate) words: &'static [&'static str],
    /// What it does in conversations.
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
            chat: ChatScript::default(),
        }
    }
}

/// What the server saw, in order.
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
    /// What an operator wanted.
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

    /// Behind TLS; with `clients`, for whoever has a certificate that these have signed.
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
                .add_service(AdminServiceServer::new(service.clone()))
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

    /// Whether nobody asks any more.
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

/// Sends numbered messages of one call.
struct Reply {
    sender: mpsc::Sender<Result<v1::SpeakResponse, Status>>,
    seq: u64,
}

impl Reply {
    async fn send(&mut self, utterance: &str, event: Out) {
        self.seq += 1;
        let response = v1::SpeakResponse {
            seq: self.seq,
            utterance_id: utterance.into(),
            event: Some(event),
        };
        // A client that left needs no answer.
        let _ = self.sender.send(Ok(response)).await;
    }
}

#[derive(Default)]
struct Utterance {
    name: String,
    spoken: bool,
}

impl Service {
    fn see(&self, seen: Seen) {
        // The test has all it wanted.
        let _ = self.seen.send(seen);
    }

    async fn session(self, mut requests: Streaming<v1::SpeakRequest>, mut reply: Reply) {
        let mut open: Option<Utterance> = None;
        let mut dropping = false;
        let mut count = 0;
        while let Ok(Some(request)) = requests.message().await {
            match request.event.expect("the client sends only known events") {
                In::Config(config) => {
                    self.see(Seen::Config(Box::new(config.clone())));
                    if let Some(status) = &self.script.refuse {
                        let _ = reply.sender.send(Err(status.clone())).await;
                        return;
                    }
                    reply.send("", Out::Ready(ready(config, self.script.limit))).await;
                    if self.script.leave {
                        return;
                    }
                }
                In::Text(chunk) if dropping => self.see(Seen::Text(chunk.text)),
                In::Text(chunk) => {
                    if open.is_none() {
                        count += 1;
                        open = Some(Utterance {
                            name: format!("u{count}"),
                            spoken: false,
                        });
                        reply
                            .send(&format!("u{count}"), Out::Started(v1::UtteranceStarted {}))
                            .await;
                    }
                    self.see(Seen::Text(chunk.text));
                    if self.script.eager {
                        self.speak(open.as_mut().expect("just opened"), &mut reply).await;
                    }
                    if let Some(utterance) = open.take_if(|_| self.script.cut) {
                        reply
                            .send(&utterance.name, self.done(v1::FinishReason::Length))
                            .await;
                        dropping = true;
                    }
                }
                In::Flush(_) => self.see(Seen::Flush),
                In::Finish(_) => {
                    self.see(Seen::Finish);
                    dropping = false;
                    if let Some(utterance) = &mut open {
                        self.speak(utterance, &mut reply).await;
                        if !self.script.hold {
                            reply.send(&utterance.name, self.done(self.script.finish)).await;
                            open = None;
                        }
                    }
                }
                In::Cancel(_) => {
                    self.see(Seen::Cancel);
                    if let Some(utterance) = open.take_if(|_| !self.script.deaf) {
                        reply
                            .send(&utterance.name, self.done(v1::FinishReason::Interrupted))
                            .await;
                    }
                }
            }
        }
        self.see(Seen::Closed);
    }

    async fn speak(&self, utterance: &mut Utterance, reply: &mut Reply) {
        if std::mem::replace(&mut utterance.spoken, true) {
            return;
        }
        if let Some((reason, message)) = self.script.warning {
            let warning = v1::Warning {
                reason: reason.into(),
                message: message.into(),
            };
            reply.send(&utterance.name, Out::Warning(warning)).await;
        }
        let mut said = 0;
        for i in 0..self.script.chunks {
            if let Some(word) = self.script.words.get(i as usize) {
                reply.send(&utterance.name, words(word, said, i)).await;
                said += word.chars().count() as u32;
            }
            let start = u64::from(i * CHUNK) + if i > 0 { self.script.skip } else { 0 };
            let last = i + 1 == self.script.chunks;
            reply.send(&utterance.name, Out::Audio(chunk(start, last))).await;
        }
        if self.script.hold {
            self.see(Seen::Holding);
        }
    }

    fn done(&self, reason: v1::FinishReason) -> Out {
        let error = self.script.fail.as_ref().map(rpc_status);
        let reason = if error.is_some() {
            v1::FinishReason::Error
        } else {
            reason
        };
        let audio = Duration::from_millis(80) * self.script.chunks;
        let outcome = v1::Outcome {
            finish_reason: reason.into(),
            usage: Some(v1::Usage {
                output_audio_duration: audio.try_into().ok(),
                ..Default::default()
            }),
            timings: Some(v1::Timings {
                stages: vec![stage()],
                ..Default::default()
            }),
            error,
            seed: Some(42),
        };
        Out::Done(v1::UtteranceDone {
            outcome: Some(outcome),
            ..Default::default()
        })
    }
}

fn stage() -> v1::StageTiming {
    v1::StageTiming {
        stage: "talker".into(),
        busy: Duration::from_millis(4).try_into().ok(),
        ..Default::default()
    }
}

/// A word behind `said` characters that takes the `nth` chunk of audio.
fn words(word: &str, said: u32, nth: u32) -> Out {
    let span = v1::TimedText {
        text: word.to_owned(),
        char_start: said,
        char_end: said + word.chars().count() as u32,
        start_sample: u64::from(nth * CHUNK),
        end_sample: u64::from((nth + 1) * CHUNK),
    };
    Out::Alignment(v1::Alignment { spans: vec![span] })
}

/// A status as it is put into messages.
fn rpc_status(status: &Status) -> omni_proto::RpcStatus {
    <omni_proto::RpcStatus as prost::Message>::decode(status.details()).expect("made by tonic-types")
}

fn chunk(start: u64, last: bool) -> v1::AudioChunk {
    let data: Vec<u8> = (start..start + u64::from(CHUNK))
        .flat_map(|n| sample(n).to_le_bytes())
        .collect();
    v1::AudioChunk {
        data: data.into(),
        start_sample: start,
        sample_count: CHUNK,
        last,
    }
}

fn ready(config: v1::SpeechConfig, limit: u32) -> v1::SpeechSessionReady {
    let format = v1::AudioFormat {
        encoding: v1::AudioEncoding::PcmS16le.into(),
        sample_rate_hz: RATE,
        channels: 1,
    };
    let output = v1::AudioDelivery {
        format: Some(format),
        ..Default::default()
    };
    let voice = if config.voice.is_empty() {
        "fake".into()
    } else {
        config.voice.clone()
    };
    let limits = v1::SessionLimits {
        max_text_bytes_per_utterance: limit,
        ..Default::default()
    };
    let resolved = v1::SpeechConfig {
        voice,
        model: "fake-model".into(),
        output: Some(output),
        ..config
    };
    v1::SpeechSessionReady {
        session_id: "s-1".into(),
        resolved: Some(resolved),
        limits: Some(limits),
    }
}

#[tonic::async_trait]
impl SpeechService for Service {
    type SpeakStream = ReceiverStream<Result<v1::SpeakResponse, Status>>;
    type SynthesizeStream = ReceiverStream<Result<v1::SynthesizeResponse, Status>>;

    async fn speak(
        &self,
        request: Request<Streaming<v1::SpeakRequest>>,
    ) -> Result<Response<Self::SpeakStream>, Status> {
        let (sender, stream) = mpsc::channel(8);
        tokio::spawn(
            self.clone()
                .session(request.into_inner(), Reply { sender, seq: 0 }),
        );
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn synthesize(
        &self,
        _: Request<v1::SynthesizeRequest>,
    ) -> Result<Response<Self::SynthesizeStream>, Status> {
        Err(Status::unimplemented("the command line does not call this"))
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
