//! History of a conversation.

use std::collections::VecDeque;
use std::sync::Arc;

use omni_core::id::MessageId;
use omni_family::{ChatMessage, Hearing, Part, Role, ToolPart};

use super::settings::ChatLimits;

/// The conversation, oldest message first, in bounded memory.
#[derive(Debug)]
pub(super) struct History {
    messages: VecDeque<(MessageId, ChatMessage)>,
    bytes: usize,
    hearing: Option<Hearing>,
}

impl History {
    /// Creates the history for a model with this audio input.
    pub(super) fn new(hearing: Option<Hearing>) -> Self {
        Self {
            messages: VecDeque::new(),
            bytes: 0,
            hearing,
        }
    }

    /// Size of a message in memory, in bytes: its audio as samples and as the model's embedding.
    fn size(&self, message: &ChatMessage) -> usize {
        let parts = message.parts.iter().map(|part| match part {
            Part::Text(text) => text.len(),
            Part::Audio(clip) => {
                let samples = clip.samples();
                let rows = self.hearing.map_or(0, |hearing| hearing.row_bytes(samples.len()));
                size_of_val(samples) + rows
            }
            Part::Tool(part) => part.size(),
        });
        parts.sum()
    }

    /// Returns true if there are no messages.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns true if it begins with a system message.
    pub(super) fn has_system(&self) -> bool {
        self.messages
            .front()
            .is_some_and(|(_, message)| message.role == Role::System)
    }

    /// Adds a message. After the last one [`trim`](Self::trim) is to be called.
    pub(super) fn add(&mut self, id: MessageId, message: ChatMessage) {
        self.bytes += self.size(&message);
        self.messages.push_back((id, message));
    }

    /// Drops the oldest messages until `limits` are kept, whole turns where there are any; never the system message,
    /// and never the last. Returns their number.
    pub(super) fn trim(&mut self, limits: &ChatLimits) -> usize {
        let spoken = self.messages.iter().skip(usize::from(self.has_system()));
        let most = spoken.len().saturating_sub(1);
        let mut bytes = self.bytes;
        let mut count = self.messages.len();
        let mut surplus = 0;
        for (_, message) in spoken.take(most) {
            if bytes <= limits.max_history_bytes && count <= limits.max_messages {
                break;
            }
            bytes -= self.size(message);
            count -= 1;
            surplus += 1;
        }
        if surplus == 0 {
            return 0;
        }
        // An assistant that goes on and on has no turns to be cut between.
        let turn = self.turns().find(|turn| *turn >= surplus);
        self.forget(turn.unwrap_or(surplus))
    }

    /// Replaces the text of the last message, if its id is `id`, or removes the message if the text is empty.
    pub(super) fn cut(&mut self, id: &MessageId, text: &str) {
        if self.messages.back().is_some_and(|(last, _)| last == id)
            && let Some((id, message)) = self.messages.pop_back()
        {
            self.bytes -= self.size(&message);
            if !text.is_empty() {
                let message = assistant(text);
                self.bytes += self.size(&message);
                self.messages.push_back((id, message));
            }
        }
    }

    /// Indices of the user's turns, except the first: messages before such a place can be dropped. Counted without
    /// the system message.
    fn turns(&self) -> impl Iterator<Item = usize> {
        let spoken = self.messages.iter().skip(usize::from(self.has_system()));
        let begins = |message: &ChatMessage| {
            // The result of a function belongs to the turn that called it.
            let given = |part: &Part| matches!(part, Part::Tool(_));
            message.role == Role::User && !message.parts.iter().any(given)
        };
        let begins = spoken
            .map(move |(_, message)| begins(message))
            .enumerate()
            .skip(1);
        begins.filter(|(_, begins)| *begins).map(|(at, _)| at)
    }

    /// Drops the oldest `count` messages besides the system message; returns `count`.
    pub(super) fn forget(&mut self, count: usize) -> usize {
        let first = usize::from(self.has_system());
        let forgotten = self.messages.range(first..first + count);
        self.bytes -= forgotten.map(|(_, message)| self.size(message)).sum::<usize>();
        self.messages.drain(first..first + count);
        count
    }

    /// The conversation to answer, with `instructions` in place of the system message if there are any.
    pub(super) fn conversation(&self, instructions: Option<&Arc<str>>) -> Conversation {
        let system = match instructions {
            Some(text) => Some(ChatMessage {
                role: Role::System,
                parts: vec![Part::Text(Arc::clone(text))],
            }),
            None if self.has_system() => self.messages.front().map(|(_, message)| message.clone()),
            None => None,
        };
        let spoken = self.messages.iter().skip(usize::from(self.has_system()));
        Conversation {
            system,
            messages: spoken.map(|(_, message)| message.clone()).collect(),
            turns: self.turns().collect(),
        }
    }
}

/// A conversation that the caller keeps.
pub(super) fn given(messages: &[ChatMessage]) -> Conversation {
    let mut history = History::new(None);
    for message in messages {
        history.add(MessageId::numbered(0), message.clone());
    }
    history.conversation(None)
}

