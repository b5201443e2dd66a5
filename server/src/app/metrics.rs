//! The metrics of a server: what is recorded, and the tasks that let it out.
//!
//! In: the settings, the orchestrator, the sinks that others want fed as well. Out: sinks for everything that tells, and the tasks
//! for pull, push and the log, which end with [`Metrics::drained`] and [`Metrics::close`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use omni_telemetry::{
    CertificateInstrument, ConnectionInstruments, CustomMetrics, CustomOptions, Listener, LogLine, LogSink,
    OptionsError, PullEndpoint, PushOptions, Pusher, StatsLog, Telemetry, TelemetryOptions, collect_system,
};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Sinks;
use crate::clock::Clock;
use crate::config::{MetricsListen, MetricsSettings, hostname};
use crate::grpc::{CountCalls, Measurements};
use crate::orchestrator::Orchestrator;
use crate::tasks::Tasks;

mod account;
mod engines;
mod list;
mod live;
mod observer;

pub use list::{list_metrics, metrics_catalogue};
use observer::Looking;
pub(super) use observer::{Observer, let_go, listen};

/// Time between two lines of statistics.
const INTERVAL: Duration = Duration::from_secs(10);

/// What a server records, and the tasks that let it out.
pub(super) struct Metrics {
    telemetry: Telemetry,
    custom: Arc<CustomMetrics>,
    /// Whether callers may record metrics of their own.
    service: bool,
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
        let (telemetry, custom, lines) = record(settings, tasks)?;
        let observer = Arc::new(Observer::new(telemetry.clone(), orchestrator.clone(), max_active));
        let exposition = telemetry.exposition();
        exposition.collect_from(Arc::new(Looking(Arc::downgrade(&observer))));
        collect_system(exposition, telemetry.meter());
        let mut metrics = Self {
            telemetry,
            custom: Arc::new(custom),
            service: settings.service,
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
        if let Some(options) = &settings.push
            && let Err(error) = metrics.push(options)
        {
            metrics.close().await;
            return Err(error);
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

    fn push(&mut self, options: &PushOptions) -> anyhow::Result<()> {
        let pusher = Pusher::new(&self.telemetry, options.clone()).context("cannot push metrics")?;
        self.tasks
            .spawn(pusher.run(self.drained.clone(), self.exit.clone()));
        Ok(())
    }

    async fn pull(&mut self, listen: MetricsListen, orchestrator: &Orchestrator) -> anyhow::Result<()> {
        let MetricsListen::At(wanted) = listen else {
            return Ok(());
        };
        let listener = TcpListener::bind(wanted).await.with_context(|| {
            format!(
                "cannot serve metrics on {wanted}, which another server may have: choose an address with \
                 --metrics-listen (port 0 takes a free one), or --metrics-listen off"
            )
        })?;
        let address = listener.local_addr()?;
        self.address = Some(address);
        tracing::info!(%address, "metrics and probes");
        let asked = orchestrator.clone();
        let endpoint = PullEndpoint::new(&self.telemetry, Arc::new(move || asked.available().is_ok()));
        self.tasks.spawn(endpoint.serve(listener, self.exit.clone()));
        Ok(())
    }

    /// Where metrics are read.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Who counts the calls.
    pub(super) fn calls(&self) -> anyhow::Result<CountCalls> {
        CountCalls::new(self.telemetry.meter()).context("the descriptors of the services cannot be read")
    }

    /// Who counts the connections of a port.
    pub(super) fn connections(&self, listener: Listener) -> Arc<ConnectionInstruments> {
        Arc::new(ConnectionInstruments::new(self.telemetry.meter(), listener))
    }

    /// Who records until when the certificate is valid.
    pub(super) fn certificate(&self) -> CertificateInstrument {
        CertificateInstrument::new(self.telemetry.meter())
    }

    /// Who takes the metrics of callers, until `stop`.
    pub(super) fn measurements(&self, stop: &CancellationToken) -> Measurements {
        match self.service {
            true => Measurements::on(Arc::clone(&self.custom), stop.clone()),
            false => Measurements::off(),
        }
    }

    /// What it records with.
    pub(super) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// For those who start the model.
    pub(super) fn observer(&self) -> Arc<Observer> {
        Arc::clone(&self.observer)
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
        stop(self.lines.as_ref());
    }
}

/// Telemetry as configured, with the file's metrics declared and a thread for its lines if some go to the log.
fn record(
    settings: &MetricsSettings,
    tasks: &Arc<Tasks>,
) -> anyhow::Result<(Telemetry, CustomMetrics, Option<Arc<LogSink>>)> {
    let options = TelemetryOptions {
        off: !settings.enabled,
        catalogue: settings.catalogue(),
        hostname: hostname(),
        log: settings.enabled.then(Arc::default),
        ..TelemetryOptions::default()
    };
    let logs = settings.enabled && settings.mode.sinks("").log;
    let (telemetry, lines) = if logs {
        let (telemetry, sink, writer) = self::telemetry(Telemetry::with_line_log(&options))?;
        tasks.thread("metrics-log", move || {
            if let Err(error) = writer.run(std::io::stderr()) {
                tracing::error!(%error, "metrics lines cannot be written");
            }
        })?;
        (telemetry, Some(sink))
    } else {
        (self::telemetry(Telemetry::new(&options))?, None)
    };
    let custom = CustomOptions {
        undeclared: settings.undeclared,
        sinks: settings.mode.sinks(""),
        ..CustomOptions::default()
    };
    let custom = CustomMetrics::new(&telemetry, custom);
    if let Some(file) = &settings.file
        && let Err(error) = file.declare(&custom, settings.mode)
    {
        stop(lines.as_ref());
        return Err(error.into());
    }
    Ok((telemetry, custom, lines))
}

/// One error of many.
fn telemetry<T>(made: Result<T, Vec<OptionsError>>) -> anyhow::Result<T> {
    made.map_err(|problems| {
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("the metrics cannot be set up: {}", problems.join("; "))
    })
}

/// Lets the thread that writes lines end.
fn stop(lines: Option<&Arc<LogSink>>) {
    if let Some(lines) = lines {
        lines.stop();
    }
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
