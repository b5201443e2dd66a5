//! Health service: NOT_SERVING until the model is warm, whenever a stage has no replica in service, and from the
//! beginning of a shutdown; for conversations also if the model has none. Taking callers' metrics needs no model, and
//! operators and watchers are served to the end.

use omni_core::drain::Phases;
use omni_core::orchestrator::Orchestrator;
use omni_grpc::{
    ADMIN_SERVICE_NAME, CHAT_SERVICE_NAME, METRICS_SERVICE_NAME, SERVICE_NAMES, WATCH_SERVICE_NAME,
};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::{HealthReporter, health_reporter};

/// The health that callers of `grpc.health.v1.Health` see.
pub(super) struct HealthBoard {
    reporter: HealthReporter,
    /// Reporter of the admin port.
    operators: HealthReporter,
    phases: Phases,
    takes_metrics: bool,
}

impl HealthBoard {
    /// Starts as NOT_SERVING for the whole server and every service. (The reporter itself begins with SERVING for
    /// "".) Each port reports its own services: the first is for callers, the second for operators.
    pub(super) async fn new(
        phases: Phases,
        (takes_metrics, shows_work): (bool, bool),
    ) -> (Self, HealthServer<impl Health>, HealthServer<impl Health>) {
        let (reporter, callers) = health_reporter();
        let (operators, served) = health_reporter();
        let serving = ServingStatus::Serving;
        operators.set_service_status(ADMIN_SERVICE_NAME, serving).await;
        if shows_work {
            reporter.set_service_status(WATCH_SERVICE_NAME, serving).await;
        }
        let board = Self {
            reporter,
            operators,
            phases,
            takes_metrics,
        };
        board.set(false, false).await;
        (board, callers, served)
    }

    /// Its end: cancelled when nothing more is reported.
    pub(super) fn end(&self) -> HealthEnd {
        HealthEnd([self.reporter.clone(), self.operators.clone()])
    }

    /// Reports.
    pub(super) async fn update(&self, orchestrator: &Orchestrator) {
        let speaks = orchestrator.available().is_ok();
        let converses = orchestrator.chat_available().is_ok();
        let stays = !self.phases.is_leaving();
        self.set(speaks && stays, converses && stays).await;
    }

    async fn set(&self, speaks: bool, converses: bool) {
        let status = |serving| {
            if serving {
                ServingStatus::Serving
            } else {
                ServingStatus::NotServing
            }
        };
        for service in SERVICE_NAMES.into_iter().chain([""]) {
            self.reporter.set_service_status(service, status(speaks)).await;
        }
        self.reporter
            .set_service_status(CHAT_SERVICE_NAME, status(converses))
            .await;
        self.operators.set_service_status("", status(speaks)).await;
        if self.takes_metrics {
            let takes = status(!self.phases.is_leaving());
            self.reporter
                .set_service_status(METRICS_SERVICE_NAME, takes)
                .await;
        }
    }

    /// Reports every change, until the server drains.
    pub(super) async fn follow(&self, orchestrator: &Orchestrator) {
        let Ok(model) = orchestrator.model() else {
            return;
        };
        let mut changes = model.pipeline.changes().follow();
        loop {
            self.update(orchestrator).await;
            tokio::select! {
                () = self.phases.leaving() => return self.set(false, false).await,
                changed = changes.changed() => if changed.is_err() { return self.set(false, false).await },
            }
        }
    }
}

/// Lets those go that follow the report of a server that is closing: their calls would keep connections open.
#[derive(Debug)]
pub(super) struct HealthEnd([HealthReporter; 2]);

impl HealthEnd {
    /// No status follows.
    pub(super) async fn now(&mut self) {
        let services = [CHAT_SERVICE_NAME, METRICS_SERVICE_NAME, WATCH_SERVICE_NAME, ""];
        for reporter in &mut self.0 {
            for service in SERVICE_NAMES.into_iter().chain(services) {
                reporter.clear_service_status(service).await;
            }
        }
    }
}
