//! The listener for Wyoming, which opens when the model is ready: its clients take an error for the end of a pipeline, and try again where
//! nothing listens.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use omni_config::WyomingSettings;
use omni_core::drain::Phases;
use omni_wyoming::Wyoming;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::bind::{refused, reserve};
use super::readiness::Readiness;
use super::zeroconf::Announcement;

/// Time in which connections may close.
const CLOSING: Duration = Duration::from_secs(1);
/// As errors call it, and the flag that names its address.
const WHOM: &str = "Wyoming";
const FLAG: &str = "--wyoming";
/// Connections that wait to be accepted, as Tokio has it.
const BACKLOG: u32 = 1_024;

/// True if the port is open, or why it cannot be; none while the model loads.
type Opened = Option<Result<(), String>>;

/// The listener.
#[derive(Debug)]
pub(super) struct WyomingListener {
    address: SocketAddr,
    close: CancellationToken,
    opened: watch::Receiver<Opened>,
    task: JoinHandle<()>,
}

impl WyomingListener {
    /// Takes the port at once, and listens when the model is ready. The network is told that the service is gone when the server leaves.
    pub(super) fn start(
        settings: &WyomingSettings,
        wyoming: Wyoming,
        mut readiness: watch::Receiver<Readiness>,
        phases: Phases,
    ) -> anyhow::Result<Self> {
        let wanted = settings.listen;
        let socket = reserve(WHOM, FLAG, wanted)?;
        let address = socket.local_addr()?;
        let (opening, opened) = watch::channel(None);
        let close = CancellationToken::new();
        let closing = close.clone();
        let name = settings.zeroconf.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = closing.cancelled() => return,
                ready = readiness.wait_for(|state| *state == Readiness::Ready) => if ready.is_err() { return },
            }
            let listener = match socket.listen(BACKLOG) {
                Ok(listener) => listener,
                Err(error) => {
                    let problem = refused(WHOM, FLAG, address, &error);
                    opening.send_replace(Some(Err(problem.to_string())));
                    return;
                }
            };
            tracing::info!(%address, "Wyoming listening");
            let announcement = name.and_then(|name| Announcement::new(&name, address));
            opening.send_replace(Some(Ok(())));
            let withdrawn = async {
                phases.leaving().await;
                if let Some(announcement) = announcement {
                    announcement.withdraw().await;
                }
            };
            let served = wyoming.serve(listener, &phases, closing.cancelled());
            tokio::join!(served, withdrawn);
        });
        Ok(Self {
            address,
            close,
            opened,
            task,
        })
    }

    /// The address at which it listens, or will.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until it listens, once the model is ready.
    pub(super) async fn listens(&mut self) -> anyhow::Result<()> {
        let opened = self.opened.wait_for(Option::is_some).await;
        let opened = opened.context("the listener for Wyoming ended early")?;
        match opened.as_ref() {
            Some(Err(problem)) => anyhow::bail!("{problem}"),
            Some(Ok(())) | None => Ok(()),
        }
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
