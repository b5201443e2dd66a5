//! Shortening the instructions and the last turn, where the model's context does not take them whole.
//!
//! The last turn is kept whole as long as the instructions can be cut. They keep at least a quarter of the room; then
//! the longest texts of the turn are cut, all to the same length. The middle of a text is removed: the task mostly
//! stands at its beginning and the question at its end.

use std::sync::Arc;

use omni_family::{ChatMessage, Part, Role, ToolPart};

/// The reason of the warning.
pub(super) const PROMPT_TRIMMED: &str = "PROMPT_TRIMMED";
/// Text in place of a removed part.
const GAP: &str = " … ";
/// Divisor: the instructions keep this part of the room.
const KEPT: usize = 4;
/// Bytes by which a cut may move, so that it comes between words.
const WORD: usize = 24;

/// Texts of a conversation that may be cut, in bytes.
#[derive(Debug, Clone)]
pub(super) struct Lengths {
    instructions: usize,
    /// Lengths of the last turn's texts, ascending.
    turn: Vec<usize>,
}

/// Limits of texts, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    instructions: usize,
    turn: usize,
}

impl Lengths {
    /// Lengths of the system message and the last turn.
    pub(super) fn of(messages: &[ChatMessage]) -> Self {
        let of = |system: bool| {
            let own = messages
                .iter()
                .filter(move |said| (said.role == Role::System) == system);
            own.flat_map(|said| &said.parts)
                .filter_map(text)
                .map(|text| text.len())
        };
        let mut turn: Vec<_> = of(false).collect();
        turn.sort_unstable();
        Self {
            instructions: of(true).sum(),
            turn,
        }
    }

    /// All of them.
    pub(super) fn total(&self) -> usize {
        self.instructions + self.turn.iter().sum::<usize>()
    }

    /// Shares `bytes` among the texts.
    fn limits(&self, bytes: usize) -> Limits {
        let turn: usize = self.turn.iter().sum();
        let instructions = self
            .instructions
            .min((bytes / KEPT).max(bytes.saturating_sub(turn)));
        let mut left = bytes - instructions;
        let mut longer = self.turn.len();
        for length in &self.turn {
            if *length > left / longer {
                return Limits {
                    instructions,
                    turn: left / longer,
                };
            }
            left -= length;
            longer -= 1;
        }
        let turn = usize::MAX;
        Limits { instructions, turn }
    }

    /// The system message and the last turn with about `bytes` bytes of text.
    pub(super) fn cut(&self, messages: &[ChatMessage], bytes: usize) -> Vec<ChatMessage> {
        let limits = self.limits(bytes);
        let mut instructions = limits.instructions;
        let mut said = messages.to_vec();
        for message in &mut said {
            let is_system = message.role == Role::System;
            message.parts.retain_mut(|part| {
                let Some(text) = text_mut(part) else { return true };
                let most = if is_system { instructions } else { limits.turn };
                instructions -= if is_system { text.len().min(most) } else { 0 };
                if text.len() > most {
                    *text = shortened(text, most).into();
                }
                !text.is_empty()
            });
        }
        said.retain(|message| message.role != Role::System || !message.parts.is_empty());
        said
    }
}

fn text(part: &Part) -> Option<&Arc<str>> {
    match part {
        Part::Text(text) | Part::Tool(ToolPart::Result(text)) => Some(text),
        Part::Audio(_) | Part::Tool(_) => None,
    }
}

fn text_mut(part: &mut Part) -> Option<&mut Arc<str>> {
    match part {
        Part::Text(text) | Part::Tool(ToolPart::Result(text)) => Some(text),
        Part::Audio(_) | Part::Tool(_) => None,
    }
}

/// The beginning and the end of a text, `most` bytes at most; nothing if that is no more than the gap between them.
pub fn shortened(text: &str, most: usize) -> String {
    let half = most.saturating_sub(GAP.len()) / 2;
    if half == 0 {
        return String::new();
    }
    let mut begin = text.floor_char_boundary(half);
    let mut end = text.ceil_char_boundary(text.len() - half);
    if !text[begin..].starts_with(char::is_whitespace)
        && let Some(blank) = text[..begin].rfind(char::is_whitespace)
        && begin - blank < WORD
    {
        begin = blank;
    }
    if !text[..end].ends_with(char::is_whitespace)
        && let Some(blank) = text[end..].find(char::is_whitespace)
        && blank < WORD
    {
        end += blank;
    }
    [text[..begin].trim_end(), GAP, text[end..].trim_start()].concat()
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

    fn texts(messages: &[ChatMessage]) -> Vec<usize> {
        let parts = messages.iter().flat_map(|message| &message.parts);
        parts.filter_map(text).map(|text| text.len()).collect()
    }

    #[test]
    fn instructions_give_way_first_and_keep_a_quarter() {
        let lengths = |instructions, turn: &[usize]| Lengths {
            instructions,
            turn: turn.to_vec(),
        };
        for (lengths, bytes, instructions, turn) in [
            (lengths(100, &[50]), 150, 100, usize::MAX),
            (lengths(100, &[50]), 90, 40, usize::MAX),
            (lengths(100, &[50]), 60, 15, 45),
            (lengths(10, &[500]), 100, 10, 90),
            (lengths(0, &[5, 30, 500]), 105, 0, 70),
            (lengths(0, &[30, 500, 500]), 100, 0, 35),
            (lengths(100, &[]), 40, 40, usize::MAX),
            (lengths(100, &[50]), 0, 0, 0),
        ] {
            let limits = lengths.limits(bytes);
            assert_eq!(limits, Limits { instructions, turn }, "{lengths:?} in {bytes}");
        }
    }

    #[test]
    fn the_longer_the_room_the_more_is_kept_and_never_more_than_there_is_room_for() {
        let words = "one two three four five six seven eight nine ten ".repeat(9);
        let messages = [
            said(Role::System, &words),
            said(Role::User, &words[..200]),
            said(Role::User, "short"),
        ];
        let lengths = Lengths::of(&messages);
        assert_eq!(lengths.total(), words.len() + 205);
        let mut before = 0;
        for bytes in (0..=lengths.total()).step_by(13) {
            let kept: usize = texts(&lengths.cut(&messages, bytes)).iter().sum();
            assert!(kept <= bytes, "{kept} of {bytes}");
            assert!(kept + 2 * WORD >= before, "{kept} of {bytes}, {before} before");
            before = kept;
        }
        assert_eq!(lengths.cut(&messages, lengths.total()), messages);
    }

    #[test]
    fn a_text_loses_its_middle_between_words_and_characters() {
        assert_eq!(shortened("one two three four five six", 21), "one two … five six");
        assert_eq!(shortened(&"é".repeat(99), 15), "éé … éé");
        assert_eq!(shortened(&"x".repeat(99), 15), "xxxxx … xxxxx");
        for most in 0..9 {
            assert!(shortened(&"é".repeat(99), most).len() <= most);
        }
        assert_eq!(shortened("one two", 6), "");
    }
}
