//! Queue of a session's events for its reader, in order.

use std::collections::VecDeque;
use std::time::Duration;

use super::protocol::{Event, EventBody};

/// Number of events at which the caller's commands are no longer read. Audio stops far earlier.
const OUTBOX: usize = 32;
/// Number of audio events at which no more audio is taken from the pipeline.
const AUDIO_AHEAD: usize = 2;

/// Events on their way to the reader.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    events: VecDeque<Event>,
    /// Number of audio events and of events about audio: they are bounded by the pipeline, not by callers' commands.
    sound: usize,
    audio: usize,
}

impl Outbox {
    pub(super) fn push(&mut self, event: Event) {
        self.count(&event.body, |count| count + 1);
        self.events.push_back(event);
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.count(&event.body, |count| count - 1);
        Some(event)
    }

    fn count(&mut self, body: &EventBody, change: impl Fn(usize) -> usize) {
        match body {
            EventBody::Audio(_) => (self.audio, self.sound) = (change(self.audio), change(self.sound)),
            EventBody::Alignment(_) => self.sound = change(self.sound),
            EventBody::Ready(_) | EventBody::Started | EventBody::Done(_) | EventBody::Warning { .. } => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns true if there is room for events that callers cause.
    pub(super) fn has_room(&self) -> bool {
        self.events.len() - self.sound < OUTBOX
    }

    pub(super) fn takes_audio(&self) -> bool {
        self.audio < AUDIO_AHEAD
    }

    /// Playing time of the next audio, itself or behind its words.
    pub(super) fn next_audio(&self) -> Option<Duration> {
        let mut next = self.events.iter();
        let first = next.next().map(|event| &event.body);
        let told = matches!(first, Some(EventBody::Alignment(_)));
        let audio = if told {
            next.next().map(|event| &event.body)
        } else {
            first
        };
        match audio {
            Some(EventBody::Audio(audio)) => Some(audio.time),
            _ => None,
        }
    }

    /// Drops audio that was not sent, and the events about it.
    pub(super) fn drop_audio(&mut self) {
        let sounds = |body: &EventBody| matches!(body, EventBody::Audio(_) | EventBody::Alignment(_));
        self.events.retain(|event| !sounds(&event.body));
        (self.sound, self.audio) = (0, 0);
    }
}
