//! Dynamo's runtime for one part.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use dynamo_runtime::discovery::EventTransportKind;
use dynamo_runtime::distributed::{DiscoveryBackend, DistributedConfig, RequestPlaneMode};
use dynamo_runtime::storage::kv::Selector;
use dynamo_runtime::transports::etcd::ClientOptions;
use dynamo_runtime::{DistributedRuntime, Runtime};
use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};

use crate::settings::{Etcd, EtcdTls, Found, Network};

/// Keep-alive interval of etcd's connections while something is expected of it, and its timeout: otherwise a
/// connection that is gone silently is never noticed. Asked more often, etcd closes the connection.
const ETCD_KEEPALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));

/// Presence of a part in discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Registers itself, and counts as dead when its lease expires.
    Registered,
    /// It looks.
    Looking,
}

/// Prefixes of the variables that the runtime would read.
const READ: [&[u8]; 2] = [b"DYN_", b"ETCD_"];

/// Sets the environment variables that the runtime reads. Called before any thread is started.
pub fn set_environment(network: &Network) {
    let inherited: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    let read = |name: &&OsString| {
        let name = name.as_encoded_bytes();
        READ.iter().any(|beginning| name.starts_with(beginning))
    };
    for name in inherited.iter().filter(read) {
        // SAFETY: no other thread is running that could read the environment.
        #[expect(unsafe_code, reason = "a variable may open a server that no flag asked for")]
        unsafe {
            std::env::remove_var(name);
        }
    }
    for (name, value) in network.environment() {
        // SAFETY: no other thread is running that could read the environment.
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
        Found::Etcd(etcd) => {
            let options = ClientOptions {
                etcd_url: etcd.urls.clone(),
                etcd_connect_options: Some(connect_options(etcd)?),
                // The runtime stops when a lease is lost. A front end has none to lose.
                attach_lease: presence == Presence::Registered,
                ..ClientOptions::default()
            };
            DiscoveryBackend::KvStore(Selector::Etcd(Box::new(options)))
        }
        Found::Kubernetes => DiscoveryBackend::Kubernetes,
    })
}

fn connect_options(etcd: &Etcd) -> anyhow::Result<ConnectOptions> {
    let (interval, timeout) = ETCD_KEEPALIVE;
    let options = ConnectOptions::new()
        .with_keep_alive(interval, timeout)
        .with_keep_alive_while_idle(false);
    let Some(EtcdTls { ca, identity }) = &etcd.tls else {
        return Ok(options);
    };
    let read = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
    let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read(ca)?));
    if let Some((cert, key)) = identity {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(options.with_tls(tls))
}

fn make(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("--cluster-dir {}", folder.display()))
}

fn described(found: &Found) -> String {
    match found {
        Found::File(folder) => format!("files in {}", folder.display()),
        Found::Etcd(etcd) => format!("etcd at {}", etcd.urls.join(", ")),
        Found::Kubernetes => "the API of Kubernetes".to_owned(),
    }
}
