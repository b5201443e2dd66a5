//! The Wyoming protocol, by which Home Assistant and voice satellites ask for speech: events over TCP, each a line of JSON with data
//! and a payload behind it.
//!
//! In: connections. Out: `info` for `describe`, audio for `synthesize` and for the text of `synthesize-start` to `synthesize-stop` as it
//! comes. Recognition is refused. The protocol has neither keys nor encryption: where the server asks for keys, all connections count
//! as one holder of a key. An error ends its connection, because clients wait for the end of audio that never comes.

// Part of a program, and no library for others: items are documented where their names do not say enough.
#![allow(missing_docs)]

mod connection;
mod info;
pub mod parsers;
mod speech;
mod wire;
mod writer;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use omni_config::{ConnectionLimits, Scope, TrustedProxies};
use omni_core::caller::{AuthError, Caller, CallerAddress, Tenant};
use omni_core::drain::Phases;
use omni_core::id::{OnRefused, random_u64};
use omni_services::{Catalog, SpeechService};
use omni_telemetry::{ConnectionInstruments, ProtocolInstruments};
use omni_transport::{ConnectionLimiter, Keys, proxied_caller};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::connection::Connection;

const PROTOCOL: &str = "wyoming";
/// Pause after an error that is not a connection's own, like a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The services that connections are served with, and the settings of the port.
#[derive(Debug)]
pub struct WyomingParts {
    pub speech: SpeechService,
    pub catalog: Catalog,
    pub keys: Keys,
    /// The holder of a key of `keys` that all callers count as.
    pub holder: Option<String>,
    /// The same as of other ports, each port for itself.
    pub limits: ConnectionLimits,
    pub proxies: TrustedProxies,
    pub connections: Arc<ConnectionInstruments>,
    pub requests: ProtocolInstruments,
    pub on_refused: OnRefused,
}

/// The server of the protocol.
#[derive(Debug)]
pub struct Wyoming {
    parts: WyomingParts,
    places: ConnectionLimiter,
    closing: CancellationToken,
}

impl Wyoming {
    pub fn new(parts: WyomingParts) -> Self {
        Self {
            places: ConnectionLimiter::new(parts.limits.connections, parts.limits.per_peer),
            parts,
            closing: CancellationToken::new(),
        }
    }

    /// Serves until `shutdown` resolves and every connection has closed after it. Accepts connections until then, or
    /// until an earlier one of `phases` in which the server's listeners close.
    pub async fn serve(self, listener: TcpListener, phases: &Phases, shutdown: impl Future<Output = ()>) {
        let shared = Arc::new(self);
        let mut connections = JoinSet::new();
        let mut listener = Some(listener);
        let (mut closes, mut shutdown) = (pin!(phases.listener_closes()), pin!(shutdown));
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                // The port is free for the next process.
                () = &mut closes, if listener.is_some() => listener = None,
                Some(ended) = connections.join_next() => joined(ended),
                accepted = accepted(listener.as_ref()) => match accepted {
                    Ok((stream, peer)) => _ = connections.spawn(Arc::clone(&shared).connection(stream, peer)),
                    Err(error) => pause(&error).await,
                }
            }
        }
        drop(listener);
        shared.closing.cancel();
        while let Some(ended) = connections.join_next().await {
            joined(ended);
        }
    }

    async fn connection(self: Arc<Self>, mut stream: TcpStream, peer: SocketAddr) {
        let proxies = &self.parts.proxies;
        let named = proxied_caller(proxies, &mut stream, peer);
        let Ok(Ok(address)) = tokio::time::timeout(self.parts.limits.opening_time, named).await else {
            tracing::debug!(%peer, "connection refused: a proxy named no caller");
            return;
        };
        let shared = proxies.contains(address.ip());
        let place = match self.places.take(address.ip(), shared) {
            Ok(place) => place,
            Err(full) => {
                self.parts.connections.connected(full.connected());
                tracing::debug!(%peer, "connection refused: {full}");
                return;
            }
        };
        let open = self.parts.connections.open();
        let id = format!("wyo_{:016x}", random_u64());
        let span = tracing::error_span!(
            "request",
            request_id = id,
            peer = %address,
            key = self.parts.holder,
            protocol = PROTOCOL,
        );
        match Connection::new(stream, address, id, Arc::clone(&self)) {
            Ok(connection) => connection.run().instrument(span).await,
            Err(error) => tracing::debug!(%peer, %error, "connection failed"),
        }
        drop((place, open));
    }

    /// The caller behind a connection from `address`.
    fn caller(&self, address: CallerAddress) -> Result<Caller, AuthError> {
        match &self.parts.holder {
            Some(holder) => self.parts.keys.holder(holder, address, Scope::Speech),
            None => Ok(Caller::anonymous(Tenant::at(address.ip())).at(Some(address))),
        }
    }
}

/// The next connection; none ever comes where nothing listens any more.
async fn accepted(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

async fn pause(error: &io::Error) {
    tracing::debug!(%error, "accept failed, trying again");
    tokio::time::sleep(PAUSE).await;
}

fn joined(ended: Result<(), tokio::task::JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        tracing::error!("connection task panicked");
    }
}
