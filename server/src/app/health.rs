//! The health report: NOT_SERVING until the model is warm, whenever a stage has no replica that takes work, and while draining;
//! for conversations also if the model holds none. Taking metrics of callers needs no model, and operators are served to the end.

use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::{HealthReporter, health_reporter};

use crate::grpc::{ADMIN_SERVICE_NAME, CHAT_SERVICE_NAME, METRICS_SERVICE_NAME, SERVICE_NAMES};
use crate::orchestrator::Orchestrator;

/// What callers of `grpc.health.v1.Health` see.
pub(super) struct HealthBoard {
    reporter: HealthReporter,
    draining: CancellationToken,
    takes_metrics: bool,
}

impl HealthBoard {
    /// NOT_SERVING for the whole server and every service. (The reporter itself begins with SERVING for "".)
    pub(super) async fn new(
        draining: CancellationToken,
        takes_metrics: bool,
        serves_operators: bool,
    ) -> (Self, HealthServer<impl Health>) {
        let (reporter, server) = health_reporter();
        if serves_operators {
            let serving = ServingStatus::Serving;
            reporter.set_service_status(ADMIN_SERVICE_NAME, serving).await;
        }
        let board = Self {
            reporter,
            draining,
            takes_metrics,
        };
        board.set(false, false).await;
        (board, server)
    }

    /// Who ends it.
    pub(super) fn end(&self) -> HealthEnd {
        HealthEnd(self.reporter.clone())
    }

    /// Reports.
    pub(super) async fn update(&self, orchestrator: &Orchestrator) {
        let (speaks, converses) = (
            orchestrator.available().is_ok(),
            orchestrator.chat_available().is_ok(),
        );
        self.set(speaks, converses).await;
    }

    async fn set(&self, speaks: bool, converses: bool) {
        let status = |serving| match serving {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        for service in SERVICE_NAMES.into_iter().chain([""]) {
            self.reporter.set_service_status(service, status(speaks)).await;
        }
        self.reporter
            .set_service_status(CHAT_SERVICE_NAME, status(converses))
            .await;
        let takes_metrics = self.takes_metrics && !self.draining.is_cancelled();
        self.reporter
            .set_service_status(METRICS_SERVICE_NAME, status(takes_metrics))
            .await;
    }

    /// Reports every change, until the server drains.
    pub(super) async fn follow(&self, orchestrator: &Orchestrator) {
        let Ok(pipeline) = orchestrator.model() else {
            return;
        };
        let mut changes = pipeline.changes.follow();
        loop {
            self.update(orchestrator).await;
            tokio::select! {
                () = self.draining.cancelled() => return self.set(false, false).await,
                changed = changes.changed() => if changed.is_err() { return self.set(false, false).await },
            }
        }
    }
}

/// Lets those go who follow the report of a server that is closing: their calls would keep connections open.
#[derive(Debug)]
pub(super) struct HealthEnd(HealthReporter);

impl HealthEnd {
    /// Nobody follows any more.
    pub(super) async fn now(&mut self) {
        let services = [CHAT_SERVICE_NAME, METRICS_SERVICE_NAME, ""];
        for service in SERVICE_NAMES.into_iter().chain(services) {
            self.0.clear_service_status(service).await;
        }
    }
}
