//! Dynamo's runtime for one part.

use std::path::Path;

use anyhow::Context as _;
use dynamo_runtime::discovery::EventTransportKind;
use dynamo_runtime::distributed::{DiscoveryBackend, DistributedConfig, RequestPlaneMode};
use dynamo_runtime::storage::kv::Selector;
use dynamo_runtime::transports::etcd::ClientOptions;
use dynamo_runtime::{DistributedRuntime, Runtime};

use crate::settings::{Found, Network};

/// Whether a part is found by others, or only looks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It registers itself, and is taken for dead when it no longer says that it lives.
    Registered,
    /// It looks.
    Looking,
}

/// Sets what the runtime reads of the environment, and nothing else counts. Called before any thread is started.
pub fn set_environment(network: &Network) {
    let inherited: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in inherited
        .iter()
        .filter(|name| name.as_encoded_bytes().starts_with(b"DYN_"))
    {
        // SAFETY: no other thread runs yet that could read the environment meanwhile.
        #[expect(unsafe_code, reason = "a variable may open a server that no flag asked for")]
        unsafe {
            std::env::remove_var(name);
        }
    }
    for (name, value) in network.environment() {
        // SAFETY: no other thread runs yet that could read the environment meanwhile.
        #[expect(unsafe_code, reason = "Dynamo's runtime reads these settings nowhere else")]
        unsafe {
            std::env::set_var(name, value);
        }
    }
}

/// A connection to the others.
///
/// # Errors
/// If discovery cannot be reached.
pub async fn connect(network: &Network, presence: Presence) -> anyhow::Result<DistributedRuntime> {
    let runtime = Runtime::from_current()?;
    let config = DistributedConfig {
        discovery_backend: backend(&network.found, presence)?,
        nats_config: None,
        request_plane: RequestPlaneMode::Tcp,
        response_plane: None,
        event_transport_kind: EventTransportKind::Zmq,
    };
    DistributedRuntime::new(runtime, config)
        .await
        .with_context(|| format!("the other parts cannot be found by {}", described(&network.found)))
}

fn backend(found: &Found, presence: Presence) -> anyhow::Result<DiscoveryBackend> {
    Ok(match found {
        Found::File(folder) => {
            make(folder)?;
            DiscoveryBackend::KvStore(Selector::File(folder.clone()))
        }
        Found::Etcd(urls) => {
            let options = ClientOptions {
                etcd_url: urls.clone(),
                // The runtime stops when a lease is lost. A front end has none to lose.
                attach_lease: presence == Presence::Registered,
                ..ClientOptions::default()
            };
            DiscoveryBackend::KvStore(Selector::Etcd(Box::new(options)))
        }
        Found::Kubernetes => DiscoveryBackend::Kubernetes,
    })
}

fn make(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("--cluster-dir {}", folder.display()))
}

fn described(found: &Found) -> String {
    match found {
        Found::File(folder) => format!("files in {}", folder.display()),
        Found::Etcd(urls) => format!("etcd at {}", urls.join(", ")),
        Found::Kubernetes => "the API of Kubernetes".to_owned(),
    }
}
