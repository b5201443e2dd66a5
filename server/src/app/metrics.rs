//! The metrics of a server: sinks that record, and the tasks that publish.
//!
//! In: the settings, the orchestrator, further sinks to feed. Out: sinks for the server's events, and the tasks for pull, push and the
//! log, which end with [`Metrics::drained`] and [`Metrics::close`].

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use omni_telemetry::{
    Admission, CertificateInstrument, ConnectionInstruments, CustomMetrics, CustomOptions, Exposition,
    HostCheck, HttpInstruments, LineFormat, Listener, LogLine, LogSink, OptionsError, Protocol,
    ProtocolInstruments, PullEndpoint, PullGuard, PushOptions, Pusher, StatsLog, Telemetry, TelemetryOptions,
    TlsSource, VoiceInstruments, collect_system,
};

use ::http as http_types;
use anyhow::Context as _;
use omni_config::{AllowedHosts, LogFormat, MetricsListen, MetricsSettings, Scope, hostname};
use omni_core::drain::Phases;
use omni_core::orchestrator::Orchestrator;
use omni_core::tasks::Tasks;
use omni_grpc::{CountCalls, Measurements};
use omni_pipeline::clock::Clock;
use omni_transport::{Hosts, Keys, Tls};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::bind::bind;
use super::records::Sinks;

mod account;
mod bridge;
mod engines;
mod http;
mod list;
mod live;

use bridge::BridgeCollector;
pub(super) use bridge::{MetricsBridge, let_go, listen};
pub use list::{list_metrics, metrics_catalogue};

/// A server's instruments, and the tasks that publish them.
#[derive(derive_more::Debug)]
#[debug("Metrics {{ .. }}")]
pub(super) struct Metrics {
    telemetry: Telemetry,
    custom: Arc<CustomMetrics>,
    /// True if callers may record metrics of their own.
    service: bool,
    bridge: Arc<MetricsBridge>,
    lines: Option<Arc<LogSink>>,
    address: Option<SocketAddr>,
    tasks: JoinSet<()>,
    /// TLS and keys for scrapers; unset until the server has read them.
    guard: Arc<OnceLock<PullGuard>>,
    /// Use of TLS, and of keys, for scraping.
    guarded: (bool, bool),
    drained: CancellationToken,
    exit: CancellationToken,
}

impl Metrics {
    /// Starts recording and serves the metrics.
    pub(super) async fn start(
        settings: &MetricsSettings,
        (orchestrator, phases): (&Orchestrator, &Phases),
        tasks: &Arc<Tasks>,
        clock: Clock,
        (max_active, format): (usize, LogFormat),
    ) -> anyhow::Result<Self> {
        let (telemetry, custom, lines) = record(settings, tasks, format)?;
        let bridge = Arc::new(MetricsBridge::new(
            telemetry.clone(),
            orchestrator.clone(),
            max_active,
            clock,
        ));
        let exposition = telemetry.exposition();
        exposition.collect_from(Arc::new(BridgeCollector(Arc::downgrade(&bridge))));
        collect_system(exposition, telemetry.meter());
        let mut metrics = Self {
            telemetry,
            custom: Arc::new(custom),
            service: settings.service,
            bridge,
            lines,
            address: None,
            tasks: JoinSet::new(),
            guard: Arc::default(),
            guarded: (settings.tls, settings.keys),
            drained: CancellationToken::new(),
            exit: CancellationToken::new(),
        };
        if let Err(error) = metrics.pull(settings.listen, orchestrator, phases.clone()).await {
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
            let bridge = Arc::clone(&metrics.bridge);
            let times = (settings.log_interval, settings.log_tables);
            metrics
                .tasks
                .spawn(log_stats(log, bridge, clock, times, metrics.exit.clone()));
        }
        if metrics.lines.is_some() {
            let exposition = Arc::clone(metrics.telemetry.exposition());
            metrics
                .tasks
                .spawn(collect(exposition, settings.look_interval, metrics.exit.clone()));
        }
        Ok(metrics)
    }

