//! Messages of a WebSocket that are not written yet.

use std::collections::VecDeque;
use std::time::Duration;

use tokio_tungstenite::tungstenite::Message;

/// Messages, and their bytes, beyond which nothing is taken that causes more.
const MESSAGES: usize = 64;
const BYTES: usize = 256 << 10;

/// Queue in order of writing.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: VecDeque<InLine>,
    bytes: usize,
}

/// A queued message.
#[derive(Debug)]
pub(super) struct InLine {
    pub(super) message: Message,
    /// Of audio, its playing time.
    pub(super) plays: Option<Duration>,
}

impl Line {
    pub(super) fn put(&mut self, message: Message, plays: Option<Duration>) {
        self.bytes += message.len();
        self.waiting.push_back(InLine { message, plays });
    }

    /// Puts a message before all others.
    pub(super) fn put_first(&mut self, message: Message) {
        self.bytes += message.len();
        let plays = None;
        self.waiting.push_front(InLine { message, plays });
    }

    pub(super) fn take(&mut self) -> Option<InLine> {
        let next = self.waiting.pop_front()?;
        self.bytes -= next.message.len();
        Some(next)
    }

    pub(super) fn has_audio(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.plays.is_some())
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < MESSAGES && self.bytes < BYTES
    }

    /// Takes audio out.
    pub(super) fn drop_audio(&mut self) {
        let bytes = &mut self.bytes;
        self.waiting.retain(|waiting| {
            if waiting.plays.is_some() {
                *bytes -= waiting.message.len();
            }
            waiting.plays.is_none()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_is_taken_out_and_everything_else_stays_in_order() {
        let mut line = Line::default();
        let second = Some(Duration::from_secs(1));
        for (text, plays) in [("a", None), ("1", second), ("b", None), ("2", second)] {
            line.put(Message::text(text), plays);
        }
        assert!(line.has_audio() && line.has_room());
        line.drop_audio();
        line.put_first(Message::text("c"));
        assert!(!line.has_audio());
        let mut left = String::new();
        while let Some(next) = line.take() {
            left.push_str(next.message.to_text().unwrap());
        }
        assert_eq!((left.as_str(), line.bytes), ("cab", 0));
    }

    #[test]
    fn neither_many_messages_nor_long_ones_leave_room() {
        for (count, length) in [(MESSAGES, 1), (1, BYTES)] {
            let mut line = Line::default();
            for _ in 0..count {
                assert!(line.has_room());
                line.put(Message::text("a".repeat(length)), None);
            }
            assert!(!line.has_room());
        }
    }
}
