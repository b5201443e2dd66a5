//! Hops over one edge.

use std::sync::Arc;

use metrics::Histogram;

use super::pipeline::ids;
use crate::families as f;
use crate::log::StatsLog;
use crate::meter::Meter;
use crate::records::{HopRecord, Replica};

/// Records hops from one replica to another.
#[derive(Debug)]
pub struct EdgeInstruments {
    log: Option<Arc<StatsLog>>,
    from: Replica,
    to: Replica,
    size: Histogram,
    tx: Histogram,
    rx: Histogram,
    in_flight: Histogram,
}

impl EdgeInstruments {
    /// Instruments for the edge between two replicas.
    #[must_use]
    pub fn new(meter: &Meter, from: Replica, to: Replica) -> Self {
        let (of_from, of_to) = (ids(from), ids(to));
        let edge = [of_from.0.as_str(), &of_from.1, &of_to.0, &of_to.1];
        Self {
            log: None,
            from,
            to,
            size: meter.histogram(f::OMNI_TRANSFER_SIZE_BYTES, edge),
            tx: meter.histogram(f::OMNI_TRANSFER_TX_S, edge),
            rx: meter.histogram(f::OMNI_TRANSFER_RX_S, edge),
            in_flight: meter.histogram(f::OMNI_TRANSFER_IN_FLIGHT_S, edge),
        }
    }

    /// Tells `log` the same.
    #[must_use]
    pub fn with_log(mut self, log: Arc<StatsLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// One message was received and decoded.
    pub fn hop(&self, record: &HopRecord) {
        self.size.record(record.size as f64);
        self.tx.record(record.tx);
        self.rx.record(record.rx);
        self.in_flight.record(record.in_flight);
        if let Some(log) = &self.log {
            log.hop(self.from, self.to, record);
        }
    }
}
