//! Hops over one edge.

use std::sync::Arc;

use metrics::Histogram;

use crate::families as f;
use crate::log::StatsLog;
use crate::meter::Meter;
use crate::records::{EdgeEnd, HopRecord};

/// Records hops from one end of an edge to the other.
#[derive(Debug)]
pub struct EdgeInstruments {
    log: Option<Arc<StatsLog>>,
    from: EdgeEnd,
    to: EdgeEnd,
    size: Histogram,
    tx: Histogram,
    rx: Histogram,
    in_flight: Histogram,
}

impl EdgeInstruments {
    /// Instruments for the edge between two ends.
    pub fn new(meter: &Meter, from: impl Into<EdgeEnd>, to: impl Into<EdgeEnd>) -> Self {
        let from = from.into();
        let to = to.into();
        let of_from = from.ids();
        let of_to = to.ids();
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

    /// Also reports to `log`.
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
