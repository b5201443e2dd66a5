//! Items, as clients create, retrieve, delete and truncate them.

use omni_audio::Samples;
use omni_family::Role;
use omni_session::ChatCommand;
use serde_json::json;

use super::{Active, Session};
use crate::error::ApiError;
use crate::realtime::conversation::no_item;
use crate::realtime::events::Truncation;
use crate::realtime::items::Item;
use crate::realtime::response::ResponseEnd;

impl Session {
    pub(super) fn create_item(&mut self, mut item: Item, previous: Option<&str>) -> Result<(), ApiError> {
        if item.said.role == Role::System {
            let instructions = &self.settings.instructions;
            self.conversation
                .check_system("item.content", instructions, Some(&item), &self.model)?;
        }
        if item.id.is_empty() {
            item.name(self.ids.item());
        }
        let told = item.told.clone();
        let previous = self.conversation.insert(item, previous)?;
        self.tell_item(&told, previous.as_deref());
        self.trim();
        Ok(())
    }

    pub(super) fn retrieve_item(&mut self, id: &str) -> Result<(), ApiError> {
        let item = self.conversation.get(id);
        let told = item.map(|item| item.told.clone());
        let told = told.ok_or_else(|| no_item("item_retrieve_invalid_item_id", "item_id", id))?;
        self.tell(json!({"type": "conversation.item.retrieved", "item": told}));
        Ok(())
    }

    pub(super) fn delete_item(&mut self, id: &str) -> Result<(), ApiError> {
        let removed = self.conversation.remove(id);
        removed.ok_or_else(|| no_item("item_delete_invalid_item_id", "item_id", id))?;
        self.gone(id);
        Ok(())
    }

    /// Cuts an answer to its heard part: the one in progress or the last one by its word times, an earlier one in
    /// proportion.
    pub(super) fn truncate_item(&mut self, truncation: Truncation) -> Result<(), ApiError> {
        let Truncation {
            item_id,
            content_index,
            audio_end_ms,
        } = truncation;
        let refuse =
            |param: &str, problem: String| Err(ApiError::coded("invalid_value", Some(param), problem));
        let item = self.conversation.get(&item_id);
        let item = item.ok_or_else(|| no_item("item_truncate_invalid_item_id", "item_id", &item_id))?;
        let running = self.active.as_ref().map(|active| &active.response);
        let running = running.filter(|response| response.item() == Some(item_id.as_str()));
        let length = running.map_or(item.spoken_ms, |response| response.spoken_ms());
        let Some(length) = length else {
            let problem = "item_id: the item is no answer that was spoken, which alone can be truncated";
            return refuse("item_id", problem.to_owned());
        };
        if let Some(other) = content_index.filter(|index| *index != 0) {
            return refuse("content_index", format!("content_index is {other}; expected 0"));
        }
        if audio_end_ms > length {
            return refuse(
                "audio_end_ms",
                format!("audio_end_ms: the audio of {length} ms is already shorter than {audio_end_ms} ms"),
            );
        }
        if running.is_some() {
            self.interrupt("client_cancelled", Some(audio_end_ms));
            return Ok(());
        }
        match self.last.as_ref().filter(|(_, item)| *item == item_id) {
            Some((response, _)) => {
                let played = Samples(audio_end_ms.saturating_mul(u64::from(self.last_hz)) / 1_000);
                let response = response.clone();
                self.stop(response, Some(played));
                self.cutting = Some((item_id, audio_end_ms));
            }
            None => self.cut_in_proportion(&item_id, audio_end_ms),
        }
        Ok(())
    }

    /// Cuts an item to the text that was heard.
    pub(super) fn cut(&mut self, id: &str, text: &str, heard_ms: u64) {
        self.conversation.change(id, |item| item.cut(text, heard_ms));
        self.tell_truncated(id, heard_ms);
    }

    /// Cuts an item without known word times.
    pub(super) fn cut_in_proportion(&mut self, id: &str, heard_ms: u64) {
        let item = self.conversation.get(id);
        let length = item.and_then(|item| Some((item.text(), item.spoken_ms?)));
        if let Some((text, length)) = length {
            let kept = in_proportion(text, heard_ms, length).to_owned();
            self.cut(id, &kept, heard_ms);
        }
    }

    /// Reports that an item was cut, if it is still there.
    pub(super) fn tell_truncated(&mut self, id: &str, heard_ms: u64) {
        if self.conversation.get(id).is_some() {
            self.tell(json!({
                "type": "conversation.item.truncated", "item_id": id, "content_index": 0, "audio_end_ms": heard_ms,
            }));
        }
    }

    /// Makes the answering session stop a response, or cut it if it has ended.
    pub(super) fn stop(&mut self, response: String, played: Option<Samples>) {
        let stop = ChatCommand::Interrupt { response, played };
        self.effects.commands.push(stop);
    }

    /// Stops the response in progress, if there is one; `heard_ms` of its audio were heard, if that is known.
    pub(super) fn interrupt(&mut self, reason: &'static str, heard_ms: Option<u64>) {
        let Some(Active {
            response,
            notice,
            cut,
        }) = &mut self.active
        else {
            return;
        };
        if response.cancelled.is_some() || (reason == "turn_detected" && !response.keeps) {
            return;
        }
        response.cancelled = Some(reason);
        *cut = heard_ms;
        self.effects.out.drop_audio();
        self.effects.interrupted = true;
        if *notice {
            let text = super::CANNOT_HEAR;
            let kept = match (heard_ms, response.spoken_ms()) {
                (Some(heard), Some(length)) => in_proportion(text, heard, length),
                _ => text,
            };
            let end = ResponseEnd::interrupted(kept.to_owned());
            self.effects.silence = true;
            return self.end(end);
        }
        let played = heard_ms.map(|ms| Samples(response.samples(ms)));
        let response = response.id.clone();
        self.stop(response, played);
    }
}

/// Words of `text` that are heard in `heard_ms` of its audio, if all are equally long.
fn in_proportion(text: &str, heard_ms: u64, length_ms: u64) -> &str {
    if heard_ms >= length_ms {
        return text;
    }
    let characters = text.chars().count() as u64;
    let heard = usize::try_from(characters * heard_ms / length_ms).unwrap_or(usize::MAX);
    let end = text.char_indices().nth(heard).map_or(text.len(), |(at, _)| at);
    let (heard, rest) = text.split_at(end);
    if rest.starts_with(char::is_whitespace) {
        heard
    } else {
        heard
            .rfind(char::is_whitespace)
            .map_or("", |at| &heard[..at])
            .trim_end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_answer_is_cut_between_words() {
        for (heard, kept) in [
            (0, ""),
            (500, "One two"),
            (550, "One two"),
            (999, "One two three"),
            (1_000, "One two three four"),
        ] {
            assert_eq!(in_proportion("One two three four", heard, 1_000), kept, "{heard}");
        }
        assert_eq!(in_proportion("", 0, 0), "");
    }
}
