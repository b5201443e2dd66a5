//! The cache of recordings that were heard.

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
    #[must_use]
    pub fn new(meter: &Meter, replica: Replica) -> Self {
        let engine = replica.engine();
        Self {
            queries: meter.counter(f::MM_CACHE_QUERIES_TOTAL, [&engine]),
            hits: meter.counter(f::MM_CACHE_HITS_TOTAL, [&engine]),
        }
    }

    /// So many recordings were looked for, and so many of them had been kept.
    pub fn looked_for(&self, recordings: u64, kept: u64) {
        self.queries.increment(recordings);
        self.hits.increment(kept);
    }
}
