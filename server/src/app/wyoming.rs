//! The listener for Wyoming.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::bind::bind;
use crate::wyoming::Wyoming;

/// How long connections may take to close.
const CLOSING: Duration = Duration::from_secs(1);

/// The listener.
#[derive(Debug)]
pub(super) struct WyomingListener {
    address: SocketAddr,
    close: CancellationToken,
    task: JoinHandle<()>,
}

impl WyomingListener {
    /// Listens at `wanted`.
    pub(super) async fn start(wanted: SocketAddr, wyoming: Wyoming) -> anyhow::Result<Self> {
        let listener = bind("Wyoming", "--wyoming", wanted).await?;
        let address = listener.local_addr()?;
        tracing::info!(%address, "Wyoming is spoken");
        let close = CancellationToken::new();
        let task = tokio::spawn(wyoming.serve(listener, close.clone().cancelled_owned()));
        Ok(Self { address, close, task })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it.
    pub(super) async fn close(mut self) {
        self.close.cancel();
        if tokio::time::timeout(CLOSING, &mut self.task).await.is_err() {
            self.task.abort();
            let _ = self.task.await;
        }
    }
}
