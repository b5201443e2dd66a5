//! The composition root: puts the parts together, starts every task and thread, and takes them down again.

mod admin;
mod bind;
mod health;
mod limits;
mod loading;
mod log;
mod metrics;
mod model;
mod readiness;
mod records;
mod stage_host;
mod stage_member;
mod stage_process;
mod stages;
mod traces;
mod wyoming;
mod zeroconf;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, anyhow};
use futures::FutureExt as _;
use http::HeaderValue;
use omni_config::{Config, Device};
use omni_core::drain::{Drain, Phases};
use omni_core::orchestrator::Orchestrator;
use omni_core::tasks::Tasks;
use omni_family::Converse;
use omni_grpc::{
    Access, AdminState, CHAT_SERVICE_NAME, GrpcCatalog, GrpcChat, GrpcSpeech, GrpcVoices,
    METRICS_SERVICE_NAME, Riva, SERVICE_NAMES, ServerInfo, Services, WATCH_SERVICE_NAME, Watch, serve,
};
use omni_openai::{OpenAi, Sites, tidied};
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::EdgeSink;
use omni_services::{CallGate, Catalog, ChatService, SpeechService, Voices};
use omni_session::{Courses, Recent, RecordSink, Registry, SessionDeps};
use omni_telemetry::{Listener, Protocol};
use omni_transport::{BodyBudget, BufferedResponses, Hosts, Keys, Port, Tls};
use omni_wyoming::Wyoming;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use admin::AdminListener;
use health::{HealthBoard, HealthEnd};
use metrics::Metrics;
use model::ModelStart;
use readiness::Readiness;
use traces::Traces;
use wyoming::WyomingListener;

pub use log::init_logging;
pub use metrics::{list_metrics, metrics_catalogue};
pub use model::load_model;
pub use records::{LogEdges, LogRecords};
pub use stage_member::{Caller, StageListener, StageMember, joined};
pub use stage_process::serve_stage;