/// A conversation to answer, and the places at which it may be cut.
#[derive(Debug, Clone)]
pub(super) struct Conversation {
    pub(super) system: Option<ChatMessage>,
    /// Messages besides the system message.
    pub(super) messages: Vec<ChatMessage>,
    /// Places before which everything can be left out, ascending.
    pub(super) turns: Vec<usize>,
}

impl Conversation {
    /// Returns true if the model may call functions.
    pub(super) fn offers_tools(&self) -> bool {
        let mut parts = self.system.iter().flat_map(|message| &message.parts);
        parts.any(|part| matches!(part, Part::Tool(ToolPart::Offer(_))))
    }

    /// The system message and the messages from `first` on.
    pub(super) fn from(&self, first: usize) -> Vec<ChatMessage> {
        let system = self.system.iter();
        system.chain(&self.messages[first..]).cloned().collect()
    }
}

/// Characters of messages.
pub(super) fn characters(messages: &[ChatMessage]) -> usize {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let lengths = parts.map(|part| match part {
        Part::Text(text) => text.chars().count(),
        Part::Tool(tool) => tool.characters(),
        Part::Audio(_) => 0,
    });
    lengths.sum()
}

/// Message of the assistant.
pub(super) fn assistant(text: &str) -> ChatMessage {
    ChatMessage {
        role: Role::Assistant,
        parts: vec![Part::Text(text.into())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: Role, text: &str) -> ChatMessage {
        ChatMessage {
            role,
            parts: vec![Part::Text(text.into())],
        }
    }

    fn history(roles: &[Role]) -> History {
        let mut history = History::new(None);
        for (n, role) in (1..).zip(roles) {
            history.add(MessageId::numbered(n), said(*role, "four"));
        }
        history
    }

    use Role::{Assistant as A, System as S, User as U};

    #[test]
    fn whole_turns_are_forgotten_and_never_the_system_or_the_last() {
        let mut history = history(&[S, U, A, U, A, U]);
        let limits = ChatLimits {
            max_history_bytes: 11,
            ..ChatLimits::default()
        };
        history.add(MessageId::numbered(9), said(U, "more"));
        assert_eq!(history.trim(&limits), 5);
        let kept = history.conversation(None);
        assert_eq!(kept.system, Some(said(S, "four")));
        assert_eq!(kept.messages, [said(U, "more")]);
        assert_eq!(history.bytes, 8);
    }

    #[test]
    fn an_assistant_that_goes_on_and_on_is_forgotten_too() {
        let mut history = history(&[S, A, A, A, A]);
        let most = |max_messages, max_history_bytes| ChatLimits {
            max_messages,
            max_history_bytes,
        };
        assert_eq!(history.trim(&most(5, 20)), 0);
        assert_eq!(history.trim(&most(4, 20)), 1);
        assert_eq!(history.trim(&most(4, 12)), 1);
        assert_eq!(history.trim(&most(1, 1)), 1);
        let kept = history.conversation(None);
        assert_eq!(
            (kept.system, kept.messages),
            (Some(said(S, "four")), vec![said(A, "four")])
        );
        assert_eq!(history.bytes, 8);
    }

    #[test]
    fn no_more_is_forgotten_than_the_turns_that_are_too_much() {
        let mut history = history(&[U, A, U, A, U, A]);
        let limits = ChatLimits {
            max_messages: 5,
            ..ChatLimits::default()
        };
        assert_eq!(history.trim(&limits), 2);
        assert_eq!(history.trim(&limits), 0);
    }

    #[test]
    fn what_the_model_makes_of_audio_counts_too() {
        let hearing = Hearing {
            sample_rate: omni_audio::SampleRate::new(16_000).unwrap(),
            min_audio: std::time::Duration::ZERO,
            max_audio: std::time::Duration::MAX,
            rows_per_second: 10,
            row_bytes: 1_000,
        };
        let mut history = History::new(Some(hearing));
        let spoken = ChatMessage {
            role: U,
            parts: vec![Part::Audio(omni_pipeline::request::Clip::new(vec![0.0; 16_000]))],
        };
        history.add(MessageId::numbered(1), spoken);
        assert_eq!(history.bytes, 64_000 + 11_000);
        history.add(MessageId::numbered(2), said(U, "four"));
        let limits = ChatLimits {
            max_history_bytes: 70_000,
            ..ChatLimits::default()
        };
        assert_eq!(history.trim(&limits), 1);
        assert_eq!(history.bytes, 4);
    }

    #[test]
    fn instructions_take_the_place_of_the_systems_message() {
        let history = history(&[S, U]);
        let conversation = history.conversation(Some(&"be kind".into()));
        assert_eq!(conversation.from(0), [said(S, "be kind"), said(U, "four")]);
        assert_eq!(characters(&conversation.from(0)), 11);
    }

    #[test]
    fn only_the_last_message_can_be_cut() {
        let mut history = history(&[U, A]);
        history.cut(&MessageId::numbered(1), "");
        assert_eq!(history.conversation(None).messages.len(), 2);
        history.cut(&MessageId::numbered(2), "fo");
        assert_eq!(
            history.conversation(None).messages,
            [said(U, "four"), said(A, "fo")]
        );
        history.cut(&MessageId::numbered(2), "");
        assert_eq!(history.conversation(None).messages, [said(U, "four")]);
        assert_eq!(history.bytes, 4);
    }
}
