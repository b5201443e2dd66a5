//! Residency of a sequence in its engine. One without a place gives nothing, and is no sign of a stage that is stuck.

use omni_engine::SeqState;

/// Cache residency of one sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Residency {
    /// Steps of the engine before it came.
    born: u64,
    /// `true` if it was preempted and its cache is not yet recomputed.
    recomputed: bool,
}

impl Residency {
    /// Residency of a sequence that arrives after `steps` steps of its engine.
    pub(super) fn new(steps: u64) -> Self {
        Self {
            born: steps,
            recomputed: false,
        }
    }

    /// It gave its place to another.
    pub(super) fn lost(&mut self) {
        self.recomputed = true;
    }

    /// It gave an output.
    pub(super) fn worked(&mut self) {
        self.recomputed = false;
    }

    /// Returns true if it has no place, in `state` after `steps` steps, although there was a step that might have
    /// given it one. An engine that is stuck in its first step has no such excuse.
    pub(super) fn is_missed(self, state: Option<SeqState>, steps: u64) -> bool {
        let waits = matches!(state, Some(SeqState::Waiting | SeqState::Preempted));
        self.recomputed || (waits && steps > self.born)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_missed_from_the_first_step_without_it_to_the_next_output() {
        let mut residency = Residency::new(7);
        assert!(!residency.is_missed(Some(SeqState::Waiting), 7));
        assert!(residency.is_missed(Some(SeqState::Waiting), 8));
        assert!(!residency.is_missed(Some(SeqState::Running), 9));
        residency.worked();
        residency.lost();
        assert!(residency.is_missed(Some(SeqState::Preempted), 20));
        assert!(
            residency.is_missed(Some(SeqState::Running), 21),
            "it is computed again"
        );
        residency.worked();
        assert!(!residency.is_missed(Some(SeqState::Running), 22));
    }
}
