//! The composition root: puts the parts together, starts every task and thread, and takes them down again.

mod admin;
mod bind;
mod health;
mod limits;
mod loading;
mod log;
mod metrics;
mod model;
mod parts;
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
use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use omni_config::{Config, Device};
use omni_core::drain::Drain;
use omni_core::orchestrator::Orchestrator;
use omni_family::Family;
use omni_grpc::serve;
use omni_services::Voices;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use admin::AdminListener;
use health::{HealthBoard, HealthEnd};
use metrics::Metrics;
use model::ModelStart;
use parts::{Parts, Shared};
use readiness::Readiness;
use traces::Traces;
use wyoming::WyomingListener;

pub use log::init_logging;
pub use metrics::{list_metrics, metrics_catalogue};
pub use model::load_model;
pub use records::{LogEdges, LogRecords, Sinks};
pub use stage_member::{Caller, StageListener, StageMember, joined};
pub use stage_process::serve_stage;

/// Time in which connections may close after the last session.
const CLOSING: Duration = Duration::from_secs(1);
/// Time for the step in progress when no time to drain is left.
const LAST_STEP: Duration = Duration::from_secs(2);

/// A server that runs.
#[derive(Debug)]
pub struct App {
    address: SocketAddr,
    shared: Shared,
    drain_delay: Duration,
    drain_timeout: Duration,
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
    pub async fn start<L>(config: &Config, sinks: Sinks, load: L) -> anyhow::Result<Self>
    where
        L: FnOnce() -> anyhow::Result<Family> + Send + 'static,
    {
        let listener = bind::bind("callers", "--listen", config.listen).await?;
        let address = listener.local_addr()?;
        log_device(config);
        let shared = Shared::new(config);
        let traces = traces::Prepared::new(config.traces.as_ref())?;
        let metrics = Metrics::start(
            &config.metrics,
            (&shared.orchestrator, &shared.phases),
            &shared.tasks,
            shared.clock,
            (config.max_active, config.log_format),
        )
        .await?;
        let traces = traces.start(metrics.telemetry(), &shared.orchestrator);
        let sinks = traces.observe(metrics.observe(sinks));
        let sinks = admin::beside(&shared.recent, shared.courses.as_ref(), shared.clock, sinks);
        let (board, health, operators) = HealthBoard::new(
            shared.phases.clone(),
            (config.metrics.service, config.shows_work()),
        )
        .await;
        let access = parts::access(config, address, &shared.phases, &metrics, traces.on_refused())?;
        metrics.open(
            access.port.tls.as_ref(),
            (&access.keys, config.api_keys.is_some()),
            config.allowed_hosts.clone(),
        )?;
        let parts = Parts::new(config, &shared, &metrics, sinks.records)?;
        let (readiness_tx, readiness) = watch::channel(Readiness::Loading);
        let wyoming = parts.wyoming(config, &shared, &access, &metrics, readiness.clone())?;
        let state = shared.admin_state(address, config.limits.max_sessions);
        let calls = metrics.calls()?;
        let admin = parts::operators(config, &access, &state, operators, calls.clone(), &metrics).await?;
        let voices = parts.voices.clone();
        let services = parts.services(config, &shared, &access.keys, &metrics, state);
        let closing = shared.close.clone().cancelled_owned();
        let listener = tokio::spawn(serve(listener, services, health, calls, access, closing));
        tracing::info!(%address, encrypted = config.tls.is_some(), "listening");

        let start = ModelStart {
            config: config.clone(),
            clock: shared.clock,
            tasks: Arc::clone(&shared.tasks),
            edge_sink: sinks.edges,
            bridge: metrics.bridge(),
        };
        let end = board.end();
        let keeper = tokio::spawn(keep(
            start,
            page(address, config.tls.is_some()),
            load,
            shared.orchestrator.clone(),
            voices,
            board,
            readiness_tx,
        ));
        Ok(Self {
            address,
            shared,
            drain_delay: config.limits.drain_delay,
            drain_timeout: config.limits.drain_timeout,
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
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address at which operators are served, if they are.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(AdminListener::address)
    }

    /// The address at which Wyoming is spoken, if it is.
    pub fn wyoming_address(&self) -> Option<SocketAddr> {
        self.wyoming.as_ref().map(WyomingListener::address)
    }

    /// The wish of operators that the server ends.
    pub fn drain(&self) -> Drain {
        self.shared.drain.clone()
    }

    /// The address at which its metrics are read, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.address()
    }

    /// Shows the families in `text` on the page of its metrics, behind its own: those of a library that keeps a registry. It is called for every
    /// reading, and gives Prometheus' text.
    pub fn show_metrics(&self, text: impl Fn() -> String + Send + Sync + 'static) {
        self.metrics.telemetry().exposition().show(Arc::new(text));
    }

    /// The orchestrator, which does the work of sessions.
    pub fn orchestrator(&self) -> &Orchestrator {
        &self.shared.orchestrator
    }

    /// Calls that have not ended.
    pub fn sessions(&self) -> usize {
        self.shared.tasks.running()
    }

    /// Resolves if the listener fails, or, once there is a model, if this process can never speak again.
    ///
    /// # Errors
    /// What happened.
    pub async fn failed(&mut self) -> anyhow::Result<()> {
        tokio::select! {
            ended = &mut self.listener => ended.context("the listening task ended early")?,
            error = readiness::failed_for_good(&self.shared.orchestrator) => Err(error),
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

    /// Shuts down: is not ready for the configured delay, then refuses new work, lets open utterances finish and their
    /// readers take them within the configured time (or that which was asked for with [`drain`](Self::drain)) or until
    /// `now` resolves, then ends what is left and waits for every task and thread. Only a thread that is still loading
    /// the model is abandoned, and one that hangs in a step of the model.
    pub async fn shut_down(mut self, now: impl Future<Output = ()>) {
        let mut now = pin!(now.fuse());
        let hurried = self.leave(now.as_mut()).await;
        tracing::info!(sessions = self.sessions(), "draining");
        let time = self
            .shared
            .drain
            .begin(self.drain_timeout, self.shared.clock.now());
        let drained = Instant::now() + if hurried { Duration::ZERO } else { time };
        self.shared.phases.drain();
        let mut patient = false;
        tokio::select! {
            () = self.shared.tasks.join_tasks() => patient = true,
            () = &mut now => tracing::warn!(sessions = self.sessions(), "told to stop at once"),
            () = tokio::time::sleep_until(drained) => {
                tracing::warn!(sessions = self.sessions(), "drain timeout reached");
            }
        }
        self.shared.stop.cancel();
        self.shared.tasks.join_tasks().await;
        self.metrics.drained();
        self.shared.close.cancel();
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
        self.shared.orchestrator.stop_stages();
        self.metrics.close().await;
        let least = Instant::now() + LAST_STEP;
        let last = if patient { least.max(drained) } else { least };
        self.shared.tasks.join_threads(last).await;
        // No more spans are made.
        self.traces.close(last.max(Instant::now() + LAST_STEP)).await;
        tracing::info!("stopped");
    }
}

/// Logs the device that computes.
fn log_device(config: &Config) {
    let computes = match config.device.device {
        Device::Cpu => "the CPU".to_owned(),
        other => other.to_string(),
    };
    tracing::info!("using {computes} ({})", config.device.because);
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
        self.shared.phases.leave();
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
async fn keep<L>(
    start: ModelStart,
    page: String,
    load: L,
    orchestrator: Orchestrator,
    voices: Voices,
    board: HealthBoard,
    readiness: watch::Sender<Readiness>,
) where
    L: FnOnce() -> anyhow::Result<Family> + Send + 'static,
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
