//! Commands of a caller of speech, and their effects.

use std::sync::Arc;

use omni_audio::Samples;
use omni_core::error::{ServeError, excerpt};
use omni_core::id::UtteranceId;
use omni_engine::Stamp;

use super::Run;
use crate::error::{ProtocolError, UtteranceError};
use crate::names::Named;
use crate::pacer::PlayoutPacer;
use crate::protocol::{Command, Event, EventBody, Ready};
use crate::settings::Settings;
use crate::utterance::Utterance;

impl Run {
    pub(super) fn command(&mut self, command: Command) -> Result<(), ServeError> {
        let now = self.core.now();
        if self.says_something(&command) {
            self.core.timeouts.active(now);
        }
        match command {
            Command::Configure(settings) => self.configure(*settings),
            _ if self.settings.is_none() => Err(ProtocolError::NO_CONFIG.into()),
            Command::Text { text, utterance } => self.text(&text, &utterance, now),
            Command::Flush => {
                if let Some(open) = self.open() {
                    self.queue[open].flush(now);
                }
                Ok(())
            }
            Command::Finish => self.finish(now),
            Command::Cancel { utterance, played } => {
                self.cancel(&utterance, played);
                Ok(())
            }
        }
    }

    /// Returns false for text without a character and a flush of nothing: they do not keep a session open.
    fn says_something(&self, command: &Command) -> bool {
        match command {
            Command::Text { text, .. } => !text.is_empty(),
            Command::Flush => self.open().is_some_and(|open| self.queue[open].has_to_flush()),
            Command::Configure(_) | Command::Finish | Command::Cancel { .. } => true,
        }
    }

    fn configure(&mut self, settings: Settings) -> Result<(), ServeError> {
        if self.open().is_some() {
            return Err(ProtocolError::ConfigDuringUtterance.into());
        }
        if !self.has_room_for_config() {
            let limit = self.core.deps.limits.max_utterances;
            return Err(ProtocolError::TooManyConfigs { limit }.into());
        }
        // A command after the text of a failed utterance begins something new.
        self.names.caller_ends();
        self.settings = Some(Arc::new(settings.clone()));
        let ready = Ready {
            session: self.core.id(),
            settings,
            limits: self.core.deps.limits,
        };
        let event = Event {
            utterance: None,
            body: EventBody::Ready(Box::new(ready)),
        };
        self.ready.push_back((self.opened, event));
        Ok(())
    }

    /// The utterance that takes text, if one is open.
    pub(super) fn open(&self) -> Option<usize> {
        let last = self.queue.len().checked_sub(1)?;
        self.queue[last].is_open().then_some(last)
    }

    fn text(&mut self, text: &str, name: &str, now: Stamp) -> Result<(), ServeError> {
        let characters = text.chars().count();
        let mut begun = false;
        let open = match self.open() {
            Some(open) => {
                let id = self.queue[open].id();
                if !name.is_empty() && name != id.as_str() {
                    let problem = "differs from that of the open utterance, send finish first";
                    let id = excerpt(name);
                    return Err(ProtocolError::UtteranceId { id, problem }.into());
                }
                open
            }
            None if text.is_empty() && name.is_empty() => {
                self.blank = true;
                return Ok(());
            }
            None => match self.names.begin(name)? {
                Named::New(id) => match self.begin(id, now)? {
                    Some(open) => {
                        self.charge(open, characters, now);
                        begun = true;
                        open
                    }
                    None => return Ok(()),
                },
                Named::Late => return Ok(()),
            },
        };
        // Dropped text costs nothing and fills nothing.
        if self.queue[open].takes_text() {
            if !begun {
                self.core.handle.caller().more(characters, now);
            }
            let got = text.len() + self.queue.iter().map(Utterance::waiting_bytes).sum::<usize>();
            let limit = self.core.deps.limits.max_buffered_text_bytes;
            if got > limit {
                self.queue[open].fail(UtteranceError::TextBufferFull { got, limit });
            }
        }
        self.queue[open].push(text, self.core.deps.limits.max_text_bytes, now);
        Ok(())
    }

    /// Opens an utterance; `None` if no new ones are accepted.
    fn begin(&mut self, id: UtteranceId, now: Stamp) -> Result<Option<usize>, ServeError> {
        if self.core.closing.is_some() {
            self.listening = false;
            return Ok(None);
        }
        self.blank = false;
        let limit = self.core.deps.limits.max_utterances;
        if self.queue.len() >= limit {
            return Err(ProtocolError::TooManyUtterances { limit }.into());
        }
        let settings = self.settings.clone().expect("settings come first");
        let orchestrator = self.core.deps.orchestrator.clone();
        let model = self.core.deps.orchestrator.model()?;
        let limits = &self.core.deps.limits;
        let mut utterance = Utterance::new(id, settings, orchestrator, model, limits, now);
        if self.uncut {
            utterance = utterance.uncut();
        }
        if self.whole {
            utterance = utterance.whole();
        }
        let trace = self.core.deps.records.begins(self.core.caller.as_ref(), now);
        self.core.began = true;
        self.opened += 1;
        self.queue.push_back(utterance.traced(trace));
        Ok(Some(self.queue.len() - 1))
    }

    /// Charges the quotas of the caller for the utterance that was just opened; it fails if they have no room.
    fn charge(&mut self, open: usize, characters: usize, now: Stamp) {
        if let Err(over) = self.core.handle.begin(characters, now) {
            let over = ServeError::from(over);
            self.core.deps.records.refused(&over);
            self.queue[open].fail(over);
        }
    }

    /// Ends the open utterance. If none is open, text without a character counts as one; without any text there is
    /// none to end.
    fn finish(&mut self, now: Stamp) -> Result<(), ServeError> {
        let blank = std::mem::take(&mut self.blank);
        if self.names.caller_ends() {
            return Ok(());
        }
        let open = match self.open() {
            Some(open) => Some(open),
            None if !blank => None,
            None => match self.names.begin("")? {
                Named::New(id) => self.begin(id, now)?,
                Named::Late => None,
            },
        };
        if let Some(open) = open {
            if blank {
                self.queue[open].push("", self.core.deps.limits.max_text_bytes, now);
            }
            self.queue[open].finish(now);
        }
        Ok(())
    }

    fn cancel(&mut self, name: &str, played: Option<Samples>) {
        self.names.caller_ends();
        self.blank = false;
        for (nth, utterance) in self.queue.iter_mut().enumerate() {
            if name.is_empty() || utterance.id().as_str() == name {
                utterance.cancel(played);
                if nth == 0 {
                    // Playback stops with it.
                    self.pacer = PlayoutPacer::default();
                }
                self.names.cancelled(utterance.id());
            }
        }
    }

    /// Finishes the open utterance: the caller sends no more.
    pub(super) fn hang_up(&mut self) {
        self.listening = false;
        let now = self.core.now();
        self.core.timeouts.active(now);
        if let Some(open) = self.open() {
            self.queue[open].finish(now);
        }
    }
}
