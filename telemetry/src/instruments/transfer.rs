//! Hops over one edge.

use metrics::Histogram;

use super::pipeline::ids;
use crate::families as f;
use crate::meter::Meter;
use crate::records::{HopRecord, Replica};

/// Records hops from one replica to another.
#[derive(Debug)]
pub struct EdgeInstruments {
    size: Histogram,
    tx: Histogram,
    rx: Histogram,
    in_flight: Histogram,
}

impl EdgeInstruments {
    /// Instruments for the edge between two replicas.
    #[must_use]
    pub fn new(meter: &Meter, from: Replica, to: Replica) -> Self {
        let (from, to) = (ids(from), ids(to));
        let edge = [from.0.as_str(), &from.1, &to.0, &to.1];
        Self {
            size: meter.histogram(f::OMNI_TRANSFER_SIZE_BYTES, edge),
            tx: meter.histogram(f::OMNI_TRANSFER_TX_S, edge),
            rx: meter.histogram(f::OMNI_TRANSFER_RX_S, edge),
            in_flight: meter.histogram(f::OMNI_TRANSFER_IN_FLIGHT_S, edge),
        }
    }

    /// One message was received and decoded.
    pub fn hop(&self, record: &HopRecord) {
        self.size.record(record.size as f64);
        self.tx.record(record.tx);
        self.rx.record(record.rx);
        self.in_flight.record(record.in_flight);
    }
}
