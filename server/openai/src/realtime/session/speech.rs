//! The user's speech: its detection, and its turns.

use omni_family::Part;
use serde_json::json;

use super::Session;
use crate::error::ApiError;
use crate::realtime::input::InputChange;
use crate::realtime::items::Item;

impl Session {
    /// Returns true if there is audio that was not processed yet.
    pub(in crate::realtime) fn hears_more(&self) -> bool {
        self.input.is_waiting()
    }

    /// Processes audio until the next change in it.
    pub(in crate::realtime) fn hear(&mut self) {
        match self.input.advance() {
            None => {}
            Some(InputChange::Started { at_ms }) => {
                let item = self.ids.item();
                self.tell(json!({
                    "type": "input_audio_buffer.speech_started", "audio_start_ms": at_ms, "item_id": item,
                }));
                self.speech = Some(item);
                if self.settings.turns.is_some_and(|turns| turns.interrupts) {
                    self.interrupt("turn_detected", None);
                }
            }
            Some(InputChange::Stopped { at_ms }) => {
                let item = self.speech.take().unwrap_or_else(|| self.ids.item());
                self.tell(json!({
                    "type": "input_audio_buffer.speech_stopped", "audio_end_ms": at_ms, "item_id": item,
                }));
                let recording = self.input.take();
                match self.committed(&item, recording) {
                    Ok(()) if self.settings.turns.is_some_and(|turns| turns.creates) => {
                        self.unanswered = Some(item);
                    }
                    Ok(()) => {}
                    Err(error) => self.refuse(&error, None),
                }
            }
        }
    }

    /// Adds the user's speech as an item.
    pub(super) fn committed(&mut self, id: &str, recording: Option<Part>) -> Result<(), ApiError> {
        let item = Item::recording(id.to_owned(), recording.clone());
        let told = item.told.clone();
        let previous = self.conversation.insert(item, None)?;
        self.tell(json!({
            "type": "input_audio_buffer.committed", "previous_item_id": previous, "item_id": id,
        }));
        self.tell_item(&told, previous.as_deref());
        if self.settings.transcription.is_some() {
            self.transcribe(id, recording);
        }
        self.trim();
        Ok(())
    }

    /// Answers the turn that was detected last, if no response is in progress. A turn that was deleted is not
    /// answered.
    pub(super) fn answer_turn(&mut self) {
        if self.active.is_some() || self.settles() {
            return;
        }
        let turn = self.unanswered.take();
        if turn.is_some_and(|item| self.conversation.get(&item).is_some())
            && let Err(error) = self.respond()
        {
            self.refuse(&error, None);
        }
    }
}
