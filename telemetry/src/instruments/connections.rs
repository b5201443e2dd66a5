//! Connections, before any call.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use metrics::{Counter, Gauge};

use crate::families as f;
use crate::meter::Meter;

/// The peers that a port is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// Clients of the API.
    Callers,
    /// The operator.
    Operators,
    /// Clients of Wyoming.
    Wyoming,
}

/// The outcome of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connected {
    /// It was served.
    Served,
    /// As many were open as the server takes.
    Full,
    /// As many were open of its address as one may have.
    PeerFull,
    /// It could not be encrypted.
    TlsFailed,
    /// The peer left before it had said anything.
    Abandoned,
    /// It said nothing in time.
    Silent,
    /// It had said nothing yet when too many others came.
    CrowdedOut,
}

impl Connected {
    const ALL: [&'static str; 7] = [
        "served",
        "max_connections",
        "max_connections_per_peer",
        "tls_failed",
        "abandoned",
        "silent",
        "crowded_out",
    ];
}

/// Records the connections of one port.
#[derive(Debug)]
pub struct ConnectionInstruments {
    active: Gauge,
    connected: [Counter; Connected::ALL.len()],
}

impl ConnectionInstruments {
    /// Instruments for one port.
    pub fn new(meter: &Meter, listener: Listener) -> Self {
        let listener = match listener {
            Listener::Callers => "callers",
            Listener::Operators => "operators",
            Listener::Wyoming => "wyoming",
        };
        Self {
            active: meter.gauge(f::OMNI_CONNECTIONS_ACTIVE, [listener]),
            connected: Connected::ALL
                .map(|result| meter.counter(f::OMNI_CONNECTIONS_TOTAL, [listener, result])),
        }
    }

    /// Counts the outcome of a connection.
    pub fn connected(&self, what: Connected) {
        self.connected[what as usize].increment(1);
    }

    /// A connection is served as long as this lives.
    pub fn open(self: &Arc<Self>) -> OpenConnection {
        self.connected(Connected::Served);
        self.active.increment(1.0);
        OpenConnection(Arc::clone(self))
    }
}

/// A connection that is served.
#[derive(Debug)]
pub struct OpenConnection(Arc<ConnectionInstruments>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.active.decrement(1.0);
    }
}

/// Records until when the certificate in use is valid.
#[derive(Debug)]
pub struct CertificateInstrument(Gauge);

impl CertificateInstrument {
    /// The instrument for the server's certificate.
    pub fn new(meter: &Meter) -> Self {
        Self(meter.gauge(f::OMNI_TLS_CERTIFICATE_EXPIRY_TIMESTAMP_S, []))
    }

    /// A certificate is in use from now on.
    pub fn expires(&self, at: SystemTime) {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.set(since.as_secs_f64());
    }
}
