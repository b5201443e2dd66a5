//! Readiness of a server's model.

use anyhow::Context as _;
use omni_core::orchestrator::Orchestrator;
use omni_pipeline::clock::Clock;
use omni_pipeline::orchestrator::StageError;
use omni_pipeline::stage::{ReplicaState, ReplicaView};

use super::App;

/// State of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Readiness {
    Loading,
    /// It is read, and its stages are being built.
    Loaded,
    Ready,
    Failed(String),
}

impl App {
    /// Waits until the model is warm, and every port is open.
    ///
    /// # Errors
    /// If it cannot be loaded, or a port cannot be opened.
    pub async fn ready(&mut self) -> anyhow::Result<()> {
        self.reached(|state| *state == Readiness::Ready).await?;
        match &mut self.wyoming {
            Some(wyoming) => wyoming.listens().await,
            None => Ok(()),
        }
    }

    /// Waits until the model is read and its pools are there, to which replicas can be added.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub async fn loaded(&mut self) -> anyhow::Result<()> {
        self.reached(|state| *state != Readiness::Loading).await
    }

    async fn reached(&mut self, wanted: impl Fn(&Readiness) -> bool) -> anyhow::Result<()> {
        let settled = |state: &Readiness| wanted(state) || matches!(state, Readiness::Failed(_));
        let state = self.readiness.wait_for(settled).await;
        match &*state.context("the loading task ended early")? {
            Readiness::Failed(message) => anyhow::bail!("{message}"),
            Readiness::Ready | Readiness::Loaded | Readiness::Loading => Ok(()),
        }
    }

    /// The time that its stages have.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }
}

/// Resolves when no replica of a stage that speech needs can work again in this process: each has failed for good, because its device is lost or
/// because its model could not be loaded when it was added, or is leaving. A cordoned one that works counts. A new process may be able to
/// speak. Before there is a model it waits.
pub(super) async fn failed_for_good(orchestrator: &Orchestrator) -> anyhow::Error {
    let Ok(model) = orchestrator.model() else {
        return std::future::pending().await;
    };
    let pipeline = &model.pipeline;
    let mut changes = pipeline.changes().follow();
    loop {
        if let Err(error @ StageError::Failed { stage, .. }) = &pipeline.check_speech()
            && let Some(pool) = pipeline.pool(stage)
            && !pool.replicas().iter().any(is_usable)
        {
            return anyhow::Error::new(error.clone()).context("a stage has failed for good");
        }
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// True if it works, or may work again.
fn is_usable(replica: &ReplicaView) -> bool {
    !replica.leaving && !matches!(replica.state, ReplicaState::Failed { .. } | ReplicaState::Removed)
}
