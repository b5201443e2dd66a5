//! Batching of items that are sent within a moment.

use std::time::Duration;

use omni_engine::Stamp;

/// Shortest time between two batches of items: every message wakes several threads on its way. Items of one sequence
/// whose steps take longer never wait.
const MOMENT: Duration = Duration::from_millis(5);

/// Decides if items wait to be sent together. After a send, the next ones wait for the rest of [`MOMENT`]; an urgent
/// item is sent meanwhile and does not prolong the wait.
#[derive(Debug, Default)]
pub(super) struct Hold {
    /// Time of the last turn that sent items and held none.
    sent: Stamp,
}

impl Hold {
    /// Rest of the moment.
    pub(super) fn left(&self, now: Stamp) -> Duration {
        MOMENT.saturating_sub(now.since(self.sent))
    }

    /// After a turn that sent items at `now`, in which others were `held`.
    pub(super) fn sent(&mut self, now: Stamp, held: bool) {
        if !held {
            self.sent = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_wait_for_a_moment_however_many_go_before_them() {
        let mut hold = Hold::default();
        let at = |ms: u64| Stamp(Duration::from_millis(1_000 + ms));
        assert!(hold.left(at(0)).is_zero(), "nothing was sent before");
        hold.sent(at(0), false);
        // Every millisecond an item of a sequence that has just begun goes out, while those of others wait.
        for ms in 1..5 {
            assert_eq!(hold.left(at(ms)), MOMENT - Duration::from_millis(ms));
            hold.sent(at(ms), true);
        }
        assert!(hold.left(at(5)).is_zero());
        hold.sent(at(5), false);
        assert_eq!(hold.left(at(5)), MOMENT);
    }
}
