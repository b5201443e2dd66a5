//! Counters of the work given to a GPU.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::{GpuFigures, StepKey, TellFallback};

/// Reasons that wait to be taken, most; older ones go first.
const REASONS: usize = 64;

#[derive(Default)]
pub(super) struct Watch {
    launches: AtomicU64,
    graphs: AtomicU64,
    recorded_launches: AtomicU64,
    replays: AtomicU64,
    replayed_launches: AtomicU64,
    fallbacks: AtomicU64,
    /// Nanoseconds.
    busy: AtomicU64,
    reasons: Mutex<VecDeque<String>>,
    listener: OnceLock<TellFallback>,
}

fn add(to: &AtomicU64, count: usize) {
    to.fetch_add(count as u64, Ordering::Relaxed);
}

impl Watch {
    pub(super) fn launched(&self, launches: usize) {
        add(&self.launches, launches);
    }

    pub(super) fn recorded(&self, launches: usize) {
        add(&self.graphs, 1);
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
