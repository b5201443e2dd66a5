//! The parts of a server before it serves: what all share, access, services and protocols.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, anyhow};
use http::HeaderValue;
use omni_config::Config;
use omni_core::drain::{Drain, Phases};
use omni_core::id::OnRefused;
use omni_core::orchestrator::Orchestrator;
use omni_core::tasks::Tasks;
use omni_grpc::{
    Access, AdminState, CHAT_SERVICE_NAME, CountCalls, GrpcCatalog, GrpcChat, GrpcSpeech, GrpcVoices,
    METRICS_SERVICE_NAME, Riva, SERVICE_NAMES, ServerInfo, Services, WATCH_SERVICE_NAME, Watch,
};
use omni_openai::{OpenAi, Sites, tidied};
use omni_pipeline::clock::Clock;
use omni_services::{CallGate, Catalog, ChatService, SpeechService, Voices};
use omni_session::{Courses, Recent, RecordSink, Registry, SessionDeps};
use omni_telemetry::{Listener, Protocol};
use omni_transport::{BodyBudget, BufferedResponses, Hosts, Keys, Port, Tls};
use omni_wyoming::{Wyoming, WyomingParts};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic_health::pb::health_server::{Health, HealthServer};

use super::admin::AdminListener;
use super::limits;
use super::metrics::Metrics;
use super::readiness::Readiness;
use super::wyoming::WyomingListener;

/// What all parts of a server share.
#[derive(Debug)]
pub(super) struct Shared {
    started: SystemTime,
    pub(super) clock: Clock,
    pub(super) orchestrator: Orchestrator,
    pub(super) tasks: Arc<Tasks>,
    pub(super) phases: Phases,
    /// Ends sessions.
    pub(super) stop: CancellationToken,
    /// Closes the connections of callers.
    pub(super) close: CancellationToken,
    pub(super) drain: Drain,
    registry: Registry,
    pub(super) recent: Arc<Recent>,
    /// The work that callers may watch, if they may.
    pub(super) courses: Option<Arc<Courses>>,
}

impl Shared {
    pub(super) fn new(config: &Config) -> Self {
        let clock = Clock::start();
        let phases = Phases::new(config.limits.drain_closes_port);
        Self {
            started: SystemTime::now(),
            clock,
            orchestrator: Orchestrator::new(limits::admission(config), phases.draining_token()),
            tasks: Arc::default(),
            phases,
            stop: CancellationToken::new(),
            close: CancellationToken::new(),
            drain: Drain::default(),
            registry: Registry::default(),
            recent: Arc::new(Recent::new(clock.now())),
            courses: config.shows_work().then(Arc::default),
        }
    }

    /// The state that operators see of a server that listens at `listen`.
    pub(super) fn admin_state(&self, listen: SocketAddr, max_sessions: usize) -> AdminState {
        AdminState {
            about: ServerInfo {
                started: self.started,
                listen,
                max_sessions,
            },
            orchestrator: self.orchestrator.clone(),
            registry: self.registry.clone(),
            recent: Arc::clone(&self.recent),
            clock: self.clock,
            drain: self.drain.clone(),
            close: self.close.clone(),
        }
    }
}

/// Keys, encryption and bounds of the port of callers.
pub(super) fn access(
    config: &Config,
    address: SocketAddr,
    phases: &Phases,
    metrics: &Metrics,
    on_refused: OnRefused,
) -> anyhow::Result<Access> {
    let joined = |problems: Vec<String>| anyhow!("{}", problems.join("\n"));
    let origins = config
        .cors_origins
        .iter()
        .map(|origin| HeaderValue::from_str(origin));
    // Made in any case: a reader sees whether there is a certificate.
    let expiry = metrics.certificate();
    let tls = config.tls.as_ref().map(|files| Tls::new(files, expiry));
    Ok(Access {
        keys: Keys::new(config.api_keys.as_deref()).map_err(joined)?,
        port: Port {
            tls: tls.transpose().map_err(joined)?,
            limits: config.connections,
            proxies: config.trusted_proxies.clone(),
            phases: phases.clone(),
            instruments: metrics.connections(Listener::Callers),
        },
        hosts: hosts(config, address),
        cors_origins: origins.collect::<Result<_, _>>().context("--cors-origin")?,
        on_refused,
    })
}

fn hosts(config: &Config, address: SocketAddr) -> Hosts {
    Hosts::new(
        config.allowed_hosts.clone(),
        address.ip(),
        config.api_keys.is_some(),
    )
}

/// Starts the listener for operators, if there is to be one. It serves to the end: neither draining nor closing reaches it.
pub(super) async fn operators<H: Health>(
    config: &Config,
    access: &Access,
    state: &AdminState,
    health: HealthServer<H>,
    calls: CountCalls,
    metrics: &Metrics,
) -> anyhow::Result<Option<AdminListener>> {
    let Some(wanted) = config.admin_listen else {
        return Ok(None);
    };
    let state = AdminState {
        close: CancellationToken::new(),
        ..state.clone()
    };
    let port = Port {
        instruments: metrics.connections(Listener::Operators),
        phases: Phases::default(),
        ..access.port.clone()
    };
    let access = Access {
        hosts: hosts(config, wanted),
        port,
        ..access.clone()
    };
    let listener = AdminListener::start(wanted, state, health, calls, access).await?;
    Ok(Some(listener))
}

