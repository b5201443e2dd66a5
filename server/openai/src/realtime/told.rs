//! Events on their way to a client.

use std::time::Duration;

use serde_json::Value;

/// An event.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) event: Value,
    /// Playing time of its audio, if it has any.
    pub(super) plays: Option<Duration>,
}

/// Events in the order in which the client gets them.
#[derive(Debug, Default)]
pub(super) struct ToldEvents(pub(super) Vec<Told>);

impl ToldEvents {
    pub(super) fn push(&mut self, event: Value) {
        let plays = None;
        self.0.push(Told { event, plays });
    }

    /// Adds audio that plays for `time`.
    pub(super) fn push_audio(&mut self, event: Value, time: Duration) {
        let plays = Some(time);
        self.0.push(Told { event, plays });
    }

    pub(super) fn extend(&mut self, events: impl IntoIterator<Item = Value>) {
        events.into_iter().for_each(|event| self.push(event));
    }

    /// Drops audio.
    pub(super) fn drop_audio(&mut self) {
        self.0.retain(|told| told.plays.is_none());
    }

    /// The last event.
    pub(super) fn last_mut(&mut self) -> Option<&mut Value> {
        self.0.last_mut().map(|told| &mut told.event)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