    fn push(&mut self, options: &PushOptions) -> anyhow::Result<()> {
        let pusher = Pusher::new(&self.telemetry, options.clone()).context("cannot push metrics")?;
        self.tasks
            .spawn(pusher.run(self.drained.clone(), self.exit.clone()));
        Ok(())
    }

    async fn pull(
        &mut self,
        listen: MetricsListen,
        orchestrator: &Orchestrator,
        phases: Phases,
    ) -> anyhow::Result<()> {
        let MetricsListen::At(wanted) = listen else {
            return Ok(());
        };
        let listener = bind("metrics", "--metrics-listen", wanted)
            .await
            .context("(--metrics-listen off serves none)")?;
        let address = listener.local_addr()?;
        self.address = Some(address);
        tracing::info!(%address, "metrics and probes");
        let asked = orchestrator.clone();
        let ready = Arc::new(move || asked.available().is_ok() && !phases.is_leaving());
        let endpoint = PullEndpoint::new(&self.telemetry, ready).guarded(Arc::clone(&self.guard));
        self.tasks.spawn(endpoint.serve(listener, self.exit.clone()));
        Ok(())
    }

    /// Serves scrapers from now on, with this certificate and for these keys if the settings ask for them. Of the hosts that they name,
    /// those of `names` are answered.
    ///
    /// # Errors
    /// If they ask for a certificate or keys that the server does not have.
    pub(super) fn open(
        &self,
        tls: Option<&Tls>,
        (keys, has_keys): (&Keys, bool),
        names: AllowedHosts,
    ) -> anyhow::Result<()> {
        let (encrypted, keyed) = self.guarded;
        anyhow::ensure!(
            !keyed || has_keys,
            "--metrics-keys: there are no keys, add --api-keys"
        );
        let tls: Option<TlsSource> = match (encrypted, tls.cloned()) {
            (false, _) => None,
            (true, Some(tls)) => Some(Arc::new(move || tls.config())),
            (true, None) => {
                anyhow::bail!("--metrics-tls: there is no certificate, add --tls-cert and --tls-key")
            }
        };
        let keys = keys.clone();
        let admits: Option<Admission> = keyed.then(|| {
            let admits = move |headers: &http_types::HeaderMap| {
                let extensions = http_types::Extensions::new();
                keys.allow(headers, &extensions, Some(Scope::Metrics)).is_ok()
            };
            Arc::new(admits) as Admission
        });
        let hosts = self.address.map(|address| Hosts::new(names, address.ip(), keyed));
        let hosts: Option<HostCheck> = hosts.map(|hosts| {
            let answers = move |version, uri: &_, headers: &_, local| {
                let checked = hosts.allow(version, uri, headers, local);
                checked.map_err(|error| (error.status(), error.to_string()))
            };
            Arc::new(answers) as HostCheck
        });
        self.guard.get_or_init(|| PullGuard { tls, admits, hosts });
        Ok(())
    }

    /// The address at which metrics are read.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The layer that counts calls.
    pub(super) fn calls(&self) -> anyhow::Result<CountCalls> {
        CountCalls::new(self.telemetry.meter()).context("the descriptors of the services cannot be read")
    }

    /// Counts the calls of these routes.
    pub(super) fn routes(&self, routes: axum::Router) -> axum::Router {
        http::counted(routes, HttpInstruments::new(self.telemetry.meter()))
    }

    /// Instruments for the connections of a port.
    pub(super) fn connections(&self, listener: Listener) -> Arc<ConnectionInstruments> {
        Arc::new(ConnectionInstruments::new(self.telemetry.meter(), listener))
    }

    /// Instruments for the requests of a protocol that counts none itself.
    pub(super) fn requests(&self, protocol: Protocol) -> ProtocolInstruments {
        ProtocolInstruments::new(self.telemetry.meter(), protocol)
    }

    /// The instrument for the expiry of the certificate.
    pub(super) fn certificate(&self) -> CertificateInstrument {
        CertificateInstrument::new(self.telemetry.meter())
    }

