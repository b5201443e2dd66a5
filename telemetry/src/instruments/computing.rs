//! Work that models ask of a GPU.

use metrics::Counter;

use crate::families as f;
use crate::meter::Meter;

/// Counted where it is computed, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ComputingStats {
    /// Kernels launched one by one.
    pub launches: u64,
    /// Kernels launched in graphs.
    pub graph_launches: u64,
    /// Graphs recorded.
    pub graphs: u64,
    /// Graphs launched again.
    pub replays: u64,
    /// Steps that were to be a graph and could not be.
    pub fallbacks: u64,
}

/// Records the work of one device.
#[derive(Debug)]
pub struct ComputingInstruments {
    launches: Counter,
    graph_launches: Counter,
    graphs: Counter,
    replays: Counter,
    fallbacks: Counter,
}

impl ComputingInstruments {
    /// Instruments for the device of that name.
    pub fn new(meter: &Meter, device: &str) -> Self {
        let launches = |via| meter.counter(f::OMNI_GPU_KERNEL_LAUNCHES_TOTAL, [device, via]);
        Self {
            launches: launches("single"),
            graph_launches: launches("graph"),
            graphs: meter.counter(f::OMNI_GPU_GRAPHS_RECORDED_TOTAL, [device]),
            replays: meter.counter(f::OMNI_GPU_GRAPH_REPLAYS_TOTAL, [device]),
            fallbacks: meter.counter(f::OMNI_GPU_GRAPH_FALLBACKS_TOTAL, [device]),
        }
    }

    /// Totals of work so far.
    pub fn until_now(&self, stats: &ComputingStats) {
        self.launches.absolute(stats.launches);
        self.graph_launches.absolute(stats.graph_launches);
        self.graphs.absolute(stats.graphs);
        self.replays.absolute(stats.replays);
        self.fallbacks.absolute(stats.fallbacks);
    }
}
