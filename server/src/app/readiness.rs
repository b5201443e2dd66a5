//! How far the model of a server is.

use anyhow::Context as _;
use omni_pipeline::clock::Clock;

use super::App;

/// Whether the model is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Readiness {
    Loading,
    /// It is read, and its stages are being built.
    Loaded,
    Ready,
    Failed(String),
}

impl App {
    /// Waits until the model is warm.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub async fn ready(&mut self) -> anyhow::Result<()> {
        self.reached(|state| *state == Readiness::Ready).await
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
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }
}
