//! Progress of a sequence in a stage: written by the stage's thread, read at any time, also after an abort.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use omni_engine::Stamp;

use super::cancel_timer::CancelTimer;
use super::replica::ReplicaId;

const NEVER: u64 = u64::MAX;

/// Counters shared by the stage that works and the session that reports. Each is read for itself.
#[derive(Debug, Clone)]
pub struct StageProgress(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    arrived: AtomicU64,
    started: AtomicU64,
    first_output: AtomicU64,
    last_output: AtomicU64,
    busy: AtomicU64,
    outputs: AtomicU32,
    starved: AtomicU32,
    replica: Option<ReplicaId>,
    request: OnceLock<Arc<CancelTimer>>,
}

/// Values of a [`StageProgress`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageSnapshot {
    /// Start of the first step.
    pub started: Option<Stamp>,
    /// End of the step that gave the first output.
    pub first_output: Option<Stamp>,
    /// End of the step with the latest output.
    pub last_output: Option<Stamp>,
    /// Time of all steps in which the sequence took part.
    pub busy: Duration,
    /// Codec frames made, or decoded.
    pub outputs: u32,
    /// Times that it ran out of input although its upstream stage should have delivered.
    pub starved: u32,
    /// The replica that works on it.
    pub replica: Option<ReplicaId>,
}

impl Default for StageProgress {
    fn default() -> Self {
        Self::new(None)
    }
}

impl StageProgress {
    /// Creates the progress of a sequence that `replica` works on.
    pub fn new(replica: Option<ReplicaId>) -> Self {
        Self(Arc::new(Counters {
            arrived: AtomicU64::new(NEVER),
            started: AtomicU64::new(NEVER),
            first_output: AtomicU64::new(NEVER),
            last_output: AtomicU64::new(NEVER),
            busy: AtomicU64::new(0),
            outputs: AtomicU32::new(0),
            starved: AtomicU32::new(0),
            replica,
            request: OnceLock::new(),
        }))
    }

    /// Sets the arrival of its request at the edge. Called before the sequence is submitted.
    pub fn arrive(&self, at: Stamp) {
        set_once(&self.0.arrived, at);
    }

    /// Time of the arrival.
    pub(crate) fn arrived(&self) -> Option<Stamp> {
        stamp(&self.0.arrived)
    }

    /// Holds `request` for as long as a stage works on the sequence.
    pub fn hold(&self, request: Arc<CancelTimer>) {
        self.0.request.get_or_init(|| request);
    }

    /// The reading now.
    pub fn snapshot(&self) -> StageSnapshot {
        StageSnapshot {
            started: stamp(&self.0.started),
            first_output: stamp(&self.0.first_output),
            last_output: stamp(&self.0.last_output),
            busy: Duration::from_nanos(self.0.busy.load(Ordering::Relaxed)),
            outputs: self.0.outputs.load(Ordering::Relaxed),
            starved: self.0.starved.load(Ordering::Relaxed),
            replica: self.0.replica,
        }
    }

    /// Counts that it ran out of input.
    pub(super) fn starve(&self) {
        self.0.starved.fetch_add(1, Ordering::Relaxed);
    }

    /// Copies the counters of another process, where the stage runs.
    pub(crate) fn mirror(&self, reading: &StageSnapshot) {
        let stamp = |at: Option<Stamp>| at.map_or(NEVER, |at| nanos(at.0));
        let cells = &self.0;
        cells.started.store(stamp(reading.started), Ordering::Relaxed);
        cells
            .first_output
            .store(stamp(reading.first_output), Ordering::Relaxed);
        cells
            .last_output
            .store(stamp(reading.last_output), Ordering::Relaxed);
        cells.busy.store(nanos(reading.busy), Ordering::Relaxed);
        cells.outputs.store(reading.outputs, Ordering::Relaxed);
        cells.starved.store(reading.starved, Ordering::Relaxed);
    }

    /// Counts a step from `from` to `until` that gave `outputs`. Called by the stage's thread alone.
    pub(super) fn step(&self, from: Stamp, until: Stamp, outputs: u32) {
        let cells = &self.0;
        set_once(&cells.started, from);
        if outputs > 0 {
            set_once(&cells.first_output, until);
            cells.last_output.store(nanos(until.0), Ordering::Relaxed);
            cells.outputs.fetch_add(outputs, Ordering::Relaxed);
        }
        cells.busy.fetch_add(nanos(until.since(from)), Ordering::Relaxed);
    }
}

fn stamp(cell: &AtomicU64) -> Option<Stamp> {
    match cell.load(Ordering::Relaxed) {
        NEVER => None,
        nanos => Some(Stamp(Duration::from_nanos(nanos))),
    }
}

fn set_once(cell: &AtomicU64, at: Stamp) {
    if cell.load(Ordering::Relaxed) == NEVER {
        cell.store(nanos(at.0), Ordering::Relaxed);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_and_the_first_output_are_kept() {
        let at = |ms| Stamp(Duration::from_millis(ms));
        assert_eq!(StageProgress::default().snapshot(), StageSnapshot::default());
        let progress = StageProgress::new(Some(ReplicaId(3)));
        progress.step(at(10), at(12), 0);
        progress.step(at(20), at(25), 3);
        progress.step(at(30), at(31), 2);
        progress.starve();
        let expected = StageSnapshot {
            started: Some(at(10)),
            first_output: Some(at(25)),
            last_output: Some(at(31)),
            busy: Duration::from_millis(8),
            outputs: 5,
            starved: 1,
            replica: Some(ReplicaId(3)),
        };
        assert_eq!(progress.snapshot(), expected);
        let mirror = StageProgress::new(Some(ReplicaId(3)));
        mirror.mirror(&progress.snapshot());
        assert_eq!(mirror.snapshot(), expected);
    }
}
