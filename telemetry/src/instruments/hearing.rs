//! Cache of encoded recordings.

use metrics::Counter;

use crate::families as f;
use crate::meter::Meter;
use crate::records::Replica;

/// Records look-ups in the cache of encoded audio.
#[derive(Debug)]
pub struct HearingInstruments {
    queries: Counter,
    hits: Counter,
}

impl HearingInstruments {
    /// Instruments that count at that replica.
    pub fn new(meter: &Meter, replica: Replica) -> Self {
        let engine = replica.engine();
        Self {
            queries: meter.counter(f::MM_CACHE_QUERIES_TOTAL, [&engine]),
            hits: meter.counter(f::MM_CACHE_HITS_TOTAL, [&engine]),
        }
    }

    /// Lookups of recordings, and hits among them.
    pub fn looked_for(&self, recordings: u64, kept: u64) {
        self.queries.increment(recordings);
        self.hits.increment(kept);
    }
}
