//! Probes and figures of a stage over HTTP, in plaintext: `/live`, `/health` and `/metrics`.
//!
//! The server is not that of Dynamo's runtime: that one stops when discovery is lost, and a liveness probe would then
//! end stages that work. It also has routes that change things.

use std::fmt;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use dynamo_runtime::DistributedRuntime;
use dynamo_runtime::metrics::{MetricsHierarchy as _, MetricsRegistry};
use omni_pipeline::connector::Peers;
use omni_server::app::{StageListener, StageMember};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The content type of Prometheus' text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Source of a stage's probes and figures. Clones share it.
#[derive(Clone)]
pub struct Probes(Arc<Shared>);

struct Shared {
    listener: StageListener,
    stage: &'static str,
    registered: Mutex<Registered>,
}

/// Current or last registration of the stage.
#[derive(Default)]
struct Registered {
    /// `true` while discovery lists the stage.
    now: bool,
    last: Option<Registration>,
}

struct Registration {
    replica: u32,
    peers: Peers,
    runtime: MetricsRegistry,
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes")
            .field("stage", &self.0.stage)
            .finish_non_exhaustive()
    }
}

impl Probes {
    /// Probes of a stage that is not registered yet.
    pub fn new(member: &StageMember) -> Self {
        Self(Arc::new(Shared {
            listener: member.listener().clone(),
            stage: member.stage(),
            registered: Mutex::default(),
        }))
    }

    /// Serves them at `address` until the returned set is dropped.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn serve(&self, address: SocketAddr) -> anyhow::Result<JoinSet<()>> {
        let bound = TcpListener::bind(address).await;
        let listener = bound.with_context(|| format!("--cluster-probes {address}"))?;
        tracing::info!(address = %listener.local_addr()?, "serving probes");
        let health = self.clone();
        let metrics = self.clone();
        let routes = Router::new()
            .route("/live", get(async || "the process answers\n"))
            .route("/health", get(async move || health.health()))
            .route("/metrics", get(async move || metrics.metrics()));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            if let Err(error) = axum::serve(listener, routes).await {
                tracing::warn!(%error, "probe server failed");
            }
        });
        Ok(serving)
    }

    /// The stage is registered as `replica` with `runtime`, and reaches `peers`.
    pub fn registered(&self, replica: u32, runtime: &DistributedRuntime, peers: &Peers) {
        *self.lock() = Registered {
            now: true,
            last: Some(Registration {
                replica,
                peers: peers.clone(),
                runtime: runtime.get_metrics_registry().clone(),
            }),
        };
    }

    /// Discovery no longer lists the stage.
    pub fn unregistered(&self) {
        self.lock().now = false;
    }

    fn health(&self) -> impl IntoResponse + use<> {
        if self.lock().now {
            (StatusCode::OK, "registered\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not registered\n")
        }
    }

    fn metrics(&self) -> impl IntoResponse + use<> {
        ([(header::CONTENT_TYPE, TEXT_FORMAT)], self.page())
    }

    /// The figures of the stage behind those of Dynamo's runtime.
    fn page(&self) -> String {
        let Shared { listener, stage, .. } = &*self.0;
        let registered = self.lock();
        let Some(Registration {
            replica,
            peers,
            runtime,
        }) = &registered.last
        else {
            return String::new();
        };
        let stats = listener.stats();
        let links = peers.counts();
        let all: [(&str, &str, f64); 12] = [
            ("running", "gauge", f64::from(stats.running)),
            ("waiting", "gauge", f64::from(stats.waiting)),
            ("kv_usage_ratio", "gauge", stats.kv_usage),
            ("front_ends", "gauge", listener.connections() as f64),
            ("steps_total", "counter", stats.steps as f64),
            ("busy_seconds_total", "counter", stats.busy.as_secs_f64()),
            ("prefill_tokens_total", "counter", stats.prefill_tokens as f64),
            ("decode_tokens_total", "counter", stats.decode_tokens as f64),
            ("late_chunks_total", "counter", stats.late as f64),
            ("links", "gauge", links.links as f64),
            ("linked_sequences_total", "counter", links.linked as f64),
            ("relayed_sequences_total", "counter", links.relayed as f64),
        ];
        let mut page = runtime.prometheus_expfmt_combined().unwrap_or_else(|error| {
            tracing::warn!(%error, "metrics of Dynamo's runtime unavailable");
            String::new()
        });
        for (name, kind, value) in all {
            let family = format!("omni_stage_{name}");
            // Writing to a string does not fail.
            let _ = writeln!(
                page,
                "# TYPE {family} {kind}\n{family}{{stage_name=\"{stage}\",replica=\"{replica}\"}} {value}"
            );
        }
        page
    }

    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.0.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
