//! The text of an utterance, on its way in.

use omni_core::error::ServeError;
use omni_engine::Stamp;

use super::Utterance;
use crate::error::UtteranceError;
use crate::post_processing::Note;

impl Utterance {
    /// Adds text. Beyond `limit` bytes the utterance fails.
    pub(crate) fn push(&mut self, text: &str, limit: usize, now: Stamp) {
        self.received += text.len();
        self.characters = self.characters.saturating_add(text.chars().count() as u32);
        if !self.takes_text() {
            return;
        }
        if self.received > limit {
            let got = self.received;
            return self.fail(UtteranceError::TextTooLong { got, limit });
        }
        self.resume(now);
        if !text.is_empty() {
            self.last_text = now;
        }
        self.post_processing.note(Note::Write(text.to_owned()));
        let taken = self.text.push(text);
        self.check(taken);
    }

    /// Adds tokens that stand for `text`, which the caller does not cut again.
    pub(crate) fn push_tokens(&mut self, tokens: Vec<u32>, text: &str) {
        self.characters = self.characters.saturating_add(text.chars().count() as u32);
        if self.takes_text() && !tokens.is_empty() {
            self.post_processing.note(Note::Write(text.to_owned()));
            self.text.push_tokens(tokens, text);
        }
    }

    /// Speaks gathered text.
    pub(crate) fn flush(&mut self, now: Stamp) {
        if self.takes_text() {
            self.resume(now);
            let flushed = self.text.flush();
            self.check(flushed);
        }
    }

    /// Ends the text.
    pub(crate) fn finish(&mut self, now: Stamp) {
        self.finished = true;
        if self.takes_text() {
            self.resume(now);
            let finished = self.text.finish();
            self.check(finished);
        }
    }

    fn check(&mut self, result: Result<(), ServeError>) {
        if let Err(error) = result {
            self.fail(error);
        }
    }

    /// Ends a gap, which was the caller's if there was nothing to speak.
    fn resume(&mut self, now: Stamp) {
        if !self.own_text && self.text.peek().is_none() && self.pipeline.is_starved() {
            let since = self.pipeline.starved_since().unwrap_or(self.last_spoken);
            let open = self.pipeline.starved_since().is_some();
            self.stats.resumed(since, now, open);
        }
    }
}
