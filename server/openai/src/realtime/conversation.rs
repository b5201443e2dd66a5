//! The conversation: items in their order, in bounded memory.

use std::collections::VecDeque;

use omni_family::{ChatMessage, Hearing, Part, Role};
use omni_services::ChatModel;
use omni_session::ChatLimits;
use serde_json::Value;

use super::items::Item;
use super::settings::Settings;
use crate::error::ApiError;

/// The conversation of one session.
#[derive(Debug)]
pub(super) struct Conversation {
    /// Its name.
    pub(super) id: String,
    items: VecDeque<Item>,
    bytes: usize,
    hearing: Option<Hearing>,
    limits: ChatLimits,
}

impl Conversation {
    pub(super) fn new(id: String, hearing: Option<Hearing>) -> Self {
        Self {
            id,
            items: VecDeque::new(),
            bytes: 0,
            hearing,
            limits: ChatLimits::default(),
        }
    }

    fn place(&self, id: &str) -> Option<usize> {
        // The wanted item is most often new.
        self.items.iter().rposition(|item| item.id == id)
    }

    pub(super) fn get(&self, id: &str) -> Option<&Item> {
        self.place(id).and_then(|place| self.items.get(place))
    }

    /// Inserts an item behind `previous`, or at the beginning for `root`, or at the end. Returns the id of the item
    /// before it.
    ///
    /// # Errors
    /// If there is no such item, or one of the same id.
    pub(super) fn insert(&mut self, item: Item, previous: Option<&str>) -> Result<Option<String>, ApiError> {
        if self.place(&item.id).is_some() {
            let problem = format!("item.id: there is an item {:?} already", item.id);
            return Err(ApiError::coded(
                "item_create_duplicate_item_id",
                Some("item.id"),
                problem,
            ));
        }
        let place = match previous {
            None => self.items.len(),
            Some("root") => 0,
            Some(id) => match self.place(id) {
                Some(place) => place + 1,
                None => {
                    return Err(no_item(
                        "item_create_invalid_previous_item_id",
                        "previous_item_id",
                        id,
                    ));
                }
            },
        };
        let before = place.checked_sub(1).and_then(|place| self.items.get(place));
        let before = before.map(|item| item.id.clone());
        self.bytes += item.size(self.hearing);
        self.items.insert(place, item);
        Ok(before)
    }

    /// Removes an item.
    pub(super) fn remove(&mut self, id: &str) -> Option<Item> {
        let item = self.items.remove(self.place(id)?)?;
        self.bytes -= item.size(self.hearing);
        Some(item)
    }

    /// Changes an item, if it is still there; returns it as clients see it, and the id of the item before it.
    pub(super) fn change(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut Item),
    ) -> Option<(Value, Option<String>)> {
        let place = self.place(id)?;
        let before = place.checked_sub(1).and_then(|place| self.items.get(place));
        let before = before.map(|item| item.id.clone());
        let mut item = self.items.get(place)?.clone();
        self.bytes -= item.size(self.hearing);
        change(&mut item);
        self.bytes += item.size(self.hearing);
        let told = item.told.clone();
        self.items[place] = item;
        Some((told, before))
    }

    /// Removes the oldest items beyond the limit, but never the last; returns their ids.
    pub(super) fn trim(&mut self) -> Vec<String> {
        let mut gone = Vec::new();
        while self.items.len() > 1
            && (self.items.len() > self.limits.max_messages || self.bytes > self.limits.max_history_bytes)
        {
            if let Some(item) = self.items.pop_front() {
                self.bytes -= item.size(self.hearing);
                gone.push(item.id);
            }
        }
        gone
    }

    /// Returns true if the user's last message is audio that the model cannot hear, without anything that it can
    /// read.
    pub(super) fn ends_unheard(&self) -> bool {
        let last = self.items.iter().rfind(|item| item.said.role == Role::User);
        last.is_some_and(|item| item.unheard)
    }

    /// The conversation as the model reads it, and the number of its characters that were not read before.
    pub(super) fn read(
        &mut self,
        settings: &Settings,
        model: &ChatModel,
    ) -> Result<(Vec<ChatMessage>, usize), ApiError> {
        let read = messages(self.items.iter(), settings, model)?;
        let mut new = 0;
        for item in self.items.iter_mut().filter(|item| !item.counted) {
            item.counted = true;
            new += item.characters();
        }
        Ok((read, new))
    }

    /// Checks that the model can read these instructions, all system items, and `more` text beside them.
    pub(super) fn check_system(
        &self,
        param: &str,
        instructions: &str,
        more: Option<&Item>,
        model: &ChatModel,
    ) -> Result<(), ApiError> {
        system(param, instructions, self.items.iter().chain(more), model).map(drop)
    }
}