/// The gRPC services for callers, and whether each is on.
fn grpc_services(config: &Config) -> [(&'static str, bool); 7] {
    let [speech, catalog, voices, riva] = SERVICE_NAMES.map(|name| (name, true));
    let chat = (CHAT_SERVICE_NAME, true);
    let metrics = (METRICS_SERVICE_NAME, config.metrics.service);
    let watch = (WATCH_SERVICE_NAME, config.shows_work());
    [speech, catalog, voices, riva, chat, metrics, watch]
}

/// Time in which connections may close after the last session.
const CLOSING: Duration = Duration::from_secs(1);
/// Time for the step in progress when no time to drain is left.
const LAST_STEP: Duration = Duration::from_secs(2);

/// Receivers of a server's records.
#[derive(Clone)]
pub struct Sinks {
    /// Records of utterances.
    pub records: Arc<dyn RecordSink>,
    /// Figures of the edges between stages.
    pub edges: Arc<dyn EdgeSink>,
}

impl Sinks {
    /// Everything becomes a log line.
    #[must_use]
    pub fn log() -> Self {
        Self {
            records: Arc::new(LogRecords),
            edges: Arc::new(LogEdges),
        }
    }
}

impl std::fmt::Debug for Sinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sinks")
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct App {
    address: SocketAddr,
    orchestrator: Orchestrator,
    phases: Phases,
    stop: CancellationToken,
    close: CancellationToken,
    clock: Clock,
    drain: Drain,
    drain_delay: Duration,
    drain_timeout: Duration,
    tasks: Arc<Tasks>,
    listener: JoinHandle<anyhow::Result<()>>,
    admin: Option<AdminListener>,
    wyoming: Option<WyomingListener>,
    keeper: JoinHandle<()>,
    health: HealthEnd,
    readiness: watch::Receiver<Readiness>,
    metrics: Metrics,
    traces: Traces,
}

impl App {
    /// Listens at once, loads the model with `load` on a thread of its own, and serves when it is warm.
    ///
    /// # Errors
    /// If the address cannot be listened on. A model that cannot be loaded shows in [`ready`](Self::ready).
    pub async fn start<B, L>(config: &Config, sinks: Sinks, load: L) -> anyhow::Result<Self>
    where
        B: Converse,
        L: FnOnce() -> anyhow::Result<B> + Send + 'static,
    {
        let listener = bind::bind("callers", "--listen", config.listen).await?;
        let address = listener.local_addr()?;
        let computes = match config.device.device {
            Device::Cpu => "the CPU".to_owned(),
            other => other.to_string(),
        };
        tracing::info!("using {computes} ({})", config.device.because);
        let started = SystemTime::now();
        let (stop, close) = Default::default();
        let phases = Phases::new(config.limits.drain_closes_port);
        let drain = Drain::default();
        let registry = Registry::default();
        let tasks = Arc::new(Tasks::default());
        let clock = Clock::start();
        let recent = Arc::new(Recent::new(clock.now()));
        let orchestrator = Orchestrator::new(limits::admission(config), phases.draining_token());
        let traces = traces::Prepared::new(config.traces.as_ref())?;
        let metrics = Metrics::start(
            &config.metrics,
            (&orchestrator, &phases),
            &tasks,
            clock,
            (config.max_active, config.log_format),
        )
        .await?;
        let traces = traces.start(metrics.telemetry(), &orchestrator);
        let sinks = traces.observe(metrics.observe(sinks));
        let courses = config.shows_work().then(Arc::<Courses>::default);
        let sinks = admin::beside(&recent, courses.as_ref(), clock, sinks);
        let deps = SessionDeps {
            orchestrator: orchestrator.clone(),
            clock,
            limits: limits::sessions(config),
            records: sinks.records,
            stop: CancellationToken::clone(&stop),
        };

        let (board, health, operators) =
            HealthBoard::new(phases.clone(), (config.metrics.service, config.shows_work())).await;
        let origins = config
            .cors_origins
            .iter()
            .map(|origin| HeaderValue::from_str(origin));
        let said = |problems: Vec<String>| anyhow!("{}", problems.join("\n"));
        // Made in any case: a reader sees whether there is a certificate.
        let expiry = metrics.certificate();
        let tls = config.tls.as_ref().map(|files| Tls::new(files, expiry));
        let has_keys = config.api_keys.is_some();
        let hosts = |address: SocketAddr| Hosts::new(config.allowed_hosts.clone(), address.ip(), has_keys);
        let access = Access {
            keys: Keys::new(config.api_keys.as_deref()).map_err(said)?,
            port: Port {
                tls: tls.transpose().map_err(said)?,
                limits: config.connections,
                proxies: config.trusted_proxies.clone(),
                phases: phases.clone(),
                instruments: metrics.connections(Listener::Callers),
            },
            hosts: hosts(address),
            cors_origins: origins.collect::<Result<_, _>>().context("--cors-origin")?,
            on_refused: traces.on_refused(),
        };
        metrics.open(
            access.port.tls.as_ref(),
            (&access.keys, has_keys),
            config.allowed_hosts.clone(),
        )?;
        let max_sessions = config.limits.max_sessions;
        let most = config.connections.message_bytes;
        let bodies = BodyBudget::new(config.connections.body_bytes, Arc::clone(&deps.records));
        let gate = CallGate::new(deps, Arc::clone(&tasks), registry.clone(), max_sessions);
        let voices = limits::voices(config, &orchestrator, gate.clone(), metrics.voices())?;
        let speech = SpeechService::new(gate.clone(), voices.clone());
        let chat = ChatService::new(gate);
        let catalog = Catalog::new(orchestrator.clone(), voices.clone());
        let buffered = BufferedResponses::new(
            config.limits.max_sessions,
            config.limits.stall_timeout,
            Arc::clone(&tasks),
            CancellationToken::clone(&stop),
        );
        let openai = OpenAi::new(
            (speech.clone(), chat.clone(), catalog.clone(), voices.clone()),
            access.keys.clone(),
            buffered.clone(),
            (
                config.connections,
                Arc::new(metrics.requests(Protocol::WebSocket)),
            ),
            phases.clone(),
            Sites {
                metrics: metrics.address(),
                metrics_encrypted: config.metrics.tls,
                strict: config.strict,
                studio: config.studio,
                grpc_services: grpc_services(config),
            },
        );
        let (readiness_tx, readiness) = watch::channel(Readiness::Loading);
        let wyoming = match &config.wyoming {
            Some(settings) => {
                let wyoming = Wyoming::new(
                    (speech.clone(), catalog.clone()),
                    (access.keys.clone(), settings.holder.clone()),
                    (config.connections, config.trusted_proxies.clone()),
                    (
                        metrics.connections(Listener::Wyoming),
                        metrics.requests(Protocol::Wyoming),
                    ),
                );
                Some(WyomingListener::start(
                    settings,
                    wyoming,
                    readiness.clone(),
                    phases.clone(),
                )?)
            }
            None => None,
        };
        let state = AdminState {
            about: ServerInfo {
                started,
                listen: address,
                max_sessions,
            },
            orchestrator: orchestrator.clone(),
            registry,
            recent,
            clock,
            drain: drain.clone(),
            close: CancellationToken::clone(&close),
        };
        let services = Services {
            watch: courses.map(|courses| Watch::new(state.clone(), courses)),
            riva: Riva::new(speech.clone(), buffered, most),
            voices: GrpcVoices::new(voices.clone(), speech.clone()),
            speech: GrpcSpeech::new(speech, most),
            chat: GrpcChat::new(chat, most),
            catalog: GrpcCatalog::new(catalog),
            bodies,
            measurements: metrics.measurements(&stop),
            routes: tidied(metrics.routes(if config.studio {
                openai.routes().merge(omni_studio::routes())
            } else {
                openai.routes()
            })),
        };
        let closing = CancellationToken::clone(&close).cancelled_owned();
        let calls = metrics.calls()?;
        // Operators are served to the end.
        let state = AdminState {
            close: CancellationToken::new(),
            ..state
        };
        let admin = match config.admin_listen {
            Some(wanted) => {
                let calls = calls.clone();
                let port = Port {
                    instruments: metrics.connections(Listener::Operators),
                    phases: Phases::default(),
                    ..access.port.clone()
                };
                let access = Access {
                    hosts: hosts(wanted),
                    port,
                    ..access.clone()
                };
                Some(AdminListener::start(wanted, state, operators, calls, access).await?)
            }
            None => None,
        };
        let listener = tokio::spawn(serve(listener, services, health, calls, access, closing));
        tracing::info!(%address, encrypted = config.tls.is_some(), "listening");

        let start = ModelStart {
            config: config.clone(),
            clock,
            tasks: Arc::clone(&tasks),
            edge_sink: sinks.edges,
            bridge: metrics.bridge(),
        };
        let end = board.end();
        let keeper = tokio::spawn(keep(
            start,
            page(address, config.tls.is_some()),
            load,
            orchestrator.clone(),
            voices,
            board,
            readiness_tx,
        ));
        Ok(Self {
            address,
            orchestrator,
            phases,
            stop,
            close,
            clock,
            drain,
            drain_delay: config.limits.drain_delay,
            drain_timeout: config.limits.drain_timeout,
            tasks,
            listener,
            admin,
            wyoming,
            keeper,
            health: end,
            readiness,
            metrics,
            traces,
        })
    }

    /// The address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address at which operators are served, if they are.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(AdminListener::address)
    }

    /// The address at which Wyoming is spoken, if it is.
    #[must_use]
    pub fn wyoming_address(&self) -> Option<SocketAddr> {
        self.wyoming.as_ref().map(WyomingListener::address)
    }

    /// The wish of operators that the server ends.
    #[must_use]
    pub fn drain(&self) -> Drain {
        self.drain.clone()
    }

    /// The address at which its metrics are read, if they are.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.address()
    }

    /// Shows the families in `text` on the page of its metrics, behind its own: those of a library that keeps a registry. It is called for every
    /// reading, and gives Prometheus' text.
    pub fn show_metrics(&self, text: impl Fn() -> String + Send + Sync + 'static) {
        self.metrics.telemetry().exposition().show(Arc::new(text));
    }

    /// The orchestrator, which does the work of sessions.
    #[must_use]
    pub fn orchestrator(&self) -> &Orchestrator {
        &self.orchestrator
    }

    /// Calls that have not ended.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.tasks.running()
    }

    /// Resolves if the listener fails, or, once there is a model, if this process can never speak again.
    ///
    /// # Errors
    /// What happened.
    pub async fn failed(&mut self) -> anyhow::Result<()> {
        tokio::select! {
            ended = &mut self.listener => ended.context("the listening task ended early")?,
            error = readiness::failed_for_good(&self.orchestrator) => Err(error),
        }
    }

    /// Serves until something fails, `signal` resolves or operators ask for the end, and shuts down then, at once if `signal` resolves again.
    ///
    /// # Errors
    /// What failed, when everything has ended: the loading of the model, or what [`failed`](Self::failed) says.
    pub async fn serve(mut self, mut signal: impl AsyncFnMut()) -> anyhow::Result<()> {
        let drain = self.drain();
        let outcome = tokio::select! {
            outcome = self.work() => outcome,
            () = signal() => Ok(()),
            () = drain.asked() => Ok(()),
        };
        self.shut_down(signal()).await;
        outcome
    }

    async fn work(&mut self) -> anyhow::Result<()> {
        self.ready().await?;
        self.failed().await
    }

    /// Shuts down: is not ready for the configured delay, then refuses new work, lets open utterances finish and their readers take them within the configured time (or that
    /// which was asked for with [`drain`](Self::drain)) or until `now` resolves, then
    /// ends what is left and waits for every task and thread. Only a thread that is still loading the model is abandoned, and one
    /// that hangs in a step of the model.
    pub async fn shut_down(mut self, now: impl Future<Output = ()>) {
        let mut now = pin!(now.fuse());
        let hurried = self.leave(now.as_mut()).await;
        tracing::info!(sessions = self.sessions(), "draining");
        let time = self.drain.begin(self.drain_timeout, self.clock.now());
        let drained = Instant::now() + if hurried { Duration::ZERO } else { time };
        self.phases.drain();
        let mut patient = false;
        tokio::select! {
            () = self.tasks.join_tasks() => patient = true,
            () = &mut now => tracing::warn!(sessions = self.sessions(), "told to stop at once"),
            () = tokio::time::sleep_until(drained) => {
                tracing::warn!(sessions = self.sessions(), "drain timeout reached");
            }
        }
        self.stop.cancel();
        self.tasks.join_tasks().await;
        self.metrics.drained();
        self.close.cancel();
        self.health.now().await;
        // One that has failed was awaited already, and must not be again.
        if !self.listener.is_finished() {
            // Connections that nothing runs on close at once; on the others there is something that was not read yet.
            let least = Instant::now() + CLOSING;
            let until = async {
                if patient {
                    tokio::select! {
                        () = now => {}
                        () = tokio::time::sleep_until(drained) => {}
                    }
                }
                tokio::time::sleep_until(least).await;
            };
            let closed = tokio::select! {
                _ = &mut self.listener => true,
                () = until => false,
            };
            if !closed {
                self.listener.abort();
                let _ = (&mut self.listener).await;
            }
        }
        if let Some(wyoming) = self.wyoming {
            wyoming.close().await;
        }
        if let Some(admin) = self.admin {
            admin.close().await;
        }
        self.keeper.abort();
        // An abort is a request: until it is granted the keeper may still start stages, which would not be stopped.
        let _ = (&mut self.keeper).await;
        self.orchestrator.stop_stages();
        self.metrics.close().await;
        let least = Instant::now() + LAST_STEP;
        let last = if patient { least.max(drained) } else { least };
        self.tasks.join_threads(last).await;
        // No more spans are made.
        self.traces.close(last.max(Instant::now() + LAST_STEP)).await;
        tracing::info!("stopped");
    }
}

