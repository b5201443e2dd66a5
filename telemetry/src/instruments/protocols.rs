//! Requests by protocols that count none themselves.

use metrics::Counter;

use crate::families as f;
use crate::meter::Meter;

/// Protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// By Wyoming.
    Wyoming,
    /// By WebSocket.
    WebSocket,
}

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestResult {
    /// It was answered to the end.
    Ok,
    /// It was refused, or it failed.
    Error,
    /// Its caller left it.
    Cancelled,
}

impl RequestResult {
    const ALL: [&'static str; 3] = ["ok", "error", "cancelled"];
}

/// Records the requests of one protocol.
#[derive(Debug)]
pub struct ProtocolInstruments([Counter; RequestResult::ALL.len()]);

impl ProtocolInstruments {
    /// Instruments for one protocol.
    pub fn new(meter: &Meter, protocol: Protocol) -> Self {
        let protocol = match protocol {
            Protocol::Wyoming => "wyoming",
            Protocol::WebSocket => "websocket",
        };
        Self(
            RequestResult::ALL
                .map(|result| meter.counter(f::OMNI_PROTOCOL_REQUESTS_TOTAL, [protocol, result])),
        )
    }

    /// A request ended.
    pub fn ended(&self, how: RequestResult) {
        self.0[how as usize].increment(1);
    }
}
