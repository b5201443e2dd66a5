//! Events on their way to the reader.

use std::collections::VecDeque;
use std::time::Duration;

use omni_core::id::MessageId;

use super::protocol::{ChatEvent, ChatEventBody};

/// Bytes of text that may wait before no more tokens are taken from the model.
const TEXT_AHEAD: usize = 4 << 10;
/// Audio events at which no more is taken from the vocoder.
const AUDIO_AHEAD: usize = 2;
/// Number of events at which the caller's commands are no longer read and no more tokens are taken.
const FULL: usize = 32;

/// Events in order. Pending text is joined to one event.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    events: VecDeque<ChatEvent>,
    text: usize,
    audio: usize,
}

impl Outbox {
    pub(super) fn push(&mut self, response: Option<&MessageId>, body: ChatEventBody) {
        match &body {
            ChatEventBody::Text(text) => {
                self.text += text.len();
                if let Some(ChatEvent {
                    body: ChatEventBody::Text(last),
                    ..
                }) = self.events.back_mut()
                {
                    // Only one answer is in progress at a time: it is the same.
                    return last.push_str(text);
                }
            }
            ChatEventBody::Audio(_) => self.audio += 1,
            _ => {}
        }
        self.events.push_back(ChatEvent {
            response: response.cloned(),
            body,
        });
    }

    /// Takes the next event; with `hold_audio` the next one without audio: text is sent while audio is held back.
    pub(super) fn pop(&mut self, hold_audio: bool) -> Option<ChatEvent> {
        let event = self.events.remove(self.next(hold_audio)?)?;
        match &event.body {
            ChatEventBody::Text(text) => self.text -= text.len(),
            ChatEventBody::Audio(_) => self.audio -= 1,
            _ => {}
        }
        Some(event)
    }

    fn next(&self, hold_audio: bool) -> Option<usize> {
        let sent = |event: &ChatEvent| !hold_audio || !matches!(event.body, ChatEventBody::Audio(_));
        self.events.iter().position(sent)
    }

    /// Returns true if there is a next event.
    pub(super) fn has_next(&self, hold_audio: bool) -> bool {
        self.next(hold_audio).is_some()
    }

    /// Playing time of the next audio.
    pub(super) fn next_audio(&self) -> Option<Duration> {
        self.events.iter().find_map(|event| match &event.body {
            ChatEventBody::Audio(audio) => Some(audio.time),
            _ => None,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns true if commands of the caller are read.
    pub(super) fn takes_commands(&self) -> bool {
        self.events.len() < FULL
    }

    pub(super) fn takes_text(&self) -> bool {
        self.text < TEXT_AHEAD && self.events.len() < FULL
    }

    pub(super) fn takes_audio(&self) -> bool {
        self.audio < AUDIO_AHEAD
    }

    /// Returns true if an answer has text or audio that was not sent.
    pub(super) fn has_content(&self) -> bool {
        self.text > 0 || self.audio > 0
    }

    /// Drops text and audio that were not sent.
    pub(super) fn drop_content(&mut self) {
        self.events
            .retain(|event| !matches!(event.body, ChatEventBody::Text(_) | ChatEventBody::Audio(_)));
        (self.text, self.audio) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use omni_audio::Samples;

    use super::*;
    use crate::protocol::AudioOut;

    fn text(text: &str) -> ChatEventBody {
        ChatEventBody::Text(text.to_owned())
    }

    fn audio() -> ChatEventBody {
        ChatEventBody::Audio(AudioOut {
            data: Bytes::from_static(&[0, 0]),
            start: Samples(0),
            samples: Samples(1),
            time: Duration::ZERO,
            joined: false,
            last: false,
        })
    }

    #[test]
    fn text_that_waits_is_joined_but_never_past_audio() {
        let mut outbox = Outbox::default();
        for body in [text("a"), text("b"), audio(), text("c"), text("d")] {
            outbox.push(None, body);
        }
        let mut seen = Vec::new();
        while let Some(event) = outbox.pop(false) {
            seen.push(match event.body {
                ChatEventBody::Text(text) => text,
                _ => "*".to_owned(),
            });
        }
        assert_eq!(seen, ["ab", "*", "cd"]);
        assert!(!outbox.has_content());
    }

    #[test]
    fn what_is_written_passes_audio_that_is_held_back() {
        let mut outbox = Outbox::default();
        for body in [audio(), text("a"), audio()] {
            outbox.push(None, body);
        }
        assert!(matches!(
            outbox.pop(true).map(|event| event.body),
            Some(ChatEventBody::Text(_))
        ));
        assert!(!outbox.has_next(true) && outbox.has_next(false));
        assert_eq!(outbox.next_audio(), Some(Duration::ZERO));
        outbox.pop(false);
        outbox.pop(false);
        assert!(outbox.is_empty() && outbox.next_audio().is_none());
    }

    #[test]
    fn a_reader_that_takes_nothing_stops_both_sources() {
        let mut outbox = Outbox::default();
        while outbox.takes_audio() {
            outbox.push(None, audio());
        }
        assert!(outbox.takes_text());
        while outbox.takes_text() {
            outbox.push(None, text("0123456789"));
        }
        assert!(outbox.takes_commands(), "an interruption is heard");
        outbox.drop_content();
        assert!(outbox.is_empty() && outbox.takes_text() && outbox.takes_audio());
    }
}
