//! Tells the local network where Wyoming is spoken, by mDNS and DNS-SD, so that Home Assistant finds it by itself.

use std::net::SocketAddr;
use std::time::Duration;

use mdns_sd::{ServiceDaemon, ServiceInfo};
use omni_core::id::random_u64;

/// Service type that Home Assistant discovers.
const SERVICE: &str = "_wyoming._tcp.local.";
/// Time in which the network may be told that the service is gone.
const FAREWELL: Duration = Duration::from_millis(400);

/// An announcement, which is answered for by a thread of its own until it is withdrawn.
pub(super) struct Announcement {
    daemon: ServiceDaemon,
    /// The full name of the service.
    name: String,
}

impl Announcement {
    /// Announces the service at this address under a name; at every address of the machine if it listens on all. A network that takes no
    /// announcements costs a line in the log.
    pub(super) fn new(name: &str, address: SocketAddr) -> Option<Self> {
        match Self::announced(name, address) {
            Ok(announcement) => {
                tracing::info!(name, %address, "zeroconf announcing");
                Some(announcement)
            }
            Err(error) => {
                tracing::warn!(name, %address, %error, "zeroconf failed");
                None
            }
        }
    }

    fn announced(name: &str, address: SocketAddr) -> mdns_sd::Result<Self> {
        // A host of its own, whose addresses are this service's alone.
        let host = format!("omni-{:08x}.local.", random_u64() as u32);
        let everywhere = address.ip().is_unspecified();
        let addresses = (!everywhere).then(|| address.ip());
        let addresses: Vec<_> = addresses.into_iter().collect();
        let info = ServiceInfo::new(SERVICE, name, &host, &addresses[..], address.port(), None)?;
        let info = if everywhere { info.enable_addr_auto() } else { info };
        let name = info.get_fullname().to_owned();
        let daemon = ServiceDaemon::new()?;
        daemon.register(info)?;
        Ok(Self { daemon, name })
    }

    /// Tells the network that the service is gone, and ends the thread.
    pub(super) async fn withdraw(self) {
        let said = tokio::task::spawn_blocking(move || {
            if let Ok(gone) = self.daemon.unregister(&self.name) {
                let _ = gone.recv_timeout(FAREWELL);
            }
            if let Ok(ended) = self.daemon.shutdown() {
                let _ = ended.recv_timeout(FAREWELL);
            }
        });
        let _ = said.await;
    }
}