/// The server's address for a browser of this machine.
fn page(address: SocketAddr, encrypted: bool) -> String {
    let scheme = if encrypted { "https" } else { "http" };
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("{scheme}://{address}/")
}

impl App {
    /// Serves on for the configured time while readiness says no, or until `now` resolves; whether it did.
    async fn leave(&self, now: impl Future<Output = ()>) -> bool {
        self.phases.leave();
        if self.drain_delay.is_zero() {
            return false;
        }
        tracing::info!(delay = ?self.drain_delay, "not ready any more, serving on");
        tokio::select! {
            () = tokio::time::sleep(self.drain_delay) => false,
            () = now => {
                tracing::warn!(sessions = self.sessions(), "told to stop at once");
                true
            }
        }
    }
}

/// Loads the model, then keeps the health report true.
async fn keep<B, L>(
    start: ModelStart,
    page: String,
    load: L,
    orchestrator: Orchestrator,
    voices: Voices,
    board: HealthBoard,
    readiness: watch::Sender<Readiness>,
) where
    B: Converse,
    L: FnOnce() -> anyhow::Result<B> + Send + 'static,
{
    let begun = start.clock.now();
    let clock = start.clock;
    let bridge = Arc::clone(&start.bridge);
    let loaded = || _ = readiness.send_replace(Readiness::Loaded);
    match start.run(load, &orchestrator, loaded).await {
        Ok(()) => {
            // The report first: a client that is told that the server is ready may ask.
            board.update(&orchestrator).await;
            bridge.serves();
            tracing::info!("ready in {:.2} s: {page}", clock.since(begun).as_secs_f64());
            voices.tell();
            readiness.send_replace(Readiness::Ready);
            let Ok(model) = orchestrator.model() else {
                return;
            };
            // Draining ends the one, and the wait for the end of the other is aborted.
            tokio::join!(board.follow(&orchestrator), model.pipeline.watch());
        }
        Err(error) => {
            readiness.send_replace(Readiness::Failed(format!("{error:#}")));
        }
    }
}

#[cfg(test)]
mod tests;
