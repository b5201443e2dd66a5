//! The metrics of a server: what is recorded, and the tasks that let it out.
//!
//! In: the settings, the orchestrator, the sinks that others want fed as well. Out: sinks for everything that tells, and the tasks
//! for pull, push and the log, which end with [`Metrics::drained`] and [`Metrics::close`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use omni_telemetry::{
    CatalogueOptions, CustomMetrics, CustomOptions, LogLine, LogSink, PullEndpoint, PushOptions, Pusher,
    StatsLog, Telemetry, TelemetryOptions, collect_system,
};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Sinks;
use crate::clock::Clock;
use crate::config::{MetricsListen, MetricsSettings, hostname};
use crate::orchestrator::Orchestrator;
use crate::tasks::Tasks;

mod observer;

use observer::{Looking, Observer};

/// Time between two lines of statistics.
const INTERVAL: Duration = Duration::from_secs(10);

/// What a server records, and the tasks that let it out.
pub(super) struct Metrics {
    telemetry: Telemetry,
    observer: Arc<Observer>,
    lines: Option<Arc<LogSink>>,
    address: Option<SocketAddr>,
    tasks: JoinSet<()>,
    drained: CancellationToken,
    exit: CancellationToken,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Records from now on and serves what is recorded.
    pub(super) async fn start(
        settings: &MetricsSettings,
        orchestrator: &Orchestrator,
        tasks: &Arc<Tasks>,
        clock: Clock,
        max_active: usize,
    ) -> anyhow::Result<Self> {
        let (telemetry, lines) = record(settings, tasks)?;
        let observer = Arc::new(Observer::new(
            telemetry.clone(),
            orchestrator.clone(),
            Arc::clone(tasks),
            clock,
            max_active,
        ));
        let exposition = telemetry.exposition();
        exposition.collect_from(Arc::new(Looking(Arc::downgrade(&observer))));
        collect_system(exposition, telemetry.meter());
        let mut metrics = Self {
            telemetry,
            observer,
            lines,
            address: None,
            tasks: JoinSet::new(),
            drained: CancellationToken::new(),
            exit: CancellationToken::new(),
        };
        if let Err(error) = metrics.pull(settings.listen, orchestrator).await {
            metrics.close().await;
            return Err(error);
        }
        if let Some(target) = &settings.push {
            let pusher = Pusher::new(&metrics.telemetry, PushOptions::new(target.clone()))?;
            metrics
                .tasks
                .spawn(pusher.run(metrics.drained.clone(), metrics.exit.clone()));
        }
        if let Some(log) = metrics.telemetry.log() {
            let log = Arc::clone(log);
            let observer = Arc::clone(&metrics.observer);
            metrics
                .tasks
                .spawn(tell(log, observer, clock, metrics.exit.clone()));
        }
        Ok(metrics)
    }

    async fn pull(&mut self, listen: MetricsListen, orchestrator: &Orchestrator) -> anyhow::Result<()> {
        let listener = match listen {
            MetricsListen::Off => return Ok(()),
            MetricsListen::At(address) => TcpListener::bind(address)
                .await
                .with_context(|| format!("cannot serve metrics on {address}"))?,
            MetricsListen::Default(address) => match TcpListener::bind(address).await {
                Ok(listener) => listener,
                Err(error) => {
                    tracing::warn!(%address, %error, "metrics are not served, choose an address with --metrics-listen");
                    return Ok(());
                }
            },
        };
        let address = listener.local_addr()?;
        self.address = Some(address);
        tracing::info!(%address, "serving metrics");
        let asked = orchestrator.clone();
        let endpoint = PullEndpoint::new(&self.telemetry, Arc::new(move || asked.available().is_ok()));
        self.tasks.spawn(endpoint.serve(listener, self.exit.clone()));
        Ok(())
    }

    /// Where metrics are read.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Sinks that record, and feed `sinks` as well.
    pub(super) fn observe(&self, sinks: Sinks) -> Sinks {
        observer::beside(&self.observer, sinks)
    }

    /// No request will come any more.
    pub(super) fn drained(&self) {
        self.drained.cancel();
    }

    /// Ends every task. Those that push are given the time that a push may take.
    pub(super) async fn close(mut self) {
        self.drained.cancel();
        self.exit.cancel();
        while self.tasks.join_next().await.is_some() {}
        if let Some(lines) = &self.lines {
            lines.stop();
        }
    }
}

/// Telemetry as configured, with the file's metrics declared and a thread for its lines if they go to the log.
fn record(
    settings: &MetricsSettings,
    tasks: &Arc<Tasks>,
) -> anyhow::Result<(Telemetry, Option<Arc<LogSink>>)> {
    let mut catalogue = CatalogueOptions {
        prefix: settings.prefix,
        ..CatalogueOptions::default()
    };
    let mode = settings.mode();
    if let Some(file) = &settings.file {
        file.choose(&mut catalogue, Some(mode));
    }
    let options = TelemetryOptions {
        off: !settings.enabled,
        catalogue,
        hostname: hostname(),
        log: settings.enabled.then(|| Arc::new(StatsLog::default())),
        ..TelemetryOptions::default()
    };
    let problems = |problems: Vec<_>| {
        let problems: Vec<_> = problems
            .iter()
            .map(omni_telemetry::OptionsError::to_string)
            .collect();
        anyhow::anyhow!("the metrics cannot be set up: {}", problems.join("; "))
    };
    let (telemetry, lines) = if settings.file.is_some() && mode.sinks("").log {
        let (telemetry, sink, writer) = Telemetry::with_line_log(&options).map_err(problems)?;
        tasks.thread("metrics-log", move || {
            if let Err(error) = writer.run(std::io::stderr()) {
                tracing::error!(%error, "metrics lines cannot be written");
            }
        })?;
        (telemetry, Some(sink))
    } else {
        (Telemetry::new(&options).map_err(problems)?, None)
    };
    if let Some(file) = &settings.file {
        file.declare(&CustomMetrics::new(&telemetry, CustomOptions::default()), mode)?;
    }
    Ok((telemetry, lines))
}

/// Tells the log about every interval until `exit`.
async fn tell(log: Arc<StatsLog>, observer: Arc<Observer>, clock: Clock, exit: CancellationToken) {
    let began = clock.now();
    loop {
        tokio::select! {
            () = exit.cancelled() => break,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        observer.look();
        for LogLine { debug, text } in log.lines(clock.now().since(began)) {
            if debug {
                tracing::debug!("{text}");
            } else {
                tracing::info!("{text}");
            }
        }
    }
}
