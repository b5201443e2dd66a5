//! A server on a free port, taken down with its test.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use omni_config::{Config, RawConfig};
use omni_family::Family;
use omni_pipeline::connector::{EdgeRecord, EdgeSink, Hop, TransferStamps};
use omni_proto::v1::admin_service_client::AdminServiceClient;
use omni_proto::v1::catalog_service_client::CatalogServiceClient;
use omni_proto::v1::chat_service_client::ChatServiceClient;
use omni_proto::v1::metrics_service_client::MetricsServiceClient;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_server::app::{App, Sinks};
use omni_session::{EndedRequest, Packet, RecordSink, Track, TurnRecord, UtteranceRecord};
use parking_lot::Mutex;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::call::Call;
use crate::chat::ChatCall;
use crate::fake::{FakeScript, FakeSpeech};

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// The records of a server.
#[derive(Debug, Clone, Default)]
pub struct Records {
    utterances: Arc<Mutex<Vec<UtteranceRecord>>>,
    turns: Arc<Mutex<Vec<TurnRecord>>>,
    packets: Arc<Mutex<Vec<Packet>>>,
    traced: Arc<AtomicUsize>,
}

/// Most packets kept; tests that inspect them have fewer.
const PACKETS: usize = 4_096;

impl RecordSink for Records {
    fn ended(&self, request: &EndedRequest, track: Option<&Track>) {
        self.traced
            .fetch_add(usize::from(track.is_some()), Ordering::Relaxed);
        match request {
            EndedRequest::Utterance(record) => self.utterances.lock().push(UtteranceRecord::clone(record)),
            EndedRequest::Turn(record) => self.turns.lock().push(TurnRecord::clone(record)),
        }
    }

    fn packet(&self, packet: &Packet) {
        let mut packets = self.packets.lock();
        if packets.len() < PACKETS {
            packets.push(*packet);
        }
    }
}

impl Records {
    /// Drops them all.
    pub fn forget(&self) {
        self.utterances.lock().clear();
        self.turns.lock().clear();
        self.packets.lock().clear();
    }

    /// Utterance records so far.
    pub fn all(&self) -> Vec<UtteranceRecord> {
        self.utterances.lock().clone()
    }

    /// Packets after the first of each utterance, so far.
    pub fn packets(&self) -> Vec<Packet> {
        self.packets.lock().clone()
    }

    /// Number of requests so far that were traced.
    pub fn traced(&self) -> usize {
        self.traced.load(Ordering::Relaxed)
    }

    /// Records of answers so far.
    pub fn turns(&self) -> Vec<TurnRecord> {
        self.turns.lock().clone()
    }
}

/// The closed edges of a server.
#[derive(Debug, Clone, Default)]
pub struct Edges(Arc<Mutex<Vec<EdgeRecord>>>);

impl EdgeSink for Edges {
    fn chunk(&self, _hop: &Hop, chunk: &TransferStamps) {
        assert!(
            chunk.tx_start <= chunk.tx_end
                && chunk.tx_end <= chunk.rx_start
                && chunk.rx_start <= chunk.rx_end
        );
    }

    fn closed(&self, record: &EdgeRecord) {
        self.0.lock().push(record.clone());
    }
}

impl Edges {
    /// Drops the edges closed so far.
    pub fn forget(&self) {
        self.0.lock().clear();
    }

    /// Edges closed so far.
    pub fn all(&self) -> Vec<EdgeRecord> {
        self.0.lock().clone()
    }
}

/// A server and a connection to it.
#[derive(Debug)]
pub struct TestServer {
    /// The server.
    pub app: App,
    /// A connection; none that works to a port that is encrypted.
    pub channel: Channel,
    /// Records of requests.
    pub records: Records,
    /// Records of the edges.
    pub edges: Edges,
    max_active: usize,
}

impl TestServer {
    /// A scripted model behind a server with these extra arguments, ready to serve.
    pub async fn fake(script: FakeScript, args: &[&str]) -> Self {
        let mut server = Self::launch(args, move || Ok(FakeSpeech::new(script))).await;
        server.app.ready().await.expect("the fake model loads");
        server
    }

    /// A server that may still be loading.
    pub async fn launch<B: Into<Family>>(
        args: &[&str],
        load: impl FnOnce() -> anyhow::Result<B> + Send + 'static,
    ) -> Self {
        Self::adjusted(args, |_| {}, load).await
    }

    /// A scripted model behind a server with these sinks; `records` and `edges` stay empty.
    pub async fn observed(args: &[&str], sinks: Sinks, script: FakeScript) -> Self {
        let load = move || Ok(FakeSpeech::new(script));
        let mut server = Self::started(args, |_| {}, Some(sinks), load).await;
        server.app.ready().await.expect("the fake model loads");
        server
    }

    /// As above, with a configuration changed by `adjust`, for settings that only the environment has.
    pub async fn adjusted<B: Into<Family>>(
        args: &[&str],
        adjust: impl FnOnce(&mut Config),
        load: impl FnOnce() -> anyhow::Result<B> + Send + 'static,
    ) -> Self {
        Self::started(args, adjust, None, load).await
    }