    /// The instruments for voices.
    pub(super) fn voices(&self) -> Arc<VoiceInstruments> {
        Arc::new(VoiceInstruments::new(self.telemetry.meter()))
    }

    /// The service that records metrics of callers until `stop`.
    pub(super) fn measurements(&self, stop: &CancellationToken) -> Measurements {
        if self.service {
            Measurements::on(Arc::clone(&self.custom), stop.clone())
        } else {
            Measurements::off()
        }
    }

    /// The recorder and the exposition.
    pub(super) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Bridge for starting the model.
    pub(super) fn bridge(&self) -> Arc<MetricsBridge> {
        Arc::clone(&self.bridge)
    }

    /// Sinks that record and feed `sinks`.
    pub(super) fn observe(&self, sinks: Sinks) -> Sinks {
        bridge::fan_out(&self.bridge, sinks)
    }

    /// The last request has ended.
    pub(super) fn drained(&self) {
        self.drained.cancel();
    }

    /// Joins every task. The last push has the time that a push may take.
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
    format: LogFormat,
) -> anyhow::Result<(Telemetry, CustomMetrics, Option<Arc<LogSink>>)> {
    let options = TelemetryOptions {
        off: !settings.enabled,
        catalogue: settings.catalogue.clone(),
        hostname: hostname(),
        lines: match format {
            LogFormat::Text => LineFormat::Text,
            LogFormat::Json => LineFormat::Json,
        },
        log: settings.enabled.then(Arc::default),
        ..TelemetryOptions::default()
    };
    let logs = settings.enabled && settings.catalogue.mode.sinks("").log;
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
        sinks: settings.catalogue.mode.sinks(""),
        ..CustomOptions::default()
    };
    let custom = CustomMetrics::new(&telemetry, custom);
    if let Some(file) = &settings.file
        && let Err(error) = file.declare(&custom, settings.catalogue.mode)
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

/// Ends the thread that writes metric lines.
fn stop(lines: Option<&Arc<LogSink>>) {
    if let Some(lines) = lines {
        lines.stop();
    }
}

/// Collects at intervals, so that gauges reach the log without a scraper.
async fn collect(exposition: Arc<Exposition>, interval: Duration, exit: CancellationToken) {
    loop {
        // Files of the kernel are read, which is not for the runtime's threads.
        let looked = Arc::clone(&exposition);
        if let Err(error) = tokio::task::spawn_blocking(move || looked.collect()).await {
            tracing::error!(%error, "collecting the metrics failed");
        }
        tokio::select! {
            () = exit.cancelled() => break,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

/// Logs the statistics of every interval until `exit`.
async fn log_stats(
    log: Arc<StatsLog>,
    bridge: Arc<MetricsBridge>,
    clock: Clock,
    (interval, tables): (Duration, bool),
    exit: CancellationToken,
) {
    let began = clock.now();
    loop {
        tokio::select! {
            () = exit.cancelled() => break,
            () = tokio::time::sleep(interval) => {}
        }
        bridge.collect();
        bridge.log(&log.throughput(clock.now().since(began)));
        for LogLine { debug, text } in log.lines(tables) {
            if debug {
                tracing::debug!("{text}");
            } else {
                tracing::info!("{text}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Looked(AtomicUsize);

    impl omni_telemetry::Collector for Looked {
        fn collect(&self) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    #[tokio::test]
    async fn gauges_are_collected_without_a_scraper() {
        let telemetry = Telemetry::new(&TelemetryOptions::default()).expect("good options");
        let looked = Arc::new(Looked::default());
        telemetry.exposition().collect_from(Arc::clone(&looked) as _);
        let exit = CancellationToken::new();
        let collecting = collect(
            Arc::clone(telemetry.exposition()),
            Duration::from_millis(1),
            exit.clone(),
        );
        let collecting = tokio::spawn(collecting);
        while looked.0.load(Ordering::Acquire) < 3 {
            tokio::task::yield_now().await;
        }
        exit.cancel();
        collecting.await.expect("it ends on exit");
    }
}