/// Instructions, followed by all system items.
fn system<'a>(
    param: &str,
    instructions: &str,
    items: impl Iterator<Item = &'a Item>,
    model: &ChatModel,
) -> Result<String, ApiError> {
    let mut joined = instructions.to_owned();
    let parts = items.filter(|item| item.said.role == Role::System);
    for part in parts.flat_map(|item| &item.said.parts) {
        if let Part::Text(text) = part {
            let gap = if joined.is_empty() { "" } else { "\n\n" };
            joined.push_str(gap);
            joined.push_str(text);
        }
    }
    let got = joined.len();
    let limit = model.limits.max_text_bytes;
    if got > limit {
        let problem = format!(
            "{param}: instructions and the system's messages have {got} bytes together; expected at most {limit}"
        );
        return Err(ApiError::coded("text_too_long", Some(param), problem));
    }
    Ok(joined)
}

/// Items as messages. Instructions and functions come first, as templates expect; the parts of one answer are one
/// message.
pub(super) fn messages<'a>(
    items: impl Iterator<Item = &'a Item> + Clone,
    settings: &Settings,
    model: &ChatModel,
) -> Result<Vec<ChatMessage>, ApiError> {
    let instructions = system(
        "response.instructions",
        &settings.instructions,
        items.clone(),
        model,
    )?;
    let mut parts: Vec<_> = settings.offered().map(|tool| tool.part().clone()).collect();
    if !instructions.is_empty() {
        parts.insert(0, Part::Text(instructions.into()));
    }
    let role = Role::System;
    let mut said = if parts.is_empty() {
        Vec::new()
    } else {
        vec![ChatMessage { role, parts }]
    };
    for item in items.filter(|item| !item.said.parts.is_empty() && item.said.role != role) {
        match said.last_mut() {
            Some(last) if item.is_call && last.role == Role::Assistant => {
                last.parts.extend(item.said.parts.iter().cloned());
            }
            _ => said.push(item.said.clone()),
        }
    }
    Ok(said)
}

/// Error for an unknown item.
pub(super) fn no_item(code: &str, param: &str, id: &str) -> ApiError {
    let problem = format!("{param}: there is no item {:?}", omni_core::error::excerpt(id));
    ApiError::coded(code, Some(param), problem)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conversation(max_history_bytes: usize) -> Conversation {
        let mut conversation = Conversation::new("conv".to_owned(), None);
        conversation.limits.max_history_bytes = max_history_bytes;
        conversation
    }

    #[test]
    fn all_that_items_keep_is_counted() {
        let long = "a".repeat(10_000);
        let mut spoken = Item::recording("b".to_owned(), None);
        spoken.told["content"][0]["transcript"] = json!(long);
        for item in [
            Item::asked("a".to_owned(), &long, "f", "{}"),
            Item::asked("a".to_owned(), "call", &long, "{}"),
            Item::asked("a".to_owned(), "call", "f", &long),
            Item::asked(long.clone(), "call", "f", "{}"),
            spoken,
        ] {
            let mut conversation = conversation(10_000);
            let first = item.id.clone();
            conversation.insert(item, None).unwrap();
            assert_eq!(conversation.trim(), [""; 0], "the last is never taken out");
            let short = Item::recording("short".to_owned(), None);
            conversation.insert(short, None).unwrap();
            assert_eq!(conversation.trim(), [first]);
            conversation.remove("short");
            assert_eq!(conversation.bytes, 0);
        }
    }

    #[test]
    fn a_transcript_that_comes_later_is_counted_too() {
        let mut conversation = conversation(10_000);
        for id in ["a", "b"] {
            conversation
                .insert(Item::recording(id.to_owned(), None), None)
                .unwrap();
        }
        assert_eq!(conversation.trim(), [""; 0]);
        let long = "a".repeat(10_000);
        conversation.change("b", |item| item.told["content"][0]["transcript"] = json!(long));
        assert_eq!(conversation.trim(), ["a"]);
    }
}
