//! The process of a replica that has one of its own.

use metrics::Gauge;
use parking_lot::Mutex;

use crate::families as f;
use crate::meter::{FloatCounter, Meter};
use crate::records::Replica;
use crate::system::OneProcess;

/// Records the processes of one replica, one after the other.
#[derive(Debug)]
pub struct OwnProcessInstruments {
    cpu: FloatCounter,
    resident: Gauge,
    started: Gauge,
    /// The process that was looked at last, and the processor time it had used.
    last: Mutex<Option<(u32, f64)>>,
}

impl OwnProcessInstruments {
    /// Instruments for the processes of that replica.
    pub fn new(meter: &Meter, replica: Replica) -> Self {
        let (stage, replica) = replica.ids();
        let at = [stage.as_str(), replica.as_str()];
        Self {
            cpu: meter.float_counter(f::OMNI_STAGE_PROCESS_CPU_SECONDS_TOTAL, at),
            resident: meter.gauge(f::OMNI_STAGE_PROCESS_RESIDENT_MEMORY_BYTES, at),
            started: meter.gauge(f::OMNI_STAGE_PROCESS_START_TIME_SECONDS, at),
            last: Mutex::default(),
        }
    }

    /// The replica has the process of that id now, with these figures; or none.
    pub fn is(&self, now: Option<(u32, OneProcess)>) {
        let mut last = self.last.lock();
        let Some((id, process)) = now else {
            self.resident.set(0.0);
            return;
        };
        let before = last.filter(|(known, _)| *known == id).map_or(0.0, |(_, cpu)| cpu);
        // What another process of the replica used stays in the sum.
        self.cpu.add((process.cpu - before).max(0.0));
        *last = Some((id, process.cpu));
        self.resident.set(process.resident);
        self.started.set(process.started);
    }
}
