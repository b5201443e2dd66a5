//! The conversation: items in their order, in bounded memory.

use std::collections::VecDeque;

use serde_json::Value;

use super::items::Item;
use super::settings::Settings;
use crate::model::{ChatMessage, Hearing, Part, Role};
use crate::openai::error::ApiError;
use crate::service::{ChatModel, PartRequest};
use crate::session::ChatLimits;

/// What an item takes besides what is said in it, in bytes.
const ITEM: usize = 1 << 10;

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
        // What is looked for is most often new.
        self.items.iter().rposition(|item| item.id == id)
    }

    pub(super) fn get(&self, id: &str) -> Option<&Item> {
        self.place(id).and_then(|place| self.items.get(place))
    }

    /// Puts an item behind `previous`, `root` being the beginning, or at the end. Gives the name of the item before it.
    ///
    /// # Errors
    /// If there is no such item, or one of the same name.
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
        self.bytes += self.size(&item);
        self.items.insert(place, item);
        Ok(before)
    }

    /// Takes an item out.
    pub(super) fn remove(&mut self, id: &str) -> Option<Item> {
        let item = self.items.remove(self.place(id)?)?;
        self.bytes -= self.size(&item);
        Some(item)
    }

    /// Changes an item, if it is still there; gives it as clients are told, and the name of that before it.
    pub(super) fn change(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut Item),
    ) -> Option<(Value, Option<String>)> {
        let place = self.place(id)?;
        let before = place.checked_sub(1).and_then(|place| self.items.get(place));
        let before = before.map(|item| item.id.clone());
        let mut item = self.items.get(place)?.clone();
        self.bytes -= self.size(&item);
        change(&mut item);
        self.bytes += self.size(&item);
        let told = item.told.clone();
        self.items[place] = item;
        Some((told, before))
    }

    /// Takes out the oldest items until as many are left as may be remembered, but never the last; gives their names.
    pub(super) fn trim(&mut self) -> Vec<String> {
        let mut gone = Vec::new();
        while self.items.len() > 1
            && (self.items.len() > self.limits.max_messages || self.bytes > self.limits.max_history_bytes)
        {
            if let Some(item) = self.items.pop_front() {
                self.bytes -= self.size(&item);
                gone.push(item.id);
            }
        }
        gone
    }

    /// Bytes of memory, about.
    fn size(&self, item: &Item) -> usize {
        let parts = item.said.parts.iter().map(|part| match part {
            // The client is told it, too.
            Part::Text(text) => 2 * text.len(),
            Part::Tool(tool) => 2 * tool.size(),
            Part::Audio(clip) => {
                let samples = clip.samples();
                let rows = self.hearing.map_or(0, |hearing| hearing.row_bytes(samples.len()));
                size_of_val(samples) + rows
            }
        });
        ITEM + parts.sum::<usize>()
    }

    /// Whether the user has said last what the model cannot hear, and nothing that it can read.
    pub(super) fn ends_unheard(&self) -> bool {
        let last = self.items.iter().rfind(|item| item.said.role == Role::User);
        last.is_some_and(|item| item.unheard)
    }

    /// What the model reads, and how many of its characters were not read before.
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
}

/// Items as messages. Whatever says how the model shall behave comes first, with the functions that it may ask for, because that is
/// where templates have it; what one answer consists of is one message.
pub(super) fn messages<'a>(
    items: impl Iterator<Item = &'a Item>,
    settings: &Settings,
    model: &ChatModel,
) -> Result<Vec<ChatMessage>, ApiError> {
    let mut instructions = settings.instructions.clone();
    let mut said: Vec<ChatMessage> = Vec::new();
    for item in items.filter(|item| !item.said.parts.is_empty()) {
        if item.said.role == Role::System {
            for part in &item.said.parts {
                if let Part::Text(text) = part {
                    let gap = if instructions.is_empty() { "" } else { "\n\n" };
                    instructions.push_str(gap);
                    instructions.push_str(text);
                }
            }
            continue;
        }
        match said.last_mut() {
            Some(last) if item.is_call && last.role == Role::Assistant => {
                last.parts.extend(item.said.parts.iter().cloned());
            }
            _ => said.push(item.said.clone()),
        }
    }
    let offered = settings.tools.iter();
    let offered = offered.filter(|tool| settings.tool_choice.offers(tool));
    let mut parts: Vec<_> = offered.map(super::tools::Tool::part).collect();
    if !instructions.is_empty() {
        parts.insert(0, PartRequest::Text(instructions));
    }
    if !parts.is_empty() {
        said.insert(0, super::items::checked(Role::System, parts, model)?);
    }
    Ok(said)
}

/// There is no item of that name.
pub(super) fn no_item(code: &str, param: &str, id: &str) -> ApiError {
    let problem = format!("{param}: there is no item {:?}", crate::error::excerpt(id));
    ApiError::coded(code, Some(param), problem)
}