/// The services, which no protocol owns.
pub(super) struct Parts {
    speech: SpeechService,
    chat: ChatService,
    catalog: Catalog,
    pub(super) voices: Voices,
    buffered: BufferedResponses,
    bodies: BodyBudget,
}

impl Parts {
    /// Services whose sessions are told to `records`.
    ///
    /// # Errors
    /// If the kept voices cannot be read.
    pub(super) fn new(
        config: &Config,
        shared: &Shared,
        metrics: &Metrics,
        records: Arc<dyn RecordSink>,
    ) -> anyhow::Result<Self> {
        let bodies = BodyBudget::new(config.connections.body_bytes, Arc::clone(&records));
        let deps = SessionDeps {
            orchestrator: shared.orchestrator.clone(),
            clock: shared.clock,
            limits: limits::sessions(config),
            records,
            stop: shared.stop.clone(),
        };
        let gate = CallGate::new(
            deps,
            Arc::clone(&shared.tasks),
            shared.registry.clone(),
            config.limits.max_sessions,
        );
        let voices = limits::voices(config, &shared.orchestrator, gate.clone(), metrics.voices())?;
        Ok(Self {
            speech: SpeechService::new(gate.clone(), voices.clone()),
            chat: ChatService::new(gate),
            catalog: Catalog::new(shared.orchestrator.clone(), voices.clone()),
            voices,
            buffered: BufferedResponses::new(
                config.limits.max_sessions,
                config.limits.stall_timeout,
                Arc::clone(&shared.tasks),
                shared.stop.clone(),
            ),
            bodies,
        })
    }

    /// Starts the listener of Wyoming, if there is to be one.
    pub(super) fn wyoming(
        &self,
        config: &Config,
        shared: &Shared,
        access: &Access,
        metrics: &Metrics,
        readiness: watch::Receiver<Readiness>,
    ) -> anyhow::Result<Option<WyomingListener>> {
        let Some(settings) = &config.wyoming else {
            return Ok(None);
        };
        let wyoming = Wyoming::new(WyomingParts {
            speech: self.speech.clone(),
            catalog: self.catalog.clone(),
            keys: access.keys.clone(),
            holder: settings.holder.clone(),
            limits: config.connections,
            proxies: config.trusted_proxies.clone(),
            connections: metrics.connections(Listener::Wyoming),
            requests: metrics.requests(Protocol::Wyoming),
            on_refused: access.on_refused.clone(),
        });
        let listener = WyomingListener::start(settings, wyoming, readiness, shared.phases.clone())?;
        Ok(Some(listener))
    }

    /// The services of the port of callers.
    pub(super) fn services(
        self,
        config: &Config,
        shared: &Shared,
        keys: &Keys,
        metrics: &Metrics,
        state: AdminState,
    ) -> Services {
        let routes = self.http_routes(config, shared, keys, metrics);
        let most = config.connections.message_bytes;
        Services {
            watch: shared
                .courses
                .as_ref()
                .map(|courses| Watch::new(state, Arc::clone(courses))),
            riva: Riva::new(self.speech.clone(), self.buffered, most),
            voices: GrpcVoices::new(self.voices, self.speech.clone()),
            speech: GrpcSpeech::new(self.speech, most),
            chat: GrpcChat::new(self.chat, most),
            catalog: GrpcCatalog::new(self.catalog),
            bodies: self.bodies,
            measurements: metrics.measurements(&shared.stop),
            routes,
        }
    }

    /// OpenAI's API and, if it is on, the page for browsers.
    fn http_routes(&self, config: &Config, shared: &Shared, keys: &Keys, metrics: &Metrics) -> axum::Router {
        let openai = OpenAi::new(
            (
                self.speech.clone(),
                self.chat.clone(),
                self.catalog.clone(),
                self.voices.clone(),
            ),
            keys.clone(),
            self.buffered.clone(),
            (
                config.connections,
                Arc::new(metrics.requests(Protocol::WebSocket)),
            ),
            shared.phases.clone(),
            Sites {
                metrics: metrics.address(),
                metrics_encrypted: config.metrics.tls,
                strict: config.strict,
                studio: config.studio,
                grpc_services: grpc_services(config),
            },
        );
        let mut routes = openai.routes();
        if config.studio {
            routes = routes.merge(omni_studio::routes());
        }
        tidied(metrics.routes(routes))
    }
}

/// The gRPC services for callers, and whether each is on.
fn grpc_services(config: &Config) -> [(&'static str, bool); 7] {
    let [speech, catalog, voices, riva] = SERVICE_NAMES.map(|name| (name, true));
    let chat = (CHAT_SERVICE_NAME, true);
    let metrics = (METRICS_SERVICE_NAME, config.metrics.service);
    let watch = (WATCH_SERVICE_NAME, config.shows_work());
    [speech, catalog, voices, riva, chat, metrics, watch]
}
