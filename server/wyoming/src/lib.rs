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
use omni_core::id::random_u64;
use omni_services::{Catalog, SpeechService};
use omni_telemetry::{ConnectionInstruments, ProtocolInstruments};
use omni_transport::{ConnectionLimiter, Keys, proxied_caller};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::connection::Connection;

/// Pause after an error that is not a connection's own, like a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The parts that connections are served with.
#[derive(Debug)]
pub struct Wyoming {
    speech: SpeechService,
    catalog: Catalog,
    keys: Keys,
    holder: Option<String>,
    limits: ConnectionLimits,
    proxies: TrustedProxies,
    places: ConnectionLimiter,
    connections: Arc<ConnectionInstruments>,
    requests: ProtocolInstruments,
    closing: CancellationToken,
}

impl Wyoming {
    /// Serves speech within the same `limits` as other ports, each port for itself. `holder` is the holder of a key of `keys` that
    /// all callers count as.
    #[must_use]
    pub fn new(
        (speech, catalog): (SpeechService, Catalog),
        (keys, holder): (Keys, Option<String>),
        (limits, proxies): (ConnectionLimits, TrustedProxies),
        (connections, requests): (Arc<ConnectionInstruments>, ProtocolInstruments),
    ) -> Self {
        Self {
            speech,
            catalog,
            keys,
            holder,
            places: ConnectionLimiter::new(limits.connections, limits.per_peer),
            limits,
            proxies,
            connections,
            requests,
            closing: CancellationToken::new(),
        }
    }

    /// Serves until `shutdown` resolves and every connection has closed after it. Accepts connections until then, or until an earlier one
    /// of `phases` in which the server's listeners close.
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
        let named = proxied_caller(&self.proxies, &mut stream, peer);
        let Ok(Ok(address)) = tokio::time::timeout(self.limits.opening_time, named).await else {
            tracing::debug!(%peer, "connection refused: a proxy named no caller");
            return;
        };
        let shared = self.proxies.contains(address.ip());
        let place = match self.places.take(address.ip(), shared) {
            Ok(place) => place,
            Err(full) => {
                self.connections.connected(full.connected());
                tracing::debug!(%peer, "connection refused: {full}");
                return;
            }
        };
        let open = self.connections.open();
        let span = tracing::error_span!(
            "request",
            request_id = format!("wyo_{:016x}", random_u64()),
            peer = %address,
            key = self.holder,
            protocol = "wyoming",
        );
        match Connection::new(stream, address, Arc::clone(&self)) {
            Ok(connection) => connection.run().instrument(span).await,
            Err(error) => tracing::debug!(%peer, %error, "connection failed"),
        }
        drop((place, open));
    }

    /// The caller behind a connection from `address`.
    fn caller(&self, address: CallerAddress) -> Result<Caller, AuthError> {
        match &self.holder {
            Some(holder) => self.keys.holder(holder, address, Scope::Speech),
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
