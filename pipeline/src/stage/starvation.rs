//! Time for which a sequence has had nothing from the stage before it.

use std::time::Duration;

use omni_engine::Stamp;

use super::flow::End;

/// Runs from the moment there is nothing left to work on to the next item.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StarvationTimer {
    since: Option<Stamp>,
}

impl StarvationTimer {
    /// Records if there is nothing to work on although upstream should have delivered. Returns true if that begins
    /// now.
    pub(super) fn observe(&mut self, dry: bool, now: Stamp) -> bool {
        let begins = dry && self.since.is_none();
        self.since = dry.then(|| self.since.unwrap_or(now));
        begins
    }

    /// Time at which it will have lasted for `patience`, if nothing comes before.
    pub(super) fn over_at(&self, patience: Duration) -> Option<Stamp> {
        self.since.map(|since| Stamp(since.0.saturating_add(patience)))
    }
}

/// The end of a sequence of `stage` for which `upstream` has delivered nothing for `patience`.
pub(super) fn stall(upstream: &'static str, stage: &str, patience: Duration) -> End {
    End::Failed {
        stage: upstream,
        message: format!("it delivered nothing to {stage} for {patience:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starvation_lasts_from_its_beginning_to_the_next_item() {
        let at = |s| Stamp(Duration::from_secs(s));
        let patience = Duration::from_secs(10);
        let mut timer = StarvationTimer::default();
        assert_eq!(timer.over_at(patience), None);
        assert!(timer.observe(true, at(1)));
        assert!(!timer.observe(true, at(5)));
        assert_eq!(timer.over_at(patience), Some(at(11)));
        assert!(!timer.observe(false, at(6)));
        assert!(timer.observe(true, at(7)));
        assert_eq!(timer.over_at(patience), Some(at(17)));
    }
}