    async fn started<B: Into<Family>>(
        args: &[&str],
        adjust: impl FnOnce(&mut Config),
        sinks: Option<Sinks>,
        load: impl FnOnce() -> anyhow::Result<B> + Send + 'static,
    ) -> Self {
        let own = [
            "omni-server",
            "--listen",
            "127.0.0.1:0",
            "--metrics-listen",
            "127.0.0.1:0",
        ];
        // A test's result must not depend on the machine's number of CPUs.
        let active: &[&str] = if args.contains(&"--max-active") {
            &[]
        } else {
            &["--max-active", "64"]
        };
        let args = own.iter().chain(active).chain(args);
        let mut config = RawConfig::arguments_only(args)
            .expect("arguments")
            .validate()
            .expect("a configuration");
        adjust(&mut config);
        let records = Records::default();
        let edges = Edges::default();
        let sinks = sinks.unwrap_or_else(|| Sinks {
            records: Arc::new(records.clone()),
            edges: Arc::new(edges.clone()),
        });
        let load = move || load().map(Into::into);
        let app = App::start(&config, sinks, load).await.expect("a free port");
        let channel = match config.tls {
            None => connect(&app).await,
            // Each test chooses its authorities itself.
            Some(_) => endpoint(&app).connect_lazy(),
        };
        Self {
            app,
            channel,
            records,
            edges,
            max_active: config.max_active,
        }
    }

    /// Another connection.
    pub async fn connect(&self) -> Channel {
        connect(&self.app).await
    }

    /// A speech client.
    pub fn speech(&self) -> SpeechServiceClient<Channel> {
        SpeechServiceClient::new(self.channel.clone())
    }

    /// A chat client.
    pub fn chat(&self) -> ChatServiceClient<Channel> {
        ChatServiceClient::new(self.channel.clone())
    }

    /// An open `Converse` call.
    pub async fn converse(&self) -> ChatCall {
        ChatCall::open(&mut self.chat()).await
    }

    /// A catalogue client.
    pub fn catalog(&self) -> CatalogServiceClient<Channel> {
        CatalogServiceClient::new(self.channel.clone())
    }

    /// A client that records metrics.
    pub fn measurements(&self) -> MetricsServiceClient<Channel> {
        MetricsServiceClient::new(self.channel.clone())
    }

    /// A client for operators, of a server with `--admin-listen`.
    ///
    /// # Panics
    /// If it has none.
    pub async fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.admin_channel().await)
    }

    /// A connection for operators.
    ///
    /// # Panics
    /// If the server has none.
    pub async fn admin_channel(&self) -> Channel {
        let address = self.app.admin_address().expect("--admin-listen");
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
        endpoint.connect().await.expect("the server listens")
    }

    /// A health client.
    pub fn health(&self) -> HealthClient<Channel> {
        HealthClient::new(self.channel.clone())
    }

    /// An open `Speak` call.
    pub async fn call(&self) -> Call {
        Call::open(&mut self.speech()).await
    }

    /// Returns true if the health service reports that it serves.
    pub async fn serving(&self) -> bool {
        let request = HealthCheckRequest::default();
        let answer = self
            .health()
            .check(request)
            .await
            .expect("an answer")
            .into_inner();
        answer.status() == ServingStatus::Serving
    }

    /// Waits until nothing is left of any call: no session, no permit, no record missing.
    pub async fn idle(&self, utterances: usize) {
        self.until("every session has ended", || self.app.sessions() == 0)
            .await;
        let places = self.max_active;
        self.until("every permit is back", || {
            self.app.orchestrator().admission().free() == places
        })
        .await;
        self.until("every utterance is recorded", || {
            self.records.all().len() >= utterances
        })
        .await;
        assert_eq!(
            self.records.all().len(),
            utterances,
            "every utterance is recorded once"
        );
    }

    /// Waits until nothing is left of any conversation, and this many answers are recorded.
    pub async fn chats_over(&self, answers: usize) {
        self.until("every session has ended", || self.app.sessions() == 0)
            .await;
        let places = self.max_active;
        self.until("every permit is back", || {
            self.app.orchestrator().admission().free() == places
        })
        .await;
        assert_eq!(
            self.records.turns().len(),
            answers,
            "every answer is recorded once"
        );
    }

    /// Waits for a condition that something else brings about.
    pub async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let wait = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(
            tokio::time::timeout(PATIENCE, wait).await.is_ok(),
            "waited too long until {what}"
        );
    }

    /// Takes the server down and waits for all of it.
    pub async fn stop(self) {
        self.app.shut_down(std::future::ready(())).await;
    }
}

fn endpoint(app: &App) -> Endpoint {
    Channel::from_shared(format!("http://{}", app.address())).expect("an address")
}

async fn connect(app: &App) -> Channel {
    endpoint(app).connect().await.expect("the server listens")
}
