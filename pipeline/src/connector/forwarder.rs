//! Engine events of a replica on their way to another process.
//!
//! In: events, on the replica's thread, which never waits. Out: the same in order, for the connection's thread, which
//! sends them before anything that it takes from the replica later. Sequences without a reader pause, so few events
//! accumulate without a listener; the bound is far beyond that.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use super::wire::Reports;
use crate::stage::{EngineEvent, EngineSink, Notifier};

/// Most events held: hundreds of times those of a full engine's step.
const MOST: usize = 1 << 16;

/// Event sink of one replica. Clones share the events.
#[derive(Debug, Clone)]
pub(super) struct EventForwarder {
    heard: Arc<Mutex<Heard>>,
    wake: Notifier,
}

#[derive(Debug, Default)]
struct Heard {
    reports: Reports,
    /// `true` while the thread that takes them polls.
    attended: bool,
}

impl EventForwarder {
    /// Creates one that notifies `wake` when there is something to take, unless it is [attended](Self::attend).
    pub(super) fn new(wake: Notifier) -> Self {
        let heard = Arc::default();
        Self { heard, wake }
    }

    /// Takes the reports received since the last call.
    pub(super) fn take(&self) -> Reports {
        mem::take(&mut self.heard.lock().reports)
    }

    /// Returns true if there is something to take, or if the caller `looks` again soon in any case. Further events
    /// then send no notification.
    pub(super) fn attend(&self, looks: bool) -> bool {
        let mut heard = self.heard.lock();
        heard.attended = looks || !heard.reports.is_empty();
        heard.attended
    }
}

impl EngineSink for EventForwarder {
    fn on_event(&self, event: &EngineEvent) {
        // The process that starts this one knows how long all of that took.
        if matches!(event, EngineEvent::Loaded { .. }) {
            return;
        }
        let mut heard = self.heard.lock();
        let rings = heard.reports.is_empty() && !heard.attended;
        if heard.reports.told.len() < MOST {
            heard.reports.told.push(event.clone());
        } else {
            heard.reports.missed += 1;
        }
        drop(heard);
        if rings {
            self.wake.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_once_in_their_order_and_no_more_of_them_than_fit() {
        let forwarder = EventForwarder::new(Notifier::default());
        assert!(forwarder.take().is_empty());
        forwarder.on_event(&EngineEvent::Starved);
        for _ in 0..MOST + 1 {
            forwarder.on_event(&EngineEvent::Idle);
        }
        let Reports { told, missed } = forwarder.take();
        assert_eq!((told.len(), missed), (MOST, 2));
        assert_eq!(told[..2], [EngineEvent::Starved, EngineEvent::Idle]);
        assert!(forwarder.take().is_empty());
    }

    #[test]
    fn what_comes_to_a_thread_that_looks_again_in_any_case_does_not_wake_it() {
        let wake = Notifier::default();
        let forwarder = EventForwarder::new(wake.clone());
        assert!(forwarder.attend(true));
        forwarder.on_event(&EngineEvent::Starved);
        assert!(!wake.is_rung());
        assert!(forwarder.attend(false), "there is something to take");
        forwarder.take();
        assert!(!forwarder.attend(false));
        forwarder.on_event(&EngineEvent::Idle);
        assert!(wake.is_rung());
    }
}
