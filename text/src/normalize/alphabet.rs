//! The characters a voice speaks, and what to use for those it does not.

use crate::TextError;
use std::collections::BTreeSet;

/// The characters a voice speaks.
#[derive(Debug, Clone)]
pub(super) struct Alphabet {
    speakable: BTreeSet<char>,
}

impl Alphabet {
    pub(super) fn new(speakable: &str) -> Result<Self, TextError> {
        let alphabet = Self {
            speakable: speakable.chars().collect(),
        };
        let missing: String = ('a'..='z')
            .chain([' '])
            .filter(|&c| alphabet.letter(c).is_none())
            .collect();
        if missing.is_empty() {
            Ok(alphabet)
        } else {
            Err(TextError::Alphabet { missing })
        }
    }

    /// A letter or other character of a word in the case that the voice knows.
    pub(super) fn letter(&self, c: char) -> Option<char> {
        [c, c.to_ascii_uppercase()]
            .into_iter()
            .find(|c| self.speakable.contains(c))
    }

    /// The mark itself, or the nearest one that the voice knows.
    pub(super) fn mark(&self, c: char) -> Option<char> {
        let nearest: &[char] = match c {
            ';' => &[';', ',', '.'],
            ':' => &[':', ',', '.'],
            ',' => &[',', ';', ':'],
            '!' => &['!', '.'],
            '?' => &['?', '.'],
            _ => &[c],
        };
        nearest.iter().copied().find(|c| self.speakable.contains(c))
    }
}
