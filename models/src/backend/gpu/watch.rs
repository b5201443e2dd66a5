//! Counters of the work given to a GPU.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::backend::{GpuFigures, StepCosts, StepKey, TellFallback};

/// Steps whose costs are found, most; later ones are left out.
const COSTS: usize = 256;
/// Reasons that wait to be taken, most; older ones go first.
const REASONS: usize = 64;

#[derive(Default)]
pub(super) struct Watch {
    launches: AtomicU64,
    graphs: AtomicU64,
    recorded_launches: AtomicU64,
    joined_launches: AtomicU64,
    replays: AtomicU64,
    replayed_launches: AtomicU64,
    fallbacks: AtomicU64,
    /// Nanoseconds.
    busy: AtomicU64,
    /// Times that a step is replayed to find what its launches cost; 0 for not at all.
    profiled: AtomicU32,
    costs: Mutex<Costs>,
    reasons: Mutex<VecDeque<String>>,
    listener: OnceLock<TellFallback>,
}

#[derive(Default)]
struct Costs {
    /// Steps that were looked at.
    seen: HashSet<StepKey>,
    found: Vec<StepCosts>,
}

fn add(to: &AtomicU64, count: usize) {
    to.fetch_add(count as u64, Ordering::Relaxed);
}

impl Watch {
    pub(super) fn launched(&self, launches: usize) {
        add(&self.launches, launches);
    }

    /// `joined`: how many of the launches are parts of persistent ones.
    pub(super) fn recorded(&self, launches: usize, joined: usize) {
        add(&self.graphs, 1);
        add(&self.joined_launches, joined);
        add(&self.recorded_launches, launches);
    }

    pub(super) fn replayed(&self, launches: usize) {
        add(&self.replays, 1);
        add(&self.replayed_launches, launches);
    }

    /// Counts a repeated fallback of a step, for a reason already reported.
    pub(super) fn fell_back_again(&self) {
        add(&self.fallbacks, 1);
    }

    /// The device has worked on graphs for as long.
    pub(super) fn worked(&self, time: Duration) {
        add(&self.busy, usize::try_from(time.as_nanos()).unwrap_or(usize::MAX));
    }

    pub(super) fn fell_back(&self, key: StepKey, reason: &str) {
        add(&self.fallbacks, 1);
        let StepKey {
            stage,
            rows,
            also,
            ends,
        } = key;
        let prompts = if ends > 0 { " with prompts" } else { "" };
        let reason = format!(
            "a step of {stage}{prompts}, sizes {rows} and {also}, is launched without a graph: {reason}"
        );
        if let Some(listener) = self.listener.get() {
            return listener(&reason);
        }
        let mut reasons = self.reasons();
        if reasons.len() == REASONS {
            reasons.pop_front();
        }
        reasons.push_back(reason);
    }

    /// Measures the launch costs of each step recorded from now on, by `replays` replays.
    pub(super) fn profile(&self, replays: u32) {
        self.profiled.store(replays, Ordering::Relaxed);
    }

    pub(super) fn profiled(&self) -> u32 {
        self.profiled.load(Ordering::Relaxed)
    }

    /// Returns true the first time that it is called for a step.
    pub(super) fn looks_at(&self, key: StepKey) -> bool {
        let mut costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        costs.seen.len() < COSTS && costs.seen.insert(key)
    }

    pub(super) fn costs(&self, found: StepCosts) {
        let mut costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        costs.found.push(found);
    }

    /// Takes the costs measured since the last call.
    pub(super) fn take_costs(&self) -> Vec<StepCosts> {
        let mut costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut costs.found)
    }

    /// Forwards reasons to `to` instead of keeping them; replaces any previous listener.
    pub(super) fn tell(&self, to: TellFallback) {
        let _ = self.listener.set(to);
    }

    pub(super) fn figures(&self) -> GpuFigures {
        let count = |from: &AtomicU64| from.load(Ordering::Relaxed);
        GpuFigures {
            launches: count(&self.launches),
            graphs: count(&self.graphs),
            recorded_launches: count(&self.recorded_launches),
            joined_launches: count(&self.joined_launches),
            replays: count(&self.replays),
            replayed_launches: count(&self.replayed_launches),
            fallbacks: count(&self.fallbacks),
            busy: Duration::from_nanos(count(&self.busy)),
        }
    }

    /// Takes the reasons why steps were launched without a graph since the last call.
    pub(super) fn take_reasons(&self) -> Vec<String> {
        self.reasons().drain(..).collect()
    }

    fn reasons(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
