//! Pronunciations in place: `[word](/phonemes/)`, and the words of lexicons.

use std::ops::Range;

use crate::{Accent, Alphabet, Lexicon, PhonemeError};

/// Most characters of the words that one pronunciation is of.
const LONGEST: usize = 128;

/// A text without its marks.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    /// The characters that are read: spaces for any blank, parentheses for brackets.
    pub(crate) chars: Vec<char>,
    /// The place of each in the text that was given.
    pub(crate) source: Vec<usize>,
    pub(crate) given: Vec<Given>,
}

/// Characters whose pronunciation is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    /// The characters that are read.
    pub(crate) chars: Range<usize>,
    /// Those of the text that was given.
    pub(crate) source: Range<usize>,
    pub(crate) phonemes: String,
}

/// Takes the pronunciations in place out of a text.
///
/// # Errors
/// [`PhonemeError::Symbols`] or [`PhonemeError::Length`] for phonemes that cannot be spoken.
pub(crate) fn plain(text: &str, accent: Accent) -> Result<Plain, PhonemeError> {
    let chars: Vec<char> = text.chars().collect();
    let mut plain = Plain::default();
    let mut at = 0;
    while at < chars.len() {
        let Some((word, phonemes)) = mark(&chars[at..]) else {
            plain.push(chars[at], at);
            at += 1;
            continue;
        };
        let written: String = chars[at + phonemes.start..at + phonemes.end].iter().collect();
        let from = plain.chars.len();
        (at + word.start..at + word.end).for_each(|place| plain.push(chars[place], place));
        let end = at + phonemes.end + 1;
        plain.given.push(Given {
            chars: from..plain.chars.len(),
            source: at..end,
            phonemes: Alphabet::Ipa.read(&written, accent)?,
        });
        at = end;
    }
    Ok(plain)
}

/// The word and the phonemes, slashes included, of a mark that `chars` begin with.
fn mark(chars: &[char]) -> Option<(Range<usize>, Range<usize>)> {
    if chars.first() != Some(&'[') {
        return None;
    }
    let near = &chars[..chars.len().min(LONGEST + 2)];
    let close = near.iter().skip(1).position(|c| matches!(c, '[' | ']' | '\n'))? + 1;
    let said = chars[1..close].iter().any(|c| c.is_alphanumeric());
    if !said || chars.get(close..close + 3) != Some(&[']', '(', '/']) {
        return None;
    }
    let from = close + 2;
    let near = &chars[from..chars.len().min(from + 2 * LONGEST)];
    let end = near.iter().position(|c| matches!(c, ')' | '\n'))? + from;
    let closed = end > from + 1 && chars[end] == ')' && chars[end - 1] == '/';
    closed.then_some((1..close, from..end))
}

impl Plain {
    /// The characters of a range.
    pub(crate) fn text(&self, chars: &Range<usize>) -> String {
        self.chars[chars.clone()].iter().collect()
    }

    fn push(&mut self, c: char, place: usize) {
        self.chars.push(match c {
            // The library has marks of its own in brackets, and its regular expressions know no other apostrophe.
            '[' => '(',
            ']' => ')',
            '\u{2019}' | '\u{2bc}' => '\'',
            c if c.is_whitespace() || c.is_control() => ' ',
            c => c,
        });
        self.source.push(place);
    }

    /// Finds the words of lexicons, of which the first has precedence, but for words whose pronunciation is given in place.
    pub(crate) fn look_up(&mut self, lexicons: &[&Lexicon]) {
        if lexicons.iter().all(|lexicon| lexicon.is_empty()) {
            return;
        }
        let mut found = Vec::new();
        for chunk in runs(&self.chars, 0..self.chars.len(), |c| c != ' ') {
            let taken = |given: &Given| given.chars.start < chunk.end && chunk.start < given.chars.end;
            if self.given.iter().any(taken) {
                continue;
            }
            // The whole, as "C++"; without the marks around it; its parts.
            let bare = trimmed(&self.chars, chunk.clone());
            let parts = runs(&self.chars, bare.clone(), |c| c.is_alphanumeric() || c == '\'');
            let mut candidates = vec![chunk, bare];
            candidates.retain(|range| !range.is_empty());
            match candidates
                .into_iter()
                .find_map(|range| self.entry(range, lexicons))
            {
                Some(given) => found.push(given),
                None => found.extend(parts.into_iter().filter_map(|range| self.entry(range, lexicons))),
            }
        }
        self.given.extend(found);
        self.given.sort_by_key(|given| given.chars.start);
    }

    fn entry(&self, range: Range<usize>, lexicons: &[&Lexicon]) -> Option<Given> {
        let word = self.text(&range);
        let find = |word: &str| lexicons.iter().find_map(|lexicon| lexicon.get(word));
        let (phonemes, less) = match find(&word) {
            Some(phonemes) => (phonemes, 0),
            None => (find(word.strip_suffix("'s")?)?, 2),
        };
        let chars = range.start..range.end - less;
        Some(Given {
            source: self.source[chars.start]..self.source[chars.end - 1] + 1,
            chars,
            phonemes: phonemes.to_owned(),
        })
    }
}

/// Ranges of characters that have something in common.
fn runs(chars: &[char], range: Range<usize>, is: impl Fn(char) -> bool) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for at in range.filter(|&at| is(chars[at])) {
        match found.last_mut().filter(|last| last.end == at) {
            Some(last) => last.end = at + 1,
            None => found.push(at..at + 1),
        }
    }
    found
}

/// A range without the characters at its ends that are no letters and no digits.
fn trimmed(chars: &[char], mut range: Range<usize>) -> Range<usize> {
    while !range.is_empty() && !chars[range.start].is_alphanumeric() {
        range.start += 1;
    }
    while !range.is_empty() && !chars[range.end - 1].is_alphanumeric() {
        range.end -= 1;
    }
    range
}
