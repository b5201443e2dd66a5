//! The order in which rules are asked: what is more specific first.

use super::out::Out;
use super::text::{Kind, Text};
use super::{between, currency, date, duration, identifier, measure, net, phone, place, symbol, time, word};
use crate::abbrev;

/// The words that a rule made of the tokens from its position on.
#[derive(Debug)]
pub(super) struct Reading {
    /// The words; may hold commas.
    pub(super) words: String,
    /// The token after the last that was read.
    pub(super) end: usize,
    /// True if it took a full stop that may also be that of the sentence.
    pub(super) may_stop: bool,
}

impl Reading {
    pub(super) fn new(words: impl Into<String>, end: usize) -> Self {
        Self {
            words: words.into(),
            end,
            may_stop: false,
        }
    }

    pub(super) fn may_stop(self, may_stop: bool) -> Self {
        Self { may_stop, ..self }
    }
}

/// A kind of thing that is written otherwise than it is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Duration,
    Place,
    Identifier,
    Address,
    Code,
    Phone,
    Date,
    Time,
    Currency,
    Measure,
    Word,
}

impl Rule {
    /// Reads such a thing, if one starts at token `at`.
    pub(super) fn read(self, text: &Text<'_>, at: usize) -> Option<Reading> {
        match self {
            Self::Duration => duration::read(text, at),
            Self::Place => place::read(text, at),
            Self::Identifier => identifier::read(text, at),
            Self::Address => net::address(text, at),
            Self::Code => net::code(text, at),
            Self::Phone => phone::read(text, at),
            Self::Date => date::read(text, at),
            Self::Time => time::read(text, at),
            Self::Currency => currency::read(text, at),
            Self::Measure => measure::read(text, at),
            Self::Word => word::read(text, at),
        }
    }
}

/// Rules for what starts at the start of a run of characters without white space.
static AT_CHUNK: [Rule; 5] = [
    Rule::Duration,
    Rule::Place,
    Rule::Identifier,
    Rule::Address,
    Rule::Code,
];
/// Rules for what may start anywhere.
static ANYWHERE: [Rule; 8] = [
    Rule::Place,
    Rule::Duration,
    Rule::Phone,
    Rule::Date,
    Rule::Time,
    Rule::Currency,
    Rule::Measure,
    Rule::Word,
];

/// Reads what starts at token `at` and returns how many tokens that was.
pub(super) fn read(text: &Text<'_>, at: usize, out: &mut Out<'_>) -> usize {
    match text.kind(at) {
        Some(Kind::Space) => return 1,
        Some(Kind::Break) => {
            if let Some(mark) = line_break(text, at) {
                out.pause(mark);
            }
            return 1;
        }
        _ => {}
    }
    let first: &[Rule] = if text.after_gap(at) || symbol::opens(text, at - 1) {
        &AT_CHUNK
    } else {
        &[]
    };
    for &rule in first.iter().chain(&ANYWHERE) {
        if let Some(reading) = rule.read(text, at) {
            out.say(&reading.words, text.source(at, reading.end));
            if let Some((word, dash)) = between::read(text, at, reading.end, rule) {
                out.say(word, text.source(dash.at, dash.at + 1));
                return dash.next - at;
            }
            if reading.may_stop && sentence_starts(text, reading.end) {
                out.pause('.');
            }
            return reading.end - at;
        }
    }
    symbol::read(text, at, out)
}

/// True if the text ends here or goes on with a word that begins sentences.
fn sentence_starts(text: &Text<'_>, at: usize) -> bool {
    let next = (at..at + 3).find(|&i| !text.is_gap(i) && !text.is_any(i, &["\"", "'", "("]));
    match next {
        None => (at..at + 3).any(|i| text.kind(i).is_none()),
        Some(next) => next > at && text.is_word(next) && abbrev::starts_sentence(text.str(next)),
    }
}

/// The pause of a line break: that of a sentence at an empty line and before a list item, a short one before a capital,
/// none in wrapped text.
fn line_break(text: &Text<'_>, at: usize) -> Option<char> {
    let next = at + 1;
    let item = text.is_any(next, &["-", "*", "\u{2022}", "#", "+"])
        || (text.is_digits(next) && text.is(next + 1, "."));
    if item || text.str(at).matches('\n').count() > 1 {
        return Some('.');
    }
    (text.is_capitalised(next) || text.is_digits(next)).then_some(',')
}
